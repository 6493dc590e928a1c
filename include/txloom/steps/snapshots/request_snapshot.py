"""request_snapshot: ask a Debezium connector to read tables anew, beside its stream.

The connector reads them in chunks and writes their rows into the topics of the stream. Each row has the csn of the
commit as of which it was read, so that it is taken in like a change: a table is at every cut what the source had, or
what it wrongly had before. Once all rows are merged, `steps.landing.follow_snapshots` removes what the connector did
not read, and the findings close.

One request is open at a time: a connector that gets a second signal while it reads has crashed, and speaks of the
newest one alone. A request without an answer is a finding (`steps.landing.silent_requests`) until somebody gives it up.
"""

import logging
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.quality.dead_letters import escaped
from txloom.quality.incidents import moment
from txloom.steps.landing.silent_requests import note_silent
from txloom.steps.step import Counts, Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.declarations import earlier_steps
from txloom.storage.delta import small_tables
from txloom.storage.landing import (
    landing_plan,
    landing_tables,
    loaded_snapshots,
    name_spellings,
    requested_snapshots,
)
from txloom.storage.landing.requested_snapshots import FAILED, OPEN, PLANNED, SENT, Request
from txloom.storage.paths import TablePaths
from txloom.storage.sources import connector_signals

LOG = logging.getLogger(__name__)

GIVEN_UP = "given up"
"""How the detail of a request begins that somebody gave up."""
AFTER = """\
It costs the database one read of each table, in chunks, and writes each row once more into its topic. Cycles take the \
rows in as they come, each as of the commit before it was read: what the stream says of a row later stands. When all \
of them are merged, rows that the source no longer has are deleted, and the findings close. There is no undo; values \
before stay in the history tables.
"""


def request_snapshot(step: Step, tables: Sequence[str]) -> Counts:
    """Ask for an incremental snapshot of tables; a repeated call of one run asks once, unless its request failed.

    A signal is sent at most once: a run that dies while it sends it leaves a request that is `sent`.

    Args:
        step: the pipeline, its tables and the run.
        tables: names of declared tables with a key; empty: those that a finding says need a snapshot.

    Returns:
        tables, request (its id), since_csn.

    Raises:
        ConfigurationError: the pipeline declares no signals, no table needs a snapshot, one has no key, another
            request is open, or no landing has followed an edit of the declaration yet.
        SourceUnavailable: the brokers do not take the signal, or the connector still reads for a request that was
            given up.
    """
    pipeline, paths = step.pipeline, step.paths
    chosen = chosen_tables(pipeline, paths, tables)
    refuse_open(paths, step.run_id)
    landing_tables.create_tables(paths)
    every = requested_snapshots.requests(paths)
    of_run = [each for each in every if each.run_id == step.run_id]
    request = next((each for each in of_run if each.status != FAILED), None)
    if request is None:
        _refuse_edited(pipeline, paths)
        request = _planned(step, chosen, f"{pipeline.name}/{step.run_id}/{len(of_run)}")
    if request.status == PLANNED:
        _refuse_unstopped(pipeline, every)
        spelled = name_spellings.known(paths)
        sources = [spelled.get(name, pipeline.table(name).source) for name in request.tables]
        request = requested_snapshots.write(paths, request, SENT)
        try:
            connector_signals.request(pipeline, request.request, [re.escape(name) for name in sources])
        except SourceUnavailable:
            requested_snapshots.write(paths, request, PLANNED)
            raise
    LOG.info(f"asked for a snapshot of {', '.join(request.tables)}: {request.request}, since csn {request.since_csn}")
    return {"tables": len(request.tables), "request": request.request, "since_csn": request.since_csn}


def give_up_request(step: Step, request_id: str) -> Counts:
    """End an open request: the connector is told to stop reading, and nothing is deleted; a repeated call does nothing.

    Rows that the connector has read by then stay: each is what the source had.

    Args:
        step: the pipeline, its tables and the run.
        request_id: the id of the request.

    Returns:
        request (its id), given_up (1, or 0 where it had ended before).

    Raises:
        ConfigurationError: there is no such request.
        SourceUnavailable: the brokers do not take the signal.
    """
    pipeline, paths = step.pipeline, step.paths
    every = requested_snapshots.requests(paths)
    request = next((each for each in every if each.request == request_id), None)
    if request is None:
        under_way = ", ".join(each.request for each in every if each.status in OPEN) or "none"
        raise ConfigurationError(f"there is no snapshot request {request_id}; open is: {under_way}")
    if request.status not in OPEN:
        return {"request": request_id, "given_up": 0}
    if pipeline.source.signals is not None and request.status != PLANNED:
        connector_signals.stop(pipeline, request_id)
    detail = f"{GIVEN_UP} by run {step.run_id}, so that nothing was deleted"
    requested_snapshots.write(paths, request, FAILED, detail=detail)
    note_silent(step, {})
    LOG.info(f"the request {request_id} of {', '.join(request.tables)} is given up")
    return {"request": request_id, "given_up": 1}


def refuse_open(paths: TablePaths, run_id: str) -> None:
    """Raise ConfigurationError where a request of another run is open: a connector reads for one at a time."""
    for each in requested_snapshots.open_requests(paths):
        if each.run_id != run_id:
            raise ConfigurationError(
                f"the request {each.request} of {', '.join(each.tables)} is open ({each.status} since "
                f"{moment(each.at)}), and the connector reads for one at a time: wait until it is loaded, or give it "
                f"up (jobs/request_snapshot.py --give-up {each.request}), then ask again"
            )


def _refuse_edited(pipeline: Pipeline, paths: TablePaths) -> None:
    """Raise ConfigurationError until a landing has followed an edit of the watched tables."""
    if not earlier_steps.is_landed(pipeline, paths):
        raise ConfigurationError(
            "the watched tables were edited since the newest landing, and a request counts from a landing: run a "
            "cycle, then ask again"
        )


def _refuse_unstopped(pipeline: Pipeline, requests: Sequence[Request]) -> None:
    """Raise SourceUnavailable while the connector reads for a request that was given up: it would stop the next too."""
    signals = pipeline.source.signals
    given_up = next((each for each in requests if (each.detail or "").startswith(GIVEN_UP)), None)
    if signals is None or given_up is None:
        return
    state = connector_signals.state_of(pipeline, given_up.request)
    is_new = state.newest is not None and datetime.now(UTC) - state.newest < signals.answer_within
    if is_new and not state.is_over:
        raise SourceUnavailable(
            f"the connector has not stopped yet to read for the request {given_up.request}, which was given up: ask "
            "again in a minute"
        )


def _planned(step: Step, tables: Sequence[str], about: str) -> Request:
    """Record that a snapshot of tables will be asked for; about: what makes its id."""
    paths = step.paths
    buffered = buffer_state(paths)
    request = Request(
        f"txloom-{uuid.uuid5(uuid.NAMESPACE_URL, about)}",
        step.run_id,
        tuple(sorted(tables)),
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
    rows = {name: small_tables.query(paths.table(name), "select count(*) as n from t") for name in tables}
    lines = [f"**The connector reads {len(tables)} tables anew, beside its stream.**", "", AFTER.strip(), ""]
    lines += ["| table | rows in the lake | findings that it closes |", "|---|---|---|"]
    open_findings = [row for row in findings.open_findings(paths) if row["needs_snapshot"]]
    for name in tables:
        closes = ", ".join(sorted({row["code"] for row in open_findings if row["table"] in (name, None)})) or "none"
        lines.append(f"| {escaped(name)} | {rows[name][0]['n'] if rows[name] else 0} | {escaped(closes)} |")
    return "\n".join(lines).strip()
