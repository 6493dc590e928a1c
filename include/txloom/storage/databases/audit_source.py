"""What an audit needs of the side that the lake is compared with, whatever it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from txloom.config.models.pipeline import Table

Key = tuple[str, ...]
"""The canonical texts of a key's values."""
Handle = tuple[Any, ...]
"""A key's values as the source takes them."""
Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class Limits:
    """What a reader may ask of a source.

    Args:
        rows_per_second: read on average.
        statement: seconds that one statement may take.
    """

    rows_per_second: int
    statement: float


class Moment(Protocol):
    """Where a snapshot lies in the source's log."""

    @property
    def at_most(self) -> int:
        """No change above this csn is in the snapshot."""

    @property
    def at(self) -> datetime:
        """When it was taken, by the source's clock."""

    @property
    def unseen(self) -> str:
        """The SQL condition of changes in the lake's history by transactions that the snapshot may not have."""


class Relation(Protocol):
    """A table of the source, with the lake's columns."""

    @property
    def padded(self) -> frozenset[str]:
        """Declared columns whose equal values the source writes in several ways."""

    @property
    def widths(self) -> Mapping[str, int]:
        """By declared name, up to how many characters the source pads a column's texts with blanks."""


class AuditSource(Protocol):
    """A source that is read at one moment: digests of key ranges, and rows by their keys."""

    rows: int
    seconds: float
    """Rows that were read, and the seconds that the source took for all of it."""

    @property
    def as_of(self) -> int | None:
        """The csn as of which its rows are for good; None: each snapshot is of another moment."""

    def begin(self) -> Moment:
        """Begin a new snapshot, and end the one before."""

    def mark(self) -> None:
        """Let the source's log go on behind the snapshot, where that is possible without changing a table."""

    def shows(self, moment: Any, csn: int, tables: Sequence[Table]) -> bool:
        """Return whether a lake that shows some tables up to a csn shows all that the snapshot may have of them."""

    def relation(self, table: Table) -> Relation:
        """Return the table that a declared one is; raises ConfigurationError where there is none, or one too many."""

    def total(self, relation: Any, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""

    def listed(self, relation: Any, low: Handle, high: Handle) -> Mapping[Key, tuple[Handle, int]]:
        """Return the key and the digest of each row of a key range by its canonical key."""

    def rows_of(self, relation: Any, keys: Sequence[Handle]) -> Mapping[Key, Texts]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""


class LiveSource(AuditSource, Protocol):
    """A database, which can also be asked for rows outside of a snapshot."""

    def position(self) -> int:
        """Return the csn that the source has reached, outside of a snapshot."""

    def rows_now(self, relation: Any, keys: Sequence[Handle]) -> Mapping[Key, Texts]:
        """Return the rows of `rows_of` as the source has them now, outside of a snapshot.

        Nothing that empties or rewrites the table while it is read makes a row seem absent. A row may come under
        another canonical key than was asked for, where the source takes the two for equal.
        """
