"""What a source's log says: changes of rows, and the transactions that committed them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from txloom.generate.workload.tables import Row, SourceTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = 26
"""Characters of an instant without its zone."""
LSN_STEP = 8
"""Bytes between two positions in the log."""


class Change(NamedTuple):
    """One change of one row: I, U, D, or T for a whole table.

    together: it shares its position in the log with the change before it, as rows of one COPY and tables of one
    TRUNCATE do. removed: the rows that a T took away.
    """

    table: SourceTable
    op: str
    before: Row | None
    after: Row | None
    same_position: bool = False
    removed: Sequence[Row] = ()


class Cut(Protocol):
    """A state between two transactions: the csn of the one before it, and the last microsecond that was its own."""

    @property
    def csn(self) -> int:
        """Return where its commit stands."""
        ...

    @property
    def until(self) -> int:
        """Return its last microsecond."""
        ...


@dataclass(frozen=True)
class Transaction:
    """One committed transaction; times are microseconds since the epoch.

    number: how many came before it. pos: the position of its first change among all changes. lsn: where it begins in
    the log; csn: where its commit stands. until: the last microsecond that is its own; the next one commits later.
    """

    number: int
    xid: int
    csn: int
    lsn: int
    pos: int
    begun: int
    committed: int
    until: int
    changes: list[Change]

    def lsns(self) -> list[int]:
        """Return where in the log each change stands."""
        lsns, lsn = [], self.lsn
        for change in self.changes:
            if not change.same_position:
                lsn += LSN_STEP
            lsns.append(lsn)
        return lsns


def moment(micros: int) -> str:
    """Write an instant with all its digits, in UTC.

    >>> moment(1_500_000)
    '1970-01-01 00:00:01.500000'
    """
    return (EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")[:MOMENT]


def short_moment(micros: int) -> str:
    """Write an instant as PostgreSQL does, without needless zeros.

    >>> short_moment(1_500_000), short_moment(2_000_000)
    ('1970-01-01 00:00:01.5', '1970-01-01 00:00:02')
    """
    return moment(micros).rstrip("0").removesuffix(".") if micros % 1_000_000 else moment(micros)[:19]


def micros_of(instant: datetime) -> int:
    """Return an instant as microseconds since the epoch."""
    return (instant - EPOCH) // timedelta(microseconds=1)
