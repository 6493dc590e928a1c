"""What the buffer knew at the end of its newest complete batch, as the commit of its list of what waits says it."""

from dataclasses import dataclass

from txloom.config import names
from txloom.storage.delta.commit_metadata import newest_metadata
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class BufferState:
    """What the buffer knew at the end of its newest complete batch; reached: how far its source's partitions were."""

    release: int
    landing: int
    reached: int | None = None


def buffer_state(paths: TablePaths) -> BufferState | None:
    """Return the state after the buffer's newest complete batch, None before its first one.

    A batch lists what waits only after its transactions were written, so that everything released up to the state's
    release is complete and everything else that was heard of is listed as waiting.
    """
    about = newest_metadata(paths.table(names.PENDING_TRANSACTIONS))
    return BufferState(about["release"], about["landing"], about.get("reached")) if about else None
