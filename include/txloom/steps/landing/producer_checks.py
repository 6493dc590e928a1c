"""Producer diagnostics after a landing: what messages show of how the source is captured. No Spark is needed.

Findings are rows of the table `findings`; none stops a run. A repeated check records nothing more.
"""

from datetime import UTC, date, datetime, timedelta
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import instant_literal, text_list
from txloom.storage.landing import connector_snapshots
from txloom.storage.paths import TablePaths

SKEW = timedelta(minutes=1)
"""How far the clocks of the source may be apart."""
MOST = 1_000
"""Transaction ids of a landing that are compared: ids that wrap around come again one after the other."""
RECENT = timedelta(days=7)
"""Ids are compared with those of transactions that finished since then, and at a day's first landing with all."""


def after_landing(pipeline: Pipeline, paths: TablePaths, landing: int, run_id: str) -> None:
    """Record what a landing shows of its source.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        landing: its number; its events are written.
        run_id: the run.
    """
    observed = _metadata(paths, landing)
    if pipeline.source.format == "goldengate":
        observed += _short_names(pipeline, paths, landing)
    findings.record(paths, observed, run_id)


def after_snapshot(pipeline: Pipeline, paths: TablePaths, landing: int, run_id: str) -> None:
    """Record tables of which the connector's snapshot that a landing closed may have rows twice.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        landing: its number.
        run_id: the run.
    """
    observed = [
        Finding(f.TAKEN_TWICE, table, None, csn, None, f"a snapshot of it was begun {times} times at csn {csn}")
        for table, csn, times in connector_snapshots.taken_twice(pipeline, paths, landing)
    ]
    findings.record(paths, observed, run_id)


def _short_names(pipeline: Pipeline, paths: TablePaths, landing: int) -> list[Finding]:
    """Return unwatched tables whose short name a watched table has: metadata counts both under it."""
    sql = (
        "select source_table, min(csn) as csn, min(xid) as xid from t"
        f" where landing = {landing} and kind = 'row' and \"table\" is null group by source_table"
    )
    watched = {_short(table.source): table for table in pipeline.tables}
    observed = []
    for row in small_tables.query(paths.change_events, sql):
        table = watched.get(_short(row["source_table"]))
        if table is not None:
            evidence = f"{row['source_table']} sends rows beside {table.source}"
            observed.append(Finding(f.SHORT_NAMES, table.name, None, row["csn"], row["xid"], evidence))
    return observed


def _short(source: str) -> str:
    return source.rsplit(".", 1)[-1].casefold()


def _metadata(paths: TablePaths, landing: int) -> list[Finding]:
    """Return csns that went back though time went on, and transaction ids that came again."""
    of_metadata = f"kind = 'metadata' and not starts_with(xid, '{names.SYSTEM_PREFIX}')"
    where = f"landing = {landing} and {of_metadata} and csn is not null"
    sql = f"select xid, csn, committed_at from t where {where} order by csn"
    new = arrow_tables.select(paths.change_events, sql)
    if not new.num_rows:
        return []
    now = datetime.now(UTC)
    since = None if _landed_before(paths, landing) != now.date() else now - RECENT
    return [*_jumped(paths, new), *_again(paths, new, since)]


def _landed_before(paths: TablePaths, landing: int) -> date | None:
    """Return the day (UTC) of the landing before one; None where there is none."""
    sql = f"select landed_at from t where kind = 'clock' and landing = {landing - 1}"
    return next((row["landed_at"].astimezone(UTC).date() for row in small_tables.query(paths.change_events, sql)), None)


def _jumped(paths: TablePaths, new: pa.Table) -> list[Finding]:
    finished = paths.table(names.TRANSACTIONS)
    dated = "csn is not null and committed_at is not null"
    sql = f"select csn, committed_at from t where {dated} order by csn desc limit 1"
    newest = small_tables.query(finished, sql)
    if not newest:
        return []
    csn, at = newest[0]["csn"], newest[0]["committed_at"]
    if pc.max(new.column("csn")).as_py() > csn:
        return []
    below = pc.and_(pc.less(new.column("csn"), csn), pc.greater(new.column("committed_at"), pa.scalar(at + SKEW)))
    back = new.filter(cast("pa.BooleanArray", below.fill_null(False))).to_pylist()
    dated = "{xid} has csn {csn} and was committed at {committed_at}"
    return [
        Finding(f.CSN_BACK, None, None, row["csn"], row["xid"], f"{dated.format(**row)}, though csn {csn} was at {at}")
        for row in back[:1]
    ]


def _again(paths: TablePaths, new: pa.Table, since: datetime | None) -> list[Finding]:
    xids = cast("list[str]", new.column("xid").slice(0, MOST).to_pylist())
    recent = "" if since is None else f" and finished_at >= {instant_literal(since)}"
    sql = f"select xid, csn from t where csn is not null and xid in ({text_list(xids)}){recent}"
    same = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    earlier = {row["xid"]: row["csn"] for row in same}
    again = new.filter(pc.is_in(new.column("xid"), pa.array(list(earlier), pa.string()))).to_pylist()
    return [
        Finding(f.XID_AGAIN, None, None, row["csn"], row["xid"], f"{row['xid']} was csn {earlier[row['xid']]} before")
        for row in again
        if earlier[row["xid"]] != row["csn"]
    ][:1]
