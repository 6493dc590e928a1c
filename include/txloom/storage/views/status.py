"""The state of a pipeline as one JSON for machines: a short form of the read model (`txloom.storage.views`)."""

from dataclasses import asdict
from typing import Any

from txloom.config import names
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.dead_letters.listing import listing
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import reading
from txloom.storage.landing import partition_watermarks
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.runs import lease
from txloom.storage.views.pipeline.waiting import counted


def status(warehouse: str, pipeline: str) -> dict[str, Any]:
    """Return the newest cut, what waits, dead letters, findings, the lease, and each step's newest row of the ledger.

    partitions: the watermark of each partition of the source, where transactions wait for all of them. A table that
    does not exist yet counts as empty: the cut is None, counts are 0.
    """
    paths = TablePaths(warehouse, pipeline)
    with reading():
        newest = (
            "select step, run_id, at, counts, valid_through, balanced from (select *, row_number() over (partition by"
            f" step order by {small_tables.latest(paths.table(names.LEDGER))}) as n from t) where n = 1 order by step"
        )
        open_findings, holder = findings.open_findings(paths), lease.newest(paths)
        return {
            "pipeline": pipeline,
            "cut": newest_cut(paths),
            "waiting": asdict(counted(paths)),
            "dead_letters": [_group(each) for each in listing(paths).groups],
            "complete_now": open_letters.complete_now(paths),
            "findings": open_findings,
            "needs_snapshot": findings.needing_snapshot(open_findings),
            "lease": vars(holder) if holder is not None and holder.released_at is None else None,
            "partitions": partition_watermarks.as_rows(paths),
            "ledger": small_tables.query(paths.table(names.LEDGER), newest),
        }


def _group(group: Any) -> dict[str, Any]:
    return {name: getattr(group, name) for name in ("cause", "events", "transactions", "since", "hint")}
