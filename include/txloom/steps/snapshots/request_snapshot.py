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
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.landing import (
    landing_plan,
    landing_tables,
    loaded_snapshots,
    name_spellings,
    requested_snapshots,
)
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
    """Ask for an incremental snapshot of tables; a repeated call of one run asks once, unless its request failed.

    Earlier requests that the connector has not read yet are given up: the new one has their tables too.

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
    of_run = [each for each in requested_snapshots.requests(paths) if each.run_id == step.run_id]
    request = next((each for each in of_run if each.status != FAILED), None)
    if request is None:
        request = _planned(step, chosen, f"{pipeline.name}/{step.run_id}/{len(of_run)}")
    if request.status == PLANNED:
        spelled = name_spellings.known(paths)
        sources = [spelled.get(name, pipeline.table(name).source) for name in request.tables]
        others, _ = requested_snapshots.superseded(paths, request.tables)
        connector_signals.request(pipeline, request.request, [re.escape(name) for name in sources])
        request = requested_snapshots.write(paths, request, SENT)
        for each in others:
            if each.request != request.request:
                requested_snapshots.write(paths, each, FAILED, detail=f"{request.request} was asked for instead")
    LOG.info(f"asked for a snapshot of {', '.join(request.tables)}: {request.request}, since csn {request.since_csn}")
    return {"tables": len(request.tables), "request": request.request, "since_csn": request.since_csn}


def _planned(step: Step, tables: Sequence[str], about: str) -> Request:
    """Record that a snapshot of tables will be asked for; about: what makes its id."""
    paths = step.paths
    buffered = buffer_state(paths)
    _, every = requested_snapshots.superseded(paths, tables)
    request = Request(
        f"txloom-{uuid.uuid5(uuid.NAMESPACE_URL, about)}",
        step.run_id,
        tuple(every),
        loaded_snapshots.newest(paths) or 0,
        landing_plan.newest(paths),
        0 if buffered is None else buffered.release,
    )
    return requested_snapshots.write(paths, request, PLANNED)


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
    given_up, every = requested_snapshots.superseded(paths, tables)
    rows = {name: small_tables.query(paths.table(name), "select count(*) as n from t") for name in every}
    lines = [f"**The connector reads {len(every)} tables anew, beside its stream.**", "", AFTER.strip(), ""]
    lines += ["| table | rows in the lake | findings that it closes |", "|---|---|---|"]
    open_findings = [row for row in findings.open_findings(paths) if row["needs_snapshot"]]
    for name in every:
        closes = ", ".join(sorted({row["code"] for row in open_findings if row["table"] in (name, None)})) or "none"
        lines.append(f"| {escaped(name)} | {rows[name][0]['n'] if rows[name] else 0} | {escaped(closes)} |")
    given = "is given up for this one, which has its tables too"
    lines += ["", *(f"The request {each.request} of {moment(each.at)} {given}." for each in given_up)]
    return "\n".join(lines).strip()
