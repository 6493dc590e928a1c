"""Copy rows of a history out of another history that has them: no message is needed for that."""

from collections.abc import Iterator

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Child, Mirror, Pipeline, Table
from txloom.steps.backfill.apply import correct_history
from txloom.steps.backfill.compare import counts_of
from txloom.steps.backfill.released_events import OUTCOMES
from txloom.steps.backfill.scope import HIGHEST, Scope
from txloom.steps.backfill.table_comparison import Comparison
from txloom.steps.settling.copy_sources import Copy
from txloom.steps.settling.need import Need
from txloom.steps.settling.replacing import with_changes
from txloom.steps.step import Step
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations.records import State
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader, schemas, shadow_tables
from txloom.storage.targets.row_tables import RowTable


def copy_rows(step: Step, pipeline: Pipeline, copy: Copy) -> None:
    """Bring the rows of a copy into its history. A repeated call copies no row twice.

    If superseded rows were removed from the source, the history gets the mark of that first, so that no reader requests
    a state which the rows lack.
    """
    if copy.cleaned:
        history_rewriting.mark_cleaned(step.paths.table(copy.history), copy.cleaned)
    _write(step, pipeline, copy)


def copied_rows(pipeline: Pipeline, paths: TablePaths, copy: Copy) -> Iterator[pa.Table]:
    """Yield, in parts, the rows of another history that a history needs, in the schema of the latter."""
    where = copied_sql(copy.needs[0])
    aggregates = {each.history: each for each in pipeline.targets.aggregates}
    if (aggregate := aggregates.get(copy.history)) is not None:
        return _copied_documents(pipeline, paths, aggregate, copy, where)
    (member,) = copy.states
    return history_reader.parts(paths, _row_table(pipeline.table(member), copy.states[member]), where)


def copied_sql(need: Need) -> str:
    """Return the SQL condition on the rows of a history that `copied_rows` brings."""
    where = f"_txloom_release <= {need.until}"
    if not need.everything and need.gap is not None and not need.values:
        where += f" and _txloom_release > {need.gap}"
    return where


def _copied_documents(
    pipeline: Pipeline, paths: TablePaths, aggregate: Aggregate, copy: Copy, where: str
) -> Iterator[pa.Table]:
    """Return the rows of an aggregate's history with the fields of another aggregate, without rows that lack changes.

    A row lacks changes if only members of the source that the aggregate does not have changed in its transaction.
    """
    schema = schemas.stream_schema(pipeline, aggregate)
    key = [name for name in pipeline.table(aggregate.root).key if name in schema.names]
    read = [sql_name(name) for name in (*key, *history_reader.SHARED)]
    before = copy.fields
    read += [f"{sql_name(str(before[name]))} as {sql_name(field)}" for name, field in schemas.members_of(aggregate)]
    sql = f"select {', '.join(read)} from t where {where}"
    parts = arrow_tables.batches({"t": opened(paths.table(copy.source))}, sql)
    return (with_changes(arrow_tables.conform(rows, schema)) for rows in parts)


def _row_table(table: Table, state: State) -> RowTable:
    """Return what reads the changes of a table out of a history that may not be declared any more."""
    history, content = state.newest.table, state.settled.declaration if state.settled else {}
    field = content.get("field")
    if field is None:
        return RowTable(table, table.name, Mirror(table=table.name, history=history), None)
    root, children = content["root"], tuple[Child, ...]()
    if root != table.name:
        child = {"table": table.name, "as": field, "relation": "many", "parent_key": [table.key[0]]}
        children = (Child.model_validate(child),)
    return RowTable(table, table.name, None, Aggregate(name=table.name, history=history, root=root, children=children))


def _write(step: Step, pipeline: Pipeline, copy: Copy) -> None:
    """Bring rows into a history, in one commit: all if it is empty, otherwise those that it lacks."""
    paths, history, members = step.paths, copy.history, sorted(copy.states)
    parts = copied_rows(pipeline, paths, copy)
    scope = Scope(pipeline, paths, step.run_id, 0, HIGHEST, copy.needs[0].until, restores=True)
    target = next(each for each in scope.histories if each.name == history)
    key = [name for name in target.key if name in target.schema.names]
    if history_rewriting.fill_empty(paths.table(history), key, parts):
        shadow_tables.note_made(paths, step.run_id, shadow_tables.COPIED, members)
        return
    shadow_tables.note_edit(paths, step.run_id, "rebuilding", members)
    rewrite = shadow_tables.anew(paths.table(names.shadow_table(history)), target.schema, key)
    for rows in parts:
        rewrite.add(rows)
    rewrite.commit({})
    shadow_tables.write(paths.table(names.shadow_table(names.TRANSACTIONS)), OUTCOMES.empty_table())
    Comparison(scope, target).write(step.session)
    counts = counts_of(scope, target)
    if counts["missing"] or counts["different"]:
        correct_history(step.session, scope, target)
    shadow_tables.drop(paths, [names.TRANSACTIONS, history])
    shadow_tables.note_edit(paths, step.run_id, "dropped", members)
