"""Close the findings that a snapshot repaired, after the merge that applied the snapshot."""

from collections.abc import Mapping
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality.findings import NEEDS_SNAPSHOT, Finding
from txloom.storage.checks import audited_rows, findings
from txloom.storage.delta import small_tables
from txloom.storage.landing import connector_snapshots, loaded_snapshots, requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets.row_tables import RowTable, row_tables


def close_repaired(pipeline: Pipeline, paths: TablePaths, reached: Watermark, run_id: str) -> None:
    """Close findings that need a snapshot and whose table was loaded at or above their csn.

    A finding about the whole source is closed once every watched table was loaded. One of an audit says since when rows
    differ, and that they still did in the cut that it read: what was loaded after that closes it. A repeated call
    closes nothing more.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        reached: the watermark of the current tables; later snapshots do not count yet.
        run_id: the run that closes them.
    """
    rows = [row for row in findings.open_findings(paths) if _needs_snapshot(row)]
    if not rows:
        return
    loaded = _loaded(pipeline, paths, reached, min(row["since_csn"] or 0 for row in rows))
    audited = audited_rows.differing_as_of(paths) if any(row["code"] == f.DIFFERS for row in rows) else {}
    for row in rows:
        if row["code"] == f.DIFFERS:
            csn = _loaded_after_audit(paths, reached, row["table"], audited)
            if csn is not None:
                _close(paths, row, csn, run_id)
            continue
        names = [row["table"]] if row["table"] else [table.name for table in pipeline.tables]
        covering = min(loaded.get(name, 0) for name in names)
        if covering and covering >= (row["since_csn"] or 0):
            _close(paths, row, covering, run_id)


def _needs_snapshot(row: Mapping[str, Any]) -> bool:
    """Say whether a snapshot closes a finding; rows that an older version wrote may lack the flag."""
    return bool(row["needs_snapshot"]) or row["code"] in NEEDS_SNAPSHOT


def _close(paths: TablePaths, row: dict[str, Any], csn: int, run_id: str) -> None:
    """Close one finding; a renamed column is then recorded as a dropped one, which the snapshot does not repair."""
    findings.close(paths, [row], run_id, f"a snapshot as of csn {csn} was loaded")
    if row["code"] == f.RENAMED:
        gone = Finding(f.DROPPED, row["table"], row["column"], row["since_csn"], row["xid"], row["evidence"])
        findings.record(paths, [gone], run_id)


def _loaded(pipeline: Pipeline, paths: TablePaths, reached: Watermark, since: int) -> dict[str, int]:
    """Return by table the newest csn as of which all its rows were loaded, by an operator or a connector; 0: never."""
    loaded = loaded_snapshots.loaded(paths, reached.valid_through, reached.release)
    for name, since_csn in requested_snapshots.loaded(paths).items():
        loaded[name] = max(loaded.get(name, 0), since_csn)
    for row_table in row_tables(pipeline):
        name = row_table.table.name
        csn = _sent_anew(pipeline, paths, row_table, reached, since)
        loaded[name] = max(loaded.get(name, 0), csn)
    return loaded


def _loaded_after_audit(
    paths: TablePaths, reached: Watermark, table: str, audited: Mapping[str, tuple[int, int]]
) -> int | None:
    """Return the csn as of which all rows of a table were loaded after the audit that found some to differ, if so."""
    if table not in audited:
        return None
    as_of, release = audited[table]
    loaded = loaded_snapshots.loaded(paths, reached.valid_through, reached.release, after=release).get(table, -1)
    covering = max(loaded, requested_snapshots.loaded(paths, after=release).get(table, -1))
    return covering if covering >= as_of else None


def _sent_anew(pipeline: Pipeline, paths: TablePaths, row_table: RowTable, reached: Watermark, since: int) -> int:
    """Return the csn of a connector's whole snapshot since which every row of a table was written; 0 without one.

    A connector sends the rows that exist, and no deletes. Where the table has a row that is older than the snapshot,
    the snapshot did not have it, and the table is not repaired.
    """
    if not row_table.table.key:
        return 0
    sent = connector_snapshots.sent(pipeline, paths, row_table.table.name, since, reached.valid_through)
    if not sent:
        return 0
    shown = small_tables.query(paths.table(row_table.current), "select min(_txloom_csn) as oldest from t")
    oldest = shown[0]["oldest"] if shown else None
    return max((csn for csn in sent if oldest is None or csn <= oldest), default=0)
