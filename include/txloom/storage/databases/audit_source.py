"""What an audit needs of the side that the lake is compared with, whatever it is."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from txloom.config.models.pipeline import Table
from txloom.current.equality.canonical_texts import Form

Key = tuple[str, ...]
"""The canonical texts of a key's values."""
Handle = tuple[Any, ...]
"""A key's values as the source takes them."""
Texts = tuple[str | None, ...]
LOCK_WAIT_S = 10
"""Seconds that an audit waits for a table that another statement has locked."""


class TableChanged(Exception):
    """A table cannot be read as of the snapshot: a statement that has no versions of rows touched it meanwhile.

    TRUNCATE, an ALTER TABLE that rewrites, a partition that comes or goes, a rename: a snapshot taken before reads the
    table as it is after them, mostly as empty.
    """


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
    def forms(self) -> Mapping[str, Form]:
        """By declared name, how a column writes equal values in several ways."""

    @property
    def widths(self) -> Mapping[str, int]:
        """By declared name, up to how many characters the source pads a column's texts with blanks."""

    @property
    def undeclared(self) -> Sequence[str]:
        """The names of the source's columns that are not declared."""


class AuditSource(Protocol):
    """A source that is read at one moment: digests of key ranges, and rows by their keys."""

    rows: int
    seconds: float
    """Rows that were read, and the seconds that the source took for all of it."""

    @property
    def as_of(self) -> int | None:
        """The csn as of which its rows are for good; None: each snapshot is of another moment."""

    def begin(self, tables: Sequence[Table] = ()) -> Moment:
        """Begin a new snapshot in which some tables will be read, and end the one before."""

    def mark(self) -> None:
        """Let the source's log go on behind the snapshot, where that is possible without changing a table."""

    def shows(self, moment: Any, csn: int, tables: Sequence[Table]) -> bool:
        """Return whether a lake that shows some tables up to a csn shows all that the snapshot may have of them."""

    def reading(self, table: Table) -> AbstractContextManager[Relation]:
        """Return the table that a declared one is, for a block that reads it within the snapshot.

        Raises ConfigurationError where there is none, or one too many, and TableChanged, at the latest where the block
        ends, where what was read is not the table as of the snapshot.
        """

    def total(self, relation: Any, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none.

        Rows whose key is null in part are in no range.
        """

    def listed(self, relation: Any, low: Handle, high: Handle) -> Mapping[Key, tuple[Handle, int]]:
        """Return by canonical key the key of a range, and the sum of the digests of all rows that have it."""

    def keyless(self, relation: Any) -> Sequence[Texts]:
        """Return the canonical texts of the keys that are null in part, one for each row."""

    def rows_of(self, relation: Any, keys: Sequence[Handle]) -> Mapping[Key, Sequence[Texts]]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out.

        A key has several rows where it is not unique in the source.
        """


class LiveSource(AuditSource, Protocol):
    """A database, which can also be asked for rows outside of a snapshot."""

    def position(self) -> int:
        """Return the csn that the source has reached, outside of a snapshot."""

    def relation(self, table: Table) -> Any:
        """Return the table that a declared one is, to be read outside of a snapshot; errors are those of `reading`."""

    def rows_now(self, relation: Any, keys: Sequence[Handle]) -> Mapping[Key, Sequence[Texts]]:
        """Return the rows of `rows_of` as the source has them now, outside of a snapshot.

        Nothing that empties or rewrites the table while it is read makes a row seem absent. A row may come under
        another canonical key than was asked for, where the source takes the two for equal.
        """


def by_key(rows: Iterable[Texts], width: int) -> dict[Key, list[Texts]]:
    """Return rows by the first so many of their texts.

    >>> by_key([("a", "x"), ("b", None), ("a", "y")], 1)
    {('a',): [('a', 'x'), ('a', 'y')], ('b',): [('b', None)]}
    """
    known = dict[Key, list[Texts]]()
    for row in rows:
        known.setdefault(row[:width], []).append(row)  # type: ignore[arg-type]  # a key has no null
    return known
