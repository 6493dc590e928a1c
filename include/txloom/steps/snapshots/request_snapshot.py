"""request_snapshot: ask a Debezium connector to read tables anew, beside its stream.

The connector reads them in chunks and writes their rows into the topics of the stream. Each row has the csn of the
commit as of which it was read, so that it is taken in like a change: a table is at every cut what the source had, or
what it wrongly had before. Once all rows are merged, `steps.landing.follow_snapshots` removes what the connector did
not read, and the findings close.
"""

import logging
import re
import uuid
from collections.abc import Sequence

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import escaped
from txloom.quality.incidents import moment
from txloom.steps.step import Counts, Step
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_tables, loaded_snapshots, name_spellings, requested_snapshots
from txloom.storage.landing.requested_snapshots import FAILED, PLANNED, SENT, Request
from txloom.storage.paths import TablePaths
from txloom.storage.sources import connector_signals

LOG = logging.getLogger(__name__)

AFTER = """\
It costs the database one read of each table, in chunks, and writes each row once more into its topic. Cycles take the \
rows in as they come, each as of the commit before it was read: what the stream says of a row later stands. When all \
of them are merged, rows that the source no longer has are deleted, and the findings close. There is no undo; values \
before stay in the history tables.
"""


def request_snapshot(step: Step, tables: Sequence[str]) -> Counts:
    """Ask for an incremental snapshot of tables; a repeated call of one run asks once.

    An earlier request for one of the tables that is still under way is given up: the new one has its rows too.

    Args:
        step: the pipeline, its tables and the run.
        tables: names of declared tables with a key; empty: those that a finding says need a snapshot.

    Returns:
        tables, request (its id), since_csn.

    Raises:
        ConfigurationError: the pipeline declares no signals, no table needs a snapshot, or one has no key.
        SourceUnavailable: the brokers do not take the signal.
    """
    pipeline, paths = step.pipeline, step.paths
    chosen = chosen_tables(pipeline, paths, tables)
    landing_tables.create_tables(paths)
    request_id = f"txloom-{uuid.uuid5(uuid.NAMESPACE_URL, f'{pipeline.name}/{step.run_id}')}"
    known = {each.request: each for each in requested_snapshots.requests(paths)}
    request = known.get(request_id)
    if request is None:
        since = loaded_snapshots.newest(paths) or 0
        request = Request(request_id, step.run_id, tuple(chosen), since)
        for each in requested_snapshots.covering(paths, chosen):
            requested_snapshots.write(paths, each, FAILED, detail=f"{request_id} was asked for instead")
        requested_snapshots.write(paths, request, PLANNED)
    if request.status == PLANNED:
        spelled = name_spellings.known(paths)
        sources = [spelled.get(name, pipeline.table(name).source) for name in request.tables]
        connector_signals.request(pipeline, request_id, [re.escape(name) for name in sources])
        requested_snapshots.write(paths, request, SENT)
    LOG.info(f"asked for a snapshot of {', '.join(request.tables)} as {request_id}, since csn {request.since_csn}")
    return {"tables": len(request.tables), "request": request_id, "since_csn": request.since_csn}


def chosen_tables(pipeline: Pipeline, paths: TablePaths, tables: Sequence[str]) -> list[str]:
    """Return the tables to read anew; raises ConfigurationError where that cannot be."""
    if pipeline.source.signals is None:
        raise ConfigurationError(
            f"{pipeline.name} declares no signals: add `source.signals` (docs/sources/debezium.md)"
        )
    keyed = [table.name for table in pipeline.tables if table.key]
    if unfit := sorted(set(tables) - set(keyed)):
        raise ConfigurationError(f"{', '.join(unfit)}: expected declared tables with a key: {', '.join(keyed)}")
    if tables:
        return sorted(set(tables))
    needed = findings.needing_snapshot(findings.open_findings(paths))
    chosen = keyed if "*" in needed else [name for name in keyed if name in needed]
    if not chosen:
        raise ConfigurationError("no finding says that a table with a key needs a snapshot: name the tables")
    return chosen


def markdown(paths: TablePaths, tables: Sequence[str]) -> str:
    """Return in Markdown what a snapshot of tables does, for the person who approves it."""
    rows = {name: small_tables.query(paths.table(name), "select count(*) as n from t") for name in tables}
    lines = [f"**The connector reads {len(tables)} tables anew, beside its stream.**", "", AFTER.strip(), ""]
    lines += ["| table | rows in the lake | findings that it closes |", "|---|---|---|"]
    open_findings = [row for row in findings.open_findings(paths) if row["needs_snapshot"]]
    for name in tables:
        closes = ", ".join(sorted({row["code"] for row in open_findings if row["table"] in (name, None)})) or "none"
        lines.append(f"| {escaped(name)} | {rows[name][0]['n'] if rows[name] else 0} | {escaped(closes)} |")
    given_up = requested_snapshots.covering(paths, tables)
    lines += ["", *(f"The request {each.request} of {moment(each.at)} is given up for it." for each in given_up)]
    return "\n".join(lines).strip()
