"""publish: append a cut: the version of every current table, which together show one state of the source."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import TablesFailed
from txloom.quality import findings as f
from txloom.steps.publish.check_expectations import hold
from txloom.steps.step import Counts, Step
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations import earlier_steps, records
from txloom.storage.declarations.incomplete import current_tables_of, incomplete_current
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.delta.table_metadata import identity, unchanged, versions
from txloom.storage.landing import kafka_offsets, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import append_cut, newest_cut
from txloom.storage.publishing.watermark import Watermark, last_merge
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.sources import file_positions
from txloom.storage.targets import shadow_tables
from txloom.storage.views.pipeline.overview import remember
from txloom.transactions.events import NOWHERE

LOG = logging.getLogger(__name__)

XID = "case when starts_with(xid, 'r:') then 'rows of a snapshot' else xid end as xid"
"""How an amended cut names a transaction, in SQL: the rows of a connector's snapshot are a transaction each."""


def publish(step: Step) -> Counts:
    """Publish the current tables as they are, unless the newest cut has the same tables and gaps already.

    Transactions that were released after an earlier cut and lie below its valid-through amend it: the new cut lists
    them (docs/architecture.md, promise 4). Nothing is published where the declaration was edited since tables were
    merged. No Spark is needed. A repeated call publishes nothing more.

    Returns:
        published: 1 or 0. cut_id and valid_through, where there is a cut. Of a new one also csn_after, the
        valid-through of the cut before (0: there is none); committed_at, when the source committed valid-through (ISO
        8601, UTC; left out where the source gives its commits no time); how many gaps it has, how many earlier cuts it
        amends, how many incomplete tables it leaves out, and versions.

    Raises:
        ExpectationFailed: if an expectation with severity `block` fails on these versions, whichever run wrote them.
        TablesFailed: if a current table no longer exists.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    last = last_merge(paths, pipeline.current_tables)
    newest = newest_cut(paths)
    if last is None or (newest is None and not _shows_anything(paths, last.reached)):
        return {"published": 0}
    if not earlier_steps.is_merged(pipeline, paths, last):
        LOG.info("the declaration was edited since tables were merged: the next cycle publishes by it")
        return {"published": 0}
    reached = last.reached
    left_out = () if last.is_complete else incomplete_current(pipeline, paths)
    if left_out and pipeline.targets.incomplete == "hold":
        LOG.warning(f"no cut is published while {', '.join(left_out)} are not complete: see the findings")
        return {"published": 0, "incomplete": len(left_out)}
    shown = [name for name in pipeline.current_tables if name not in left_out]
    if missing := [name for name in shown if not exists(paths.table(name))]:
        raise TablesFailed(
            f"pipeline {pipeline.name}: current table {', '.join(missing)} is gone from {paths.table('').rstrip('/')}: "
            "nothing was published, because a cut without it would show what the source never had; the next cycle's "
            "merge_current writes it anew out of its history"
        )
    cut = _cut(pipeline, paths, reached, run_id, shown)
    says_it = newest and _says(newest) == _says(cut) and _same_tables(newest, cut)
    if newest and says_it and unchanged(paths, newest["versions"], cut["versions"]):
        return {"published": 0, "cut_id": newest["cut_id"], "valid_through": reached.valid_through}
    hold(pipeline, paths, run_id)
    cut["cut_id"] = newest["cut_id"] + 1 if newest else 1
    cut["amends"] = _amended(pipeline, paths, newest, reached) if newest else []
    append_cut(paths, cut)
    entry = Entry(run_id, "publish", datetime.now(UTC), {"cut_id": cut["cut_id"]}, valid_through=reached.valid_through)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    if pipeline.alerts is None:
        # Else `alert` does, which reads the same at the end of each cycle.
        remember(pipeline, paths.warehouse)
    at = cut["committed_at"]
    return {
        "published": 1,
        "cut_id": cut["cut_id"],
        "csn_after": newest["valid_through"] if newest else 0,
        "valid_through": reached.valid_through,
        **({} if at is None else {"committed_at": at.isoformat()}),
        "gaps": len(cut["gaps"]),
        "amends": len({each["cut_id"] for each in cut["amends"]}),
        **({"incomplete": len(left_out)} if left_out else {}),
        "versions": cut["versions"],
    }


def _shows_anything(paths: TablePaths, reached: Watermark) -> bool:
    """Say whether a transaction lies at or below valid-through: before the first one all tables are empty."""
    through = f"csn between {NOWHERE + 1} and {reached.valid_through}"
    sql = f"select 1 as n from t where {through} and release <= {reached.release} limit 1"
    return bool(small_tables.query(paths.table(names.TRANSACTIONS), sql))


def _cut(
    pipeline: Pipeline, paths: TablePaths, reached: Watermark, run_id: str, tables: Sequence[str]
) -> dict[str, Any]:
    finished = paths.table(names.TRANSACTIONS)
    inside = f"csn <= {reached.valid_through} and csn > {loaded_snapshots.floor(paths, reached.release)}"
    # A loaded snapshot has no time of a commit, and may be as of the csn of one.
    last = small_tables.query(
        finished, f"select max(committed_at) as committed_at from t where csn = {reached.valid_through}"
    )
    repaired = findings.repaired(paths, f.TWO_RUNS)
    given_up = open_letters.given_up(paths, f"csn is null or {inside}", release=reached.release)
    open_gaps = [row for row in given_up if (row["xid"], row["csn"]) not in repaired]
    gaps = [{name: row[name] for name in ("xid", "csn", "cause")} for row in open_gaps]
    gaps += _lost(pipeline, paths)
    shown = versions(paths, tables)
    identities = {name: identity(paths.table(name), version) for name, version in shown.items()}
    return {
        "run_id": run_id,
        "valid_through": reached.valid_through,
        "release": reached.release,
        "committed_at": last[0]["committed_at"] if last else None,
        "published_at": datetime.now(UTC),
        "versions": shown,
        "table_ids": {name: identity[0] for name, identity in identities.items()},
        "marks": {name: identity[1] for name, identity in identities.items()},
        "gaps": gaps,
    }


def _lost(pipeline: Pipeline, paths: TablePaths) -> list[dict[str, Any]]:
    """Return a gap for each accepted loss that no snapshot repaired yet, and for each file that cannot be read."""
    if pipeline.source.kafka is None and not file_positions.has_problems(paths):
        return []
    open_findings = findings.open_findings(paths)
    causes = [f"{row['column']}: {row['evidence']}" for row in open_findings if row["code"] == f.UNREADABLE]
    if any(row["code"] == f.LOST for row in open_findings):
        causes += [row["lost"] for row in (*kafka_offsets.given_up(paths), *file_positions.set_aside(paths))]
    return [{"xid": None, "csn": None, "cause": cause} for cause in causes]


def _says(cut: dict[str, Any]) -> tuple[object, ...]:
    return cut["valid_through"], cut["gaps"]


def _same_tables(last: dict[str, Any], cut: dict[str, Any]) -> bool:
    """Say whether no table was written anew since a cut; cuts of older versions do not have every table's id."""
    known = dict(last.get("table_ids") or ())
    return all(cut["table_ids"].get(name) == table_id for name, table_id in known.items())


def _amended(pipeline: Pipeline, paths: TablePaths, last: dict[str, Any], reached: Watermark) -> list[dict[str, Any]]:
    """Return (cut, transaction) for every transaction released since the last cut that belongs into an earlier one.

    A cut that showed no table of a transaction, because they were declared or loaded later, is not amended by it.

    Transactions that a snapshot of all tables contains were in the cuts after it. A backfill that repaired rows amends
    all earlier cuts from its range on: it is not known which of them showed a wrong row.
    """
    since = f"release > {last['release']} and release <= {reached.release} and csn <= {last['valid_through']}"
    since += f" and csn > {loaded_snapshots.floor(paths, last['release'])}"
    late_ones = f"status = 'released' and {since}"
    sql = f"select distinct {XID}, csn from t where {late_ones} order by csn, xid"
    late = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    repairs = shadow_tables.repaired_since(paths, last["published_at"])
    late += [{"xid": f"backfill {row['run_id']}", "csn": row["from_csn"]} for row in repairs]
    lowest = min((row["csn"] for row in late), default=None)
    if lowest is None:
        return []
    sql = f"select cut_id, valid_through, versions from t where valid_through >= {lowest} order by cut_id"
    earlier = small_tables.query(paths.table(names.CUTS), sql)
    current = {*pipeline.current_tables}
    shown = {cut["cut_id"]: {*dict(cut["versions"])} for cut in earlier}
    # A cut with a name that is not declared may have shown a table under an earlier name.
    lacking = {cut_id for cut_id, tables in shown.items() if tables < current}
    tables_of = _read_tables(pipeline, paths, late_ones) if lacking else {}
    return [
        {"cut_id": cut["cut_id"], "xid": row["xid"], "csn": row["csn"]}
        for cut in earlier
        for row in late
        if row["csn"] <= cut["valid_through"]
        and not (
            cut["cut_id"] in lacking
            and (tables := tables_of.get((row["xid"], row["csn"])))
            and tables.isdisjoint(shown[cut["cut_id"]])
        )
    ]


def _read_tables(pipeline: Pipeline, paths: TablePaths, where: str) -> dict[tuple[str, int], set[str]]:
    """Return by xid and csn the current tables that show some transactions; one with a row of no table is left out.

    where: a SQL condition on `transactions`.
    """
    sql = f"select transaction_id, {XID}, csn from t where {where}"
    chosen = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    ids = pa.array(sorted({row["transaction_id"] for row in chosen}), pa.string())
    sql = "select distinct transaction_id, \"table\" from t where kind = 'row'"
    rows = arrow_tables.matching(paths.change_events, sql, "transaction_id", ids).to_pylist()
    known, by_id = records.present_names(pipeline, records.read(paths)), dict[str, set[str | None]]()
    for row in rows:
        by_id.setdefault(row["transaction_id"], set()).add(known.get(row["table"]))
    tables = dict[tuple[str, int], set[str | None]]()
    for row in chosen:
        tables.setdefault((row["xid"], row["csn"]), set()).update(by_id.get(row["transaction_id"], {None}))
    return {
        each: {*current_tables_of(pipeline, [name for name in of_rows if name is not None])}
        for each, of_rows in tables.items()
        if None not in of_rows
    }
