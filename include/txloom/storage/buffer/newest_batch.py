"""The state of the buffer after its newest complete batch, from the commit metadata of `pending_transactions`."""

from dataclasses import dataclass

from txloom.config import names
from txloom.storage.delta.commit_metadata import newest_metadata
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class BufferState:
    """The state of the buffer after its newest complete batch."""

    release: int
    """The batch's release."""
    landing: int
    """The last landing that it took."""
    reached: int | None = None
    """The low watermark over the source's partitions (a csn); None where transactions do not wait for it."""


def buffer_state(paths: TablePaths) -> BufferState | None:
    """Return the state after the buffer's newest complete batch; None before the first one.

    A batch writes `pending_transactions` last, so that every transaction up to the state's release is in history, and
    every other one of its landings is listed as pending.
    """
    about = newest_metadata(paths.table(names.PENDING_TRANSACTIONS))
    return BufferState(about["release"], about["landing"], about.get("reached")) if about else None
