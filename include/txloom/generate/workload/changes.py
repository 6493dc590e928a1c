"""The contents of a source's log: changes of rows, and the transactions that committed them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from txloom.generate.workload.tables import Row, SourceTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = 26
"""The characters of an instant without its zone."""
LSN_STEP = 8
"""The bytes between two positions in the log."""


class Change(NamedTuple):
    """One change of one row: I, U, D, or T for a whole table.

    same_position: it shares its position in the log with the change before it, as rows of one COPY and tables of one
    TRUNCATE do. removed: the rows that a T removed.
    """

    table: SourceTable
    op: str
    before: Row | None
    after: Row | None
    same_position: bool = False
    removed: Sequence[Row] = ()


class Cut(Protocol):
    """A state between two transactions: the csn of the one before it, and the last microsecond of that one."""

    @property
    def csn(self) -> int:
        """Return the csn of the last transaction."""
        ...

    @property
    def until(self) -> int:
        """Return the last microsecond of that transaction."""
        ...


@dataclass(frozen=True)
class Transaction:
    """One committed transaction; times are microseconds since the epoch.

    number: how many came before it. pos: the position of its first change among all changes. lsn: where it begins in
    the log; csn: the position of its commit. until: the last microsecond of its changes; the next one commits later.
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
        """Return the position of each change in the log."""
        lsns, lsn = [], self.lsn
        for change in self.changes:
            if not change.same_position:
                lsn += LSN_STEP
            lsns.append(lsn)
        return lsns


def moment(micros: int) -> str:
    """Return the text of an instant with all its digits, in UTC.

    >>> moment(1_500_000)
    '1970-01-01 00:00:01.500000'
    """
    return (EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")[:MOMENT]


def short_moment(micros: int) -> str:
    """Return the text of an instant as PostgreSQL writes it, without trailing zeros.

    >>> short_moment(1_500_000), short_moment(2_000_000)
    ('1970-01-01 00:00:01.5', '1970-01-01 00:00:02')
    """
    return moment(micros).rstrip("0").removesuffix(".") if micros % 1_000_000 else moment(micros)[:19]


def micros_of(instant: datetime) -> int:
    """Return an instant as microseconds since the epoch."""
    return (instant - EPOCH) // timedelta(microseconds=1)
