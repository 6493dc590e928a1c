"""Record that histories are written by a changed declaration, before a buffer writes any row by it."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from txloom.config import names
from txloom.config.contents import Content, digest_of, pipeline_content, table_content
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.storage import system_tables
from txloom.storage.buffer.newest_batch import BufferState, Declared, buffer_state
from txloom.storage.declarations import earlier_steps, history_rewriting, lagging
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.edits.refused_edits import messages_of, refused_edits
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths
from txloom.storage.targets import schemas, shadow_tables

LOG = logging.getLogger(__name__)


def declare(pipeline: Pipeline, paths: TablePaths, run_id: str) -> Declared | None:
    """Return the declaration that the buffer works by; record it first where it is another one than before.

    None: messages were landed by another declaration, because it was edited since. The buffer takes them after the next
    landing, which decodes undecided transactions again.

    Nothing is read or written while the declaration stays as the newest batch had it, and no history is gone or lags.
    The rows of a history that lags are removed, so that it is rebuilt like one that is gone. A repeated call records
    nothing.

    Args:
        pipeline: the declaration, without columns that tables took up.
        paths: the tables of the pipeline.
        run_id: the run that records it.

    Raises:
        ConfigurationError: no rebuild can follow the declaration (`refused_edits`).
    """
    seen, content = buffer_state(paths), digest_of(pipeline_content(pipeline))
    histories = {history for history, _ in r.declared_pairs(pipeline)}
    lost = {each for each in histories if not lagging.is_whole(paths, each, seen)}
    if seen is not None and seen.declared.content == content and not lost:
        return replace(seen.declared, histories=lagging.look_at(paths, histories, seen))
    known = r.read(paths)
    if refused := refused_edits(pipeline, paths, known):
        raise ConfigurationError(messages_of(refused, pipeline.name))
    if not _is_landed(pipeline, paths):
        return None
    schema_evolution.ensure(paths.table(names.TRANSACTIONS), system_tables.TRANSACTIONS)
    new = new_records(pipeline, paths, known, seen)
    _empty_lagging(paths, lost & {record.table for record in new if record.reason == r.LOST})
    r.append(paths, new, run_id)
    return Declared(content, r.newest_number(r.read(paths)), lagging.look_at(paths, histories, seen, lost))


def _empty_lagging(paths: TablePaths, lost: Collection[str]) -> None:
    """Remove the rows of histories that lag: some may be rows of an earlier declaration, or under earlier names."""
    for history in sorted(each for each in lost if exists(paths.table(each))):
        LOG.warning(f"{history} lacks rows that were written into it, as an older copy or version does: it is rebuilt")
        path = paths.table(history)
        history_rewriting.replace(path, arrow_tables.plain_schema(small_tables.schema_of(path)), ())


def _is_landed(pipeline: Pipeline, paths: TablePaths) -> bool:
    if is_landed := earlier_steps.is_landed(pipeline, paths):
        return is_landed
    LOG.info("the declaration was edited since messages were landed: the next cycle takes them in")
    return False


def declare_redecoded(declared: Declared, pipeline: Pipeline, paths: TablePaths, run_id: str) -> Declared | None:
    """Record that a buffer takes landings whose messages were decoded by an earlier declaration.

    A table that was left out, and declared again before the buffer ran, lacks rows of the transactions between. A
    repeated call records nothing, and returns what the first one did.

    Args:
        declared: the declaration that the buffer works by.
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run that records it.

    Returns:
        the declaration with the newest record; None: see `declare`.
    """
    if not _is_landed(pipeline, paths):
        return None
    seen, (_, since) = buffer_state(paths), landing_plan.decoded_since(paths)
    after = 0 if seen is None else seen.landing
    states = r.states(r.read(paths))
    new = [
        Record(*pair, r.DECLARED, content_of(pipeline, pair), _last_release(paths, pair[0], seen))
        for pair in sorted(r.declared_pairs(pipeline))
        if since.get(pair[1], 0) > after and pair in states and not states[pair].is_open
    ]
    r.append(paths, new, run_id)
    return replace(declared, number=r.newest_number(r.read(paths)))


def declare_rows_of_before(pipeline: Pipeline, paths: TablePaths, run_id: str, tables: Collection[str]) -> int:
    """Record that rows came for transactions which were released before their tables were declared as they are now.

    If a transaction lacks rows of one member, it is missing for all members of an aggregate's history. So the other
    members that lack changes are recorded too. A repeated call records nothing until a merge has taken the rows.
    Return the number of the newest record.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run that records it.
        tables: the tables of the rows.
    """
    states = r.states(r.read(paths))
    declared = [pair for pair in sorted(r.declared_pairs(pipeline)) if pair in states]
    histories = {history for history, member in declared if member in tables}
    new = [
        replace(states[pair].newest, status=r.DECLARED, reason=r.ROWS_OF_BEFORE, missing=None)
        for pair in declared
        if states[pair].newest.reason != r.ROWS_OF_BEFORE
        and (pair[1] in tables or (pair[0] in histories and states[pair].lacks_changes))
    ]
    r.append(paths, new, run_id)
    return r.newest_number(r.read(paths))


def new_records(
    pipeline: Pipeline, paths: TablePaths, known: Sequence[Record], seen: BufferState | None
) -> list[Record]:
    """Return the records by which a declaration differs from those that are known; nothing is written.

    Args:
        pipeline: the declaration, without columns that tables took up.
        paths: the tables of the pipeline.
        known: the records so far, in order.
        seen: the state of the buffer; None before its first batch.
    """
    declared, states, new = r.declared_pairs(pipeline), r.states(known), list[Record]()
    histories = {history for history, _ in declared}
    for pair in sorted(declared):
        new += _of_pair(pipeline, paths, pair, states.get(pair), seen, is_known=bool(states))
    for pair, state in sorted(states.items()):
        if pair not in declared and state.newest.status != r.LEFT_OUT:
            release = _last_release(paths, pair[0], seen)
            new.append(replace(state.newest, status=r.LEFT_OUT, release=release, missing=None))
        elif pair not in declared and pair[0] in histories and seen is not None and state.newest.reason != r.LOST:
            # Its rows go with those of the members that are declared.
            new += [replace(state.newest, reason=r.LOST)] if _is_lost(paths, state, seen) else []
    return new


def content_of(pipeline: Pipeline, pair: Pair) -> Content:
    """Return what decides the rows of a history's member: that of its table, and in an aggregate's root and field."""
    history, member = pair
    content = table_content(pipeline, pipeline.table(member))
    for aggregate in pipeline.targets.aggregates:
        if aggregate.history == history:
            content |= {"root": aggregate.root, "field": dict(schemas.members_of(aggregate))[member]}
    return content


def _of_pair(
    pipeline: Pipeline, paths: TablePaths, pair: Pair, state: State | None, seen: BufferState | None, *, is_known: bool
) -> Iterator[Record]:
    """Yield the records of a history's member that its declaration needs; is_known: others have records already."""
    content, (history, member) = content_of(pipeline, pair), pair
    if state is not None and state.newest.status != r.LEFT_OUT and state.newest.declaration == content:
        if seen is not None and _is_lost(paths, state, seen):
            yield Record(history, member, r.DECLARED, content, seen.release, reason=r.LOST)
        return
    if seen is None:
        yield Record(history, member, r.COMPLETE, content, reason=r.FROM_STREAM)
        return
    release = _last_release(paths, history, seen)
    if state is None and not is_known and (written := _written(paths, pair, content)) is not None:
        # The lake is one of before there were records: what its history has columns of was written as declared now.
        yield Record(history, member, r.COMPLETE, written, release, reason=r.FROM_EARLIER)
        if written == content:
            return
    is_lost = state is not None and (_is_lost(paths, state, seen) or state.was_lost)
    is_upgraded = state is not None and r.lacks_values_alone(state.newest.declaration, content)
    if state is not None and is_upgraded and state.is_lacking and not is_lost:
        # No message is read again for a table that needs a snapshot.
        yield replace(state.newest, declaration=content)
        return
    yield Record(history, member, r.DECLARED, content, release, reason=r.LOST if is_lost else None)


def _is_lost(paths: TablePaths, state: State, seen: BufferState) -> bool:
    """Return whether a history is gone or lags that had rows of the member, and no record says so yet.

    A record of before the newest batch does not count: that batch opened the history again.
    """
    newest = state.newest
    is_noted = state.is_open and newest.reason == r.LOST and newest.release >= seen.release
    has_rows = state.settled is not None or newest.release < seen.release
    return has_rows and not is_noted and not lagging.is_whole(paths, newest.table, seen)


def _last_release(paths: TablePaths, history: str, seen: BufferState | None) -> int:
    """Return the newest release that may have written into a history by an earlier declaration.

    A batch that died has written rows of a release that is not complete.
    """
    complete = 0 if seen is None else seen.release
    return max(complete, shadow_tables.newest_release(paths, history)) if exists(paths.table(history)) else complete


def _written(paths: TablePaths, pair: Pair, content: Content) -> Content | None:
    """Return the content that a history of a lake without records was written by; None where it has not the member."""
    history, _ = pair
    if not exists(paths.table(history)):
        return None
    schema = arrow_tables.plain_schema(small_tables.schema_of(paths.table(history)))
    if "field" in content:
        fields = _fields(schema, content["field"])
        if fields is None:
            return None
    else:
        fields = set(schema.names)
    columns = {name: about for name, about in content["columns"].items() if name in fields}
    return {**content, "columns": columns}


def _fields(schema: pa.Schema, field: str) -> set[str] | None:
    """Return the names of the columns of a member's changes in an aggregate's history; None where it lacks them."""
    if field not in schema.names or not pa.types.is_list(kind := schema.field(field).type):
        return None
    return {kind.value_type.field(number).name for number in range(kind.value_type.num_fields)}


def by_source(content: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, str]]:
    """Return, by a column's name in the source in lower case, its name in the lake and its type."""
    return {source.casefold(): (name, kind) for name, (kind, source) in content["columns"].items()}
