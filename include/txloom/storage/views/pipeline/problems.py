"""Problems: expectations, failed ones first, findings, and incidents that people got messages about."""

from datetime import datetime

from txloom.config.models.pipeline import Pipeline
from txloom.storage.checks import findings, results
from txloom.storage.declarations.incomplete import with_present_hints
from txloom.storage.health import incidents as incident_table
from txloom.storage.landing import requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, Row, last_step, open_tables, parsed, sliced

FEW = 10
"""Requests that are shown."""
REQUEST = ("request", "tables", "status", "at", "since_csn", "removed", "detail")
ORDER = ("block", "warn", "info")
CHECKED = ("success", "checked", "failed", "detail", "checked_at", "run_id", "versions")


@open_tables
def expectations(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return all declared expectations with their newest check: failed ones first, those that block before others.

    rows: expectation, kind, severity, sentence, hint; success (None: never checked, or not judged; then checked_at is
    set, and detail says why), checked, failed, detail, checked_at, run_id, versions; since (the first failure after the
    last good check), last_good, streak (how many runs in a row failed), sample (rows that fail, bounded). As of the
    newest check.
    """
    paths = TablePaths(warehouse, pipeline.name)
    newest = results.newest(paths)
    rows = []
    for each in pipeline.expectations:
        row_shown: Row = {
            "expectation": each.id,
            **{name: getattr(each, name, None) for name in ("kind", "severity", "sentence", "hint")},
        }
        row = newest.get(each.id, {})
        row_shown |= {name: row.get(name) for name in (*CHECKED, "since", "last_good")}
        rows.append(row_shown | {"streak": row.get("streak") or 0, "sample": parsed(row.get("sample")) or []})
    rows.sort(key=_urgency)
    as_of: datetime | None = max((row["checked_at"] for row in rows if row["checked_at"]), default=None)
    return sliced(rows, number, size, as_of)


def _urgency(row: Row) -> tuple[int, int]:
    failed = {False: 0, None: 1, True: 2}[row["success"]]
    return failed, ORDER.index(row["severity"]) if row["severity"] in ORDER else len(ORDER)


@open_tables
def open_findings(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the open findings, errors first, then the oldest csn first.

    rows: code, severity, table, column, since_csn, xid, evidence, needs_snapshot, hint, run_id, at.
    """
    paths = TablePaths(warehouse, pipeline.name)
    rows = with_present_hints(pipeline, paths, findings.open_findings(paths))
    rows.sort(key=lambda row: row["severity"] != "error")
    return sliced(rows, number, size, last_step(paths))


@open_tables
def snapshot_requests(pipeline: Pipeline, warehouse: str) -> list[Row]:
    """Return the newest snapshots that the connector was asked for: request, tables, status, at, removed, detail."""
    newest = requested_snapshots.requests(TablePaths(warehouse, pipeline.name))[:FEW]
    return [{name: getattr(each, name) for name in REQUEST} for each in newest]


@open_tables
def incidents(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return recorded incidents, open ones first, then the newest; as of the last time that alerts checked.

    rows: kind, subject, severity, what, todo, since, total, rows (the first, in words), page, opened_at, closed_at.
    """
    paths = TablePaths(warehouse, pipeline.name)
    known = sorted(incident_table.lifecycles(paths), key=lambda each: each.opened_at, reverse=True)
    known.sort(key=lambda each: each.closed_at is not None)
    rows = [
        {
            **vars(each.incident),
            "rows": list(each.incident.rows),
            "opened_at": each.opened_at,
            "closed_at": each.closed_at,
        }
        for each in known
    ]
    return sliced(rows, number, size, incident_table.judged_at(paths) or last_step(paths))
