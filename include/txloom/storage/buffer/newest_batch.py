"""The state of the buffer after its newest complete batch, from the commit metadata of `pending_transactions`."""

from dataclasses import asdict, dataclass, field
from typing import Any

from txloom.config import names
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class Declared:
    """The declaration that a batch worked by.

    Lakes of before it was recorded have none: the digest is "" and the number is 0 there.
    """

    content: str = ""
    """The digest of `contents.pipeline_content`."""
    number: int = 0
    """The number of the newest record of the table `completeness` (its column `entered`)."""

    @property
    def stamp(self) -> str:
        """Return what changes whenever the declaration, or a record of it, does; "" before there was any."""
        return f"{self.number}/{self.content}" if self.number else ""

    def to_metadata(self) -> dict[str, Any]:
        """Return it as entries of a commit's userMetadata."""
        return {"declared": asdict(self)}


@dataclass(frozen=True)
class BufferState:
    """The state of the buffer after its newest complete batch."""

    release: int
    """The batch's release."""
    landing: int
    """The last landing that it took."""
    reached: int | None = None
    """The low watermark over the source's partitions (a csn); None where transactions do not wait for it."""
    declared: Declared = field(default_factory=Declared)
    """The declaration that the batch worked by."""


def buffer_state(paths: TablePaths) -> BufferState | None:
    """Return the state after the buffer's newest complete batch; None before the first one.

    A batch writes `pending_transactions` last, so that every transaction up to the state's release is in history, and
    every other one of its landings is listed as pending.
    """
    about = newest_metadata(paths.table(names.PENDING_TRANSACTIONS))
    if not about:
        return None
    return BufferState(about["release"], about["landing"], about.get("reached"), Declared(**about.get("declared", {})))
