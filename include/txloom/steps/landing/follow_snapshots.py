"""Follow the snapshots that a connector was asked for, until the current tables show them.

A row that the connector read is of the commit `since_csn` or a later one, and stands behind all rows of that commit.
One that the stream changed meanwhile, which the connector then leaves out, is of a later commit, landed with the rest.
When all of that is merged, any other row of the current table is one that the source no longer has: it is deleted, as
of `since_csn`. Nothing is deleted before that is sure: a row that could not be read as declared is a dead letter, and
the request waits for its redrive; where it is dismissed, the request ends, and nothing is deleted.

After an edit of the declaration, a request waits until a merge has followed the edit. The request ends if one of its
tables is no longer declared, or has another source or key.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

import pyarrow as pa

from txloom.config import names
from txloom.config.contents import watched_content
from txloom.events.envelope import BEHIND
from txloom.events.formats import SourceDecoder
from txloom.events.source_names import folded
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.landing.pending_work import unfinished
from txloom.steps.landing.silent_requests import note_silent
from txloom.steps.step import Step
from txloom.storage.dead_letters import dismissals, open_letters
from txloom.storage.declarations.marks import outdated_tables
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables, data_files
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import sql_name, text_list
from txloom.storage.landing import (
    change_events,
    connector_snapshots,
    kafka_offsets,
    landing_plan,
    landing_tables,
    loaded_snapshots,
    requested_snapshots,
)
from txloom.storage.landing.requested_snapshots import FAILED, LOADED, PLANNED, READ, SENT, Request
from txloom.storage.publishing.watermark import merged
from txloom.storage.snapshots import rows_ahead
from txloom.storage.sources import connector_signals, kafka
from txloom.storage.sources.row_files import as_json
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.targets.row_tables import row_tables

LOG = logging.getLogger(__name__)

DELETES = f"{names.SYSTEM_PREFIX}snapshot_deletes"
"""The prefix of the ids of transactions that delete what a connector did not read, and of the topics of their plans."""
AT_ONCE = 50_000
"""Rows of a block of deletes."""
AFTER = timedelta(seconds=30)
"""How long after the connector's word the ends of the topics are looked up: partitions are written side by side."""
LOST_AFTER = timedelta(hours=1)
"""How long a planned request may take to be sent: the job that made it sends it within minutes, or died."""


def follow_snapshots(step: Step, last: int) -> int:
    """Bring each request one step further; return the number of the last landing, which may be a new one.

    last: the number of the last landing, which is finished.
    """
    if step.pipeline.source.signals is None:
        return last
    last_words = dict[str, datetime]()
    for request in requested_snapshots.open_requests(step.paths):
        age = datetime.now(UTC) - request.at
        if request.status == PLANNED and age >= LOST_AFTER:
            requested_snapshots.write(step.paths, request, FAILED, detail="its signal was not sent: ask again")
        elif request.status == SENT:
            last_words[request.request] = _ask(step, request) or request.at
        elif request.status == READ and request.ends is None:
            if age >= AFTER:
                requested_snapshots.write(step.paths, request, READ, ends=_ends(step))
        elif request.status == READ:
            last = _settle(step, request, last)
    note_silent(step, last_words)
    return last


def _ask(step: Step, request: Request) -> datetime | None:
    """Look whether the connector has read the tables; return when it last said something of that, if ever."""
    state = connector_signals.state_of(step.pipeline, request.request)
    if not state.is_over:
        return state.newest
    if _end_redeclared(step, request):
        return state.newest
    status_by_table = {folded(name): status for name, status in state.tables.items()}
    sources = {name: folded(step.pipeline.table(name).source) for name in request.tables}
    scans = {name: status_by_table.get(source, "not read") for name, source in sources.items()}
    bad = [f"{name}: {status}" for name, status in scans.items() if status not in connector_signals.READ]
    problem = state.problem or (f"the connector could not read {', '.join(bad)}" if bad else None)
    LOG.info(f"snapshot {request.request}: {problem or 'the connector has read its tables'}")
    requested_snapshots.write(step.paths, request, FAILED if problem else READ, detail=problem)
    return state.newest


def _end_redeclared(step: Step, request: Request) -> bool:
    """End a request if one of its tables was removed or got another source or key; return whether the request ended."""
    declared = {table.name for table in step.pipeline.tables}
    _, since = landing_plan.decoded_since(step.paths, watched_content(step.pipeline))
    edited = [name for name in request.tables if name not in declared or since.get(name, 0) > request.landing]
    if edited:
        detail = (
            f"the declaration of {', '.join(edited)} was edited after the request, so that nothing was deleted: "
            "ask again"
        )
        LOG.info(f"snapshot {request.request}: {detail}")
        requested_snapshots.write(step.paths, request, FAILED, detail=detail)
    return bool(edited)


def _ends(step: Step) -> dict[str, int]:
    assert step.pipeline.source.kafka is not None
    extents = kafka.extents(step.pipeline.source.kafka, kafka.topics_of(step.pipeline))
    return {f"{each.topic}[{each.partition}]": each.until for each in extents}


def _settle(step: Step, request: Request, last: int) -> int:
    """Delete what the connector did not read, or end the request, once all that it read is merged."""
    pipeline, paths = step.pipeline, step.paths
    reached = {f"{topic}[{part}]": at.until for (topic, part), at in kafka_offsets.reached(paths).items()}
    assert request.ends is not None
    if _end_redeclared(step, request):
        return last
    if any(reached.get(name, 0) < end for name, end in request.ends.items()):
        return last
    if request.until_csn is None:
        until_csn = max(request.since_csn, loaded_snapshots.newest(paths) or 0)
        request = requested_snapshots.write(paths, request, READ, until_csn=until_csn)
    watermark = merged(paths, pipeline.current_tables)
    if unfinished(paths) or watermark is None or watermark.valid_through < (request.until_csn or 0):
        return last
    if dead := open_letters.open_dead_letters(paths, "csn", f"where {_may_be_read(request)}").num_rows:
        detail = f"{dead} rows that it may have read are dead letters: redrive them, or dismiss them and ask again"
        if request.detail != detail:
            requested_snapshots.write(paths, request, READ, detail=detail)
        return last
    if away := sum(row["events"] for row in dismissals.of_dead_letters(paths, _may_be_read(request))):
        detail = f"{away} rows that it may have read were dismissed, so that nothing was deleted: ask again"
        requested_snapshots.write(paths, request, FAILED, detail=detail)
        return last
    if early := _is_early(step, request):
        if request.detail != early:
            requested_snapshots.write(paths, request, READ, detail=early)
        return last
    if outdated_tables(pipeline, paths) & {*request.tables}:
        LOG.info(f"snapshot {request.request}: it waits until the next merge has followed the edit of the declaration")
        return last
    stale = _stale(step, request)
    count = sum(rows.num_rows for rows in stale.values())
    if not count:
        LOG.info(f"snapshot {request.request}: the current tables show it")
        requested_snapshots.write(paths, request, LOADED, detail=None)
        return last
    _delete(step, request, stale, last + 1)
    LOG.info(f"snapshot {request.request}: {count} rows that the source no longer has are deleted")
    requested_snapshots.write(paths, request, READ, removed=request.removed + count, detail=None)
    return last + 1


def _is_early(step: Step, request: Request) -> str | None:
    """Return why the current tables may not yet show the state that the connector read; None: no reason is known."""
    pipeline, paths, signals = step.pipeline, step.paths, step.pipeline.source.signals
    if any(each.landing > request.landing for each in rows_ahead.waiting(pipeline, paths)):
        return "its rows wait until the current tables show a later commit of the source"
    if signals is None or signals.watermarks is not None:
        return None
    if not rows_ahead.were_held(paths, request.landing) and connector_snapshots.has_beside(paths, request.landing):
        return None
    if rows_ahead.has_passed(pipeline, paths, requested_snapshots.read_at(paths, request), request.since_csn):
        return None
    return "nothing is deleted until the current tables show a commit of the source that is later than the read"


def _may_be_read(request: Request) -> str:
    """Return a condition on dead letters that may be rows that the connector read: of some the table is unknown."""
    return f'landing > {request.landing} and ("table" is null or "table" in ({text_list(request.tables)}))'


def _stale(step: Step, request: Request) -> dict[str, pa.Table]:
    """Return, by table, the keys of rows that were not read or changed since the request, by the source's names."""
    before = f"_txloom_csn < {request.since_csn} or (_txloom_csn = {request.since_csn} and _txloom_pos < {BEHIND})"
    stale = dict[str, pa.Table]()
    for row_table in row_tables(step.pipeline):
        table, path = row_table.table, step.paths.table(row_table.current)
        if table.name in request.tables and exists(path):
            keys = ", ".join(f"{sql_name(name)} as {sql_name(table.column(name).source)}" for name in table.key)
            sql = f"select {keys} from t where {before}"
            parts = list(arrow_tables.batches({"t": opened(path)}, sql))
            stale |= {table.name: pa.concat_tables(parts)} if parts else {}
    return stale


def _delete(step: Step, request: Request, stale: dict[str, pa.Table], number: int) -> None:
    """Land the deletes of rows as one transaction; a run that dies in it lands the same rows again."""
    at, paths = LandingPlan(number, datetime.now(UTC), ()), step.paths
    xid = f"{DELETES}:{number}"
    transaction = InternalTransaction(effective_pipeline(step.pipeline, paths), at, xid, request.since_csn, None)
    counts = {name: rows.num_rows for name, rows in stale.items() if rows.num_rows}
    metadata = transaction.landed_metadata(counts, sum(counts.values()) + 1)
    every = chain(_events(transaction, stale), [change_events.with_compact_events(metadata, at)])
    written = [data_files.write_file(rows, names.CHANGE_EVENTS, paths.change_events) for rows in every]
    landing_plan.write_topics(paths, at, step.run_id, [f"{DELETES}:{name}" for name in counts])
    landing_tables.append_files(written, at, paths)
    close(replace(step, pipeline=transaction.pipeline), at)


def _events(transaction: InternalTransaction, stale: dict[str, pa.Table]) -> Iterator[pa.Table]:
    """Yield the deletes as rows of change_events, in blocks."""
    decoder, task, line = SourceDecoder(transaction.pipeline), Task(0, names.LOAD, "", 0), 1
    for name, rows in stale.items():
        for batch in rows.to_batches(AT_ONCE):
            keys = as_json(rows.schema.names, batch.columns)
            messages = [transaction.message(name, "D", BEHIND + line + n, before=key) for n, key in enumerate(keys)]
            events = transaction.landed(decoder, messages, task, range(line, line + len(messages)))
            yield change_events.with_compact_events(events, transaction.at)
            line += len(messages)
