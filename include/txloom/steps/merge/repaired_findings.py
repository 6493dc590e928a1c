"""Close the findings that a snapshot repaired, after the merge that applied the snapshot."""

from collections.abc import Mapping
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality.findings import NEEDS_SNAPSHOT, Finding
from txloom.steps.settling.present_findings import PresentNames
from txloom.storage.checks import audited_rows, findings
from txloom.storage.declarations import records
from txloom.storage.declarations.incomplete import incomplete_tables
from txloom.storage.declarations.loaded import loaded_since
from txloom.storage.delta import small_tables
from txloom.storage.landing import loaded_snapshots, requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets.row_tables import row_tables


def close_repaired(pipeline: Pipeline, paths: TablePaths, reached: Watermark, run_id: str) -> None:
    """Close findings that need a snapshot and whose table was loaded at or above their csn.

    A finding about the whole source is closed once every watched table was loaded. One of an audit says since when rows
    differ, and that they still did in the cut that it read: what was loaded after that closes it. One of rows that a
    connector read again is closed too once no row of the table is older. One of a history stays open until its record
    says that it is complete. A repeated call closes nothing more.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        reached: the watermark of the current tables; later snapshots do not count yet.
        run_id: the run that closes them.
    """
    rows = [row for row in findings.open_findings(paths) if _needs_snapshot(row)]
    if not rows:
        return
    loaded = loaded_since(pipeline, paths, reached, min(row["since_csn"] or 0 for row in rows))
    is_incomplete = any(row["code"] == f.INCOMPLETE for row in rows)
    lacking = incomplete_tables(pipeline, records.states(records.read(paths))) if is_incomplete else []
    audited = _audited(pipeline, paths) if any(row["code"] == f.DIFFERS for row in rows) else {}
    for row in rows:
        if row["code"] == f.INCOMPLETE and row["table"] in lacking:
            continue
        if row["code"] == f.DIFFERS:
            csn = _loaded_after_audit(pipeline, paths, reached, row["table"], audited)
            if csn is not None:
                _close(paths, row, csn, run_id)
            continue
        if row["code"] == f.READ_AGAIN and _is_read_again(pipeline, paths, row, reached):
            findings.close(paths, [row], run_id, f"as of csn {reached.valid_through} no row of the table is older")
            continue
        names = [row["table"]] if row["table"] else [table.name for table in pipeline.tables]
        counting = loaded
        if row["code"] == f.CSN_BACK:  # A snapshot of before has a higher csn, and nothing of what came since.
            counting = loaded_since(pipeline, paths, reached, row["since_csn"] or 0, after=row["at"])
        covering = min(counting.get(name, 0) for name in names)
        if covering and covering >= (row["since_csn"] or 0):
            _close(paths, row, covering, run_id)


def _needs_snapshot(row: Mapping[str, Any]) -> bool:
    """Say whether a snapshot closes a finding; rows that an older version wrote may lack the flag."""
    return bool(row["needs_snapshot"]) or row["code"] in NEEDS_SNAPSHOT


def _is_read_again(pipeline: Pipeline, paths: TablePaths, row: Mapping[str, Any], reached: Watermark) -> bool:
    """Return whether no row of a finding's table is older than the csn as of which the connector read it again."""
    if reached.valid_through < row["since_csn"]:
        return False
    current = [each.current for each in row_tables(pipeline) if each.table.name == row["table"]]
    older = f"select 1 as n from t where _txloom_csn < {row['since_csn']} limit 1"
    return not any(small_tables.query(paths.table(name), older) for name in current)


def _close(paths: TablePaths, row: dict[str, Any], csn: int, run_id: str) -> None:
    """Close one finding; a renamed column is then recorded as a dropped one, which the snapshot does not repair."""
    findings.close(paths, [row], run_id, f"a snapshot as of csn {csn} was loaded")
    if row["code"] == f.RENAMED:
        gone = Finding(f.DROPPED, row["table"], row["column"], row["since_csn"], row["xid"], row["evidence"])
        findings.record(paths, [gone], run_id)


def _audited(pipeline: Pipeline, paths: TablePaths) -> dict[str, tuple[int, int]]:
    """Return, by a table's present name, the csn and the release as of which an audit found that rows differ."""
    present, audited = PresentNames.read(pipeline, paths), dict[str, tuple[int, int]]()
    for row, as_of in audited_rows.differing_as_of(paths):
        named = present.find({**row, "code": f.DIFFERS, "column": None})
        if named is not None and named[0] is not None:
            audited[named[0]] = max(as_of, audited.get(named[0], as_of))
    return audited


def _loaded_after_audit(
    pipeline: Pipeline, paths: TablePaths, reached: Watermark, table: str, audited: Mapping[str, tuple[int, int]]
) -> int | None:
    """Return the csn as of which all rows of a table were loaded after the audit that found some to differ, if so."""
    if table not in audited:
        return None
    as_of, release = audited[table]
    loads = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release, after=release)
    loaded = loads.get(table, -1)
    covering = max(loaded, requested_snapshots.loaded(paths, after=release).get(table, -1))
    return covering if covering >= as_of else None
