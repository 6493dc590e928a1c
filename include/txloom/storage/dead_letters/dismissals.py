"""Dead letters that somebody dismissed by name: they stay in dead_letters, and nobody gets reminders of them any more.

Nothing else changes: a transaction among them stays a gap of the cuts, and events that come for it later open it again.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from txloom.config import names
from txloom.storage.dead_letters import known_open, open_letters
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import DISMISSALS

SHOWN = 20
"""Dismissals that are listed, the newest first."""


@dataclass(frozen=True)
class Dismissal:
    """Who dismisses dead letters, why, in which run, and when."""

    person: str
    reason: str
    run_id: str
    at: datetime


def dismiss(paths: TablePaths, where: str, version: int | None, dismissal: Dismissal) -> int:
    """Append dismissals of the open dead letters that fulfil a condition; return how many.

    Args:
        paths: the tables of the pipeline.
        where: a condition on open dead letters, as SQL.
        version: only dead letters that this version of their table has; None: the newest.
        dismissal: who says so, and why.
    """
    dead_letters = open_letters.open_dead_letters(
        paths, 'distinct landing, "row", transaction_id, cause', f"where {where}", version
    )
    rows = [{**row, **asdict(dismissal)} for row in dead_letters.to_pylist()]
    if rows:
        small_tables.append(paths.table(names.DISMISSALS), rows, DISMISSALS)
    return len(rows)


def of_run(paths: TablePaths, run_id: str) -> int:
    """Return how many dead letters a run has dismissed."""
    sql = f"select count(*) as n from t where run_id = {text_literal(run_id)}"
    counted = small_tables.query(paths.table(names.DISMISSALS), sql)
    return int(counted[0]["n"]) if counted else 0


def reopen(paths: TablePaths, where: str, run_id: str) -> int:
    """Remove the dismissals of dead letters that fulfil a condition, in one commit; return how many."""
    path = paths.table(names.DISMISSALS)
    if not exists(path):
        return 0
    rows = arrow_tables.ask({"x": opened(path)}, "select * from x").to_pylist()
    chosen = {(row["landing"], row["row"]) for row in _dismissed(paths, 'landing, "row"', where).to_pylist()}
    kept = [row for row in rows if (row["landing"], row["row"]) not in chosen]
    if len(kept) < len(rows):
        known_open.forget(paths)
        small_tables.replace(path, kept, DISMISSALS, {"reopened": len(rows) - len(kept), "run_id": run_id})
    return len(rows) - len(kept)


def newest(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the newest dismissals: at, person, reason, cause, events, transactions."""
    sums = "count(*) as events, count(distinct transaction_id) as transactions"
    sql = f"select at, person, reason, cause, {sums} from t group by at, person, reason, cause"
    return small_tables.query(paths.table(names.DISMISSALS), f"{sql} order by at desc, cause limit {SHOWN}")


def of_dead_letters(paths: TablePaths, where: str) -> list[dict[str, Any]]:
    """Return the dismissals of dead letters that fulfil a condition, oldest first: at, person, reason, events."""
    if not exists(paths.table(names.DISMISSALS)):
        return []
    dead_letters = _dismissed(paths, "at, person, reason, count(*) as events", f"{where} group by at, person, reason")
    return [dict(row) for row in dead_letters.sort_by("at").to_pylist()]


def _dismissed(paths: TablePaths, columns: str, more: str) -> pa.Table:
    """Query the dismissed dead letters, with person, reason and time of their dismissal."""
    tables = {"d": opened(paths.dead_letters), "x": opened(paths.table(names.DISMISSALS))}
    dead_letter = 'd.transaction_id, d.xid, d.csn, d."table", d.kind, d.cause, d.topic, d.partition, d."offset"'
    dead_letter += ", d.file, d.line"
    both = f'select {dead_letter}, d.landing, d."row", x.at, x.person, x.reason from d join x'
    both += ' on x.landing = d.landing and x."row" = d."row"'
    return arrow_tables.ask(tables, f"select {columns} from ({both}) as l where {more}")
