"""Transactions that wait for missing parts, the longest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, Row, last_step, limits, open_tables

UNDECIDED = "not decided yet"
"""Shown as the cause of a transaction that has none."""


SHOWN = "transaction_id, xid, csn, committed_at, first_landed_at, age_seconds, cause, expected, received"
ORDER = ("first_landed_at", "csn", "transaction_id")
ORDERED = f"order by {', '.join(ORDER)}"
DEEP = 10_000
"""Rows up to which SQL finds a page; further on, a limit with an offset takes seconds in a million rows."""


@dataclass(frozen=True)
class Waiting:
    """A page of waiting transactions; causes: how many wait for each cause, before any filter; total: their sum.

    rows: transaction_id, xid, csn, committed_at, first_landed_at, age_seconds, cause, and tables: table, expected (None
    while no metadata was seen), received, and whether they differ.
    """

    page: Page
    causes: dict[str, int]
    total: int


@dataclass(frozen=True)
class Counted:
    """How many transactions wait, and for how long the longest does; None while none waits."""

    transactions: int
    longest_seconds: int | None
    as_of: datetime | None


def counted(paths: TablePaths) -> Counted:
    """Return how many transactions wait, of any cause."""
    groups = _groups(paths)
    longest, as_of = (max((g[n] for g in groups if g[n] is not None), default=None) for n in ("longest", "at"))
    return Counted(sum(group["n"] for group in groups), longest, as_of)


def _groups(paths: TablePaths) -> list[Row]:
    sums = "cause, count(*) as n, max(as_of) as at, max(age_seconds) as longest"
    sql = f"select {sums} from t group by cause order by n desc, cause"
    return small_tables.query(paths.table(names.PENDING_TRANSACTIONS), sql)


@open_tables
def waiting(
    pipeline: Pipeline,
    warehouse: str,
    *,
    number: int = 1,
    size: int = SIZE,
    cause: str | None = None,
    longer: timedelta | None = None,
) -> Waiting:
    """Return waiting transactions; cause: only of this cause; longer: only those that have waited for longer."""
    path, bounds = TablePaths(warehouse, pipeline.name).table(names.PENDING_TRANSACTIONS), limits(number, size)
    groups = _groups(TablePaths(warehouse, pipeline.name))
    where = "true" if cause is None else f"coalesce(cause, '{UNDECIDED}') = {text_literal(cause)}"
    if longer is not None:
        where += f" and age_seconds > {int(longer.total_seconds())}"
    total = small_tables.query(path, f"select count(*) as n from t where {where}")
    chosen = f"{where} {ORDERED} {bounds}" if number * size <= DEEP else _named(path, where, (number - 1) * size, size)
    rows = small_tables.query(path, f"select {SHOWN} from t where {chosen}")
    page = Page(
        [_row_shown(row) for row in rows],
        total[0]["n"] if total else 0,
        number,
        size,
        _as_of(groups, pipeline, warehouse),
    )
    causes = {group["cause"] or UNDECIDED: group["n"] for group in groups}
    return Waiting(page, causes, sum(causes.values()))


def _named(path: str, where: str, first: int, size: int) -> str:
    """Return a condition that lists the transactions of a deep page by id: only three columns are sorted for it."""
    rows = arrow_tables.select(path, f"select {', '.join(ORDER)} from t where {where}")
    order = pc.sort_indices(rows, [(name, "ascending") for name in ORDER])
    ids = cast("list[str]", rows.column("transaction_id").take(order.slice(first, size)).to_pylist())
    return f"transaction_id in ({text_list(ids)}) {ORDERED}" if ids else "false"


def _as_of(groups: list[Row], pipeline: Pipeline, warehouse: str) -> datetime | None:
    """Return the clock by which ages are computed; while nothing waits, the time when a step last ended."""
    at: datetime | None = max((group["at"] for group in groups if group["at"]), default=None)
    return at or last_step(TablePaths(warehouse, pipeline.name))


def _row_shown(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if name not in ("expected", "received")}
    return shown | {"tables": compared(row["expected"], row["received"])}


def compared(expected: Mapping[str, int] | None, received: Mapping[str, int] | None) -> list[Row]:
    """Return expected and received rows by table, what differs first.

    >>> compared({"lines": 2}, {"lines": 1})
    [{'table': 'lines', 'expected': 2, 'received': 1, 'differs': True}]
    """
    have = received or {}
    rows = []
    for table in sorted({*(expected or {}), *have}):
        promised = None if expected is None else expected.get(table, 0)
        count = have.get(table, 0)
        rows.append({"table": table, "expected": promised, "received": count, "differs": promised != count})
    return sorted(rows, key=lambda row: not row["differs"])
