"""The state of the buffer after its newest complete batch, from the commit metadata of `pending_transactions`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from txloom.config import names
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths


@dataclass(frozen=True)
class Written:
    """What a batch of the buffer knows of a history.

    Args:
        release: the newest release that has rows in it; 0: none, or none is known.
        version: a version of the table; the history is known to have every commit up to it.
    """

    release: int = 0
    version: int = 0


@dataclass(frozen=True)
class Declared:
    """The declaration that a batch worked by.

    Lakes of before it was recorded have none: the digest is "" and the number is 0 there.
    """

    content: str = ""
    """The digest of `contents.pipeline_content`."""
    number: int = 0
    """The number of the newest record of the table `completeness` (its column `entered`)."""
    histories: dict[str, Written] = field(default_factory=dict, compare=False)
    """What is known of each history. The batches of a run keep it up to date (`note_commit`)."""

    @property
    def stamp(self) -> str:
        """Return what changes whenever the declaration, or a record of it, does; "" before there was any."""
        return f"{self.number}/{self.content}" if self.number else ""

    def note_commit(self, history: str, release: int, version: int | None) -> None:
        """Note that a batch has appended its rows to a history; nothing for a table that is not a declared history.

        Args:
            history: the table.
            release: the release of the batch.
            version: the version that the commit made; None: an earlier run of the batch made the commit.
        """
        if (before := self.histories.get(history)) is not None:
            # Commits of others between the two versions were not looked at yet.
            reached = version if version == before.version + 1 else before.version
            self.histories[history] = Written(release, reached)

    def to_metadata(self) -> dict[str, Any]:
        """Return it as entries of a commit's userMetadata."""
        histories = {name: [each.release, each.version] for name, each in self.histories.items()}
        return {"declared": {"content": self.content, "number": self.number}, "histories": histories}


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

    @property
    def histories(self) -> Mapping[str, Written]:
        """Return what the batch knew of each history; {} if an earlier version of txloom wrote it."""
        return self.declared.histories


def buffer_state(paths: TablePaths) -> BufferState | None:
    """Return the state after the buffer's newest complete batch; None before the first one.

    A batch writes `pending_transactions` last, so that every transaction up to the state's release is in history, and
    every other one of its landings is listed as pending.
    """
    about = newest_metadata(paths.table(names.PENDING_TRANSACTIONS))
    if not about:
        return None
    histories = {name: Written(*each) for name, each in about.get("histories", {}).items()}
    declared = Declared(**about.get("declared", {}), histories=histories)
    return BufferState(about["release"], about["landing"], about.get("reached"), declared)
