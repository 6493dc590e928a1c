"""Dated transactions: the differences of a date's extracts are landed as one, whose csn is the date as a number."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BeyondValidThrough
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import row_tables

XID = "snapshot:"
_TOPIC = f"{names.SYSTEM_PREFIX}snapshot:"
AGAIN = "run buffer_transactions and merge_current, then diff_snapshot again"


@dataclass(frozen=True)
class Landed:
    """The newest transaction that was landed; summary: what its metadata holds beside its counts."""

    landing: int | None
    xid: str
    csn: int
    summary: dict[str, Any] | None


def xid(day: date) -> str:
    """Return the transaction id of a date's differences.

    >>> xid(date(2026, 11, 20))
    'snapshot:2026-11-20'
    """
    return f"{XID}{day.isoformat()}"


def csn(day: date) -> int:
    """Return the csn of a date's differences.

    >>> csn(date(2026, 11, 20))
    20261120
    """
    return int(day.strftime("%Y%m%d"))


def topic(table: str) -> str:
    """Return the topic under which the landing of a table's differences is planned."""
    return f"{_TOPIC}{table}"


def newest(paths: TablePaths) -> Landed | None:
    """Return the newest transaction that was landed, also a loaded snapshot; None before the first."""
    sql = "select xid, csn from t where csn is not null order by csn desc limit 1"
    finished = [
        Landed(None, row["xid"], row["csn"], None) for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)
    ]
    least = max((each.csn for each in finished), default=0)
    sql = f"select landing, xid, csn, value from t where kind = 'metadata' and csn >= {least}"
    events = [Landed(*_summary(row)) for row in small_tables.query(paths.change_events, sql)]
    return max([*finished, *events], key=lambda each: (each.csn, each.landing or 0), default=None)


def _summary(row: dict[str, Any]) -> tuple[int, str, int, dict[str, Any] | None]:
    return row["landing"], row["xid"], row["csn"], json.loads(row["value"]).get("snapshot")


def refuse_stale(pipeline: Pipeline, paths: TablePaths, tables: Collection[str]) -> None:
    """Raise BeyondValidThrough unless the current tables hold all that was landed: only then can they be compared."""
    seen = buffer_state(paths)
    sql = f'select max(landing) as newest from t where landing > {seen.landing if seen else 0} and "row" >= 0'
    rows = small_tables.query(paths.change_events, sql)
    if rows and rows[0]["newest"] is not None:
        raise BeyondValidThrough(f"landing {rows[0]['newest']} is not released yet: {AGAIN}")
    if seen is None:
        return
    waiting = small_tables.query(
        paths.table(names.PENDING_TRANSACTIONS), "select xid, cause from t order by csn limit 1"
    )
    if waiting:
        raise BeyondValidThrough(
            f"the transaction {waiting[0]['xid']} waits in the buffer ({waiting[0]['cause']}), so that the current "
            "tables stand still: see pending_transactions"
        )
    required = Watermark(valid_through(paths, seen), seen.release)
    for row_table in row_tables(pipeline):
        reached = watermark_of(paths.table(row_table.current))
        newer = f"_txloom_csn > {reached.valid_through} or _txloom_release > {reached.release}"
        lacks = f"_txloom_release <= {required.release} and ({newer})"
        if row_table.table.name in tables and history_reader.count(paths, row_table, lacks, "false")[0]:
            raise BeyondValidThrough(f"{row_table.current} does not hold everything that was released yet: {AGAIN}")


def dead_since(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the dead transactions of dates above the last released date, see `open_letters.given_up`."""
    path, dated = paths.table(names.TRANSACTIONS), f"starts_with(xid, '{XID}')"
    rows = small_tables.query(path, f"select max(csn) as csn from t where {dated} and status = 'released'")
    released = (rows[0]["csn"] if rows else None) or 0
    return open_letters.given_up(paths, f"{dated} and csn > {released}")


def superseded(paths: TablePaths, transactions: Iterable[str]) -> list[str]:
    """Return which transactions are of dates before the newest: later differences were computed without them."""
    last = newest(paths)
    dates = [each for each in transactions if each.startswith(XID)]
    return [each for each in dates if last is not None and int(each.rsplit(":", 1)[-1]) < last.csn]
