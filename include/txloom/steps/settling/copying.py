"""Copy rows of a history's member out of another history that has them: no message is needed for that."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Child, Mirror, Pipeline, Table
from txloom.steps.backfill.apply import correct_history
from txloom.steps.backfill.compare import counts_of
from txloom.steps.backfill.released_events import OUTCOMES
from txloom.steps.backfill.scope import HIGHEST, Scope, Target
from txloom.steps.backfill.table_comparison import Comparison
from txloom.steps.declarations.declare import by_source
from txloom.steps.settling.need import Need, earlier, has_released
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations import history_rewriting
from txloom.storage.declarations import records as r
from txloom.storage.declarations.lagging import is_whole
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.declarations.undeclared_columns import first_seen
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader, schemas, shadow_tables
from txloom.storage.targets.row_tables import RowTable


def copy_rows(step: Step, pipeline: Pipeline, known: Sequence[Record], need: Need) -> bool:
    """Bring the rows that a mirror's history needs out of another history that has all of them.

    A repeated call copies no row twice.

    Returns:
        whether there is such a history; its rows are there then.
    """
    states = r.states(known)
    source = source_of(step.paths, states, need)
    if source is None:
        return False
    _write(step, pipeline, need, copied_rows(pipeline, step.paths, states[source], need))
    return True


def copied_rows(pipeline: Pipeline, paths: TablePaths, source: State, need: Need) -> Iterator[pa.Table]:
    """Yield, in parts, the rows of another history that a mirror's history needs; source: the state of that history."""
    where = f"_txloom_release <= {need.until}"
    if not need.everything and need.gap is not None and not need.values:
        where += f" and _txloom_release > {need.gap}"
    return history_reader.parts(paths, _row_table(pipeline.table(need.pair[1]), source), where)


def source_of(paths: TablePaths, states: dict[Pair, State], need: Need) -> Pair | None:
    """Return the first other history that has every row which a mirror's history needs; None for none.

    Rows of an aggregate's history are not copied, because it has its members side by side. Rows that are made again
    for a column that their table took up, or because late rows came, are not copied either. The other history may lack
    these values or rows too.
    """
    content = states[need.pair].newest.declaration
    if any(each.reason == r.ROWS_OF_BEFORE for each in states[need.pair].since):
        return None
    if need.replaces or "field" in content or need.values.keys() - content["columns"].keys():
        return None
    for pair, state in sorted(states.items()):
        if pair == need.pair or state.settled is None:
            continue
        is_complete = state.settled.status == r.COMPLETE and not state.settled.since_csn
        covers = is_complete and state.follows >= need.until and not _is_cleaned(paths, pair[0])
        if not covers or not is_whole(paths, pair[0], buffer_state(paths)) or _lacks(paths, state, need):
            continue
        if _has_columns(paths, state, states[need.pair]):
            return pair
    return None


def _lacks(paths: TablePaths, state: State, need: Need) -> bool:
    """Return whether a history was not written by its record when transactions of earlier landings were released.

    Their events were decoded by an earlier declaration, so that this history may lack their rows too.
    """
    return has_released(paths, f"release > {state.follows} and {earlier(need.until, need.border)}")


def _is_cleaned(paths: TablePaths, history: str) -> bool:
    return small_tables.last_written(paths.table(history), history_reader.CLEANED) > 0


def _has_columns(paths: TablePaths, state: State, needing: State) -> bool:
    """Return whether the rows of a history have every value that a member's declaration needs.

    Args:
        paths: the tables of the pipeline.
        state: the state of the history, with a settled record.
        needing: the state of the member.
    """
    has, content = state.settled, needing.newest.declaration
    if has is None or r.differs(has, needing.newest):
        return False
    known = by_source(has.declaration)
    # `first_seen` reads findings, and a column that was declared has none.
    declared = state.sources | needing.sources

    def has_column(source: str, name: str, kind: str) -> bool:
        sources = r.sources_of(content, name)
        if source in known:
            return known[source] == (name, kind) and r.sources_of(has.declaration, name) == sources
        return not declared & {*sources} and all(first_seen(paths, needing.names, each) is None for each in sources)

    return all(has_column(source, *about) for source, about in by_source(content).items())


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


def _write(step: Step, pipeline: Pipeline, need: Need, parts: Iterator[pa.Table]) -> None:
    """Bring rows into a mirror's history, in one commit: all where it is empty, else those that it lacks."""
    paths, (history, member) = step.paths, need.pair
    if history_rewriting.fill_empty(paths.table(history), names.POSITION, parts):
        return
    schema = schemas.changes_schema(pipeline.table(member))
    scope = Scope(pipeline, paths, step.run_id, 0, HIGHEST, need.until)
    target = Target(history, names.POSITION, schema, is_history=True, members=(member,))
    shadow_tables.note_edit(paths, step.run_id, "rebuilding", [member])
    rewrite = shadow_tables.anew(paths.table(names.shadow_table(history)), schema, names.POSITION)
    for rows in parts:
        rewrite.add(rows)
    rewrite.commit({})
    shadow_tables.write(paths.table(names.shadow_table(names.TRANSACTIONS)), OUTCOMES.empty_table())
    Comparison(scope, target).write(step.session)
    counts = counts_of(scope, target)
    if counts["missing"] or counts["different"]:
        correct_history(step.session, scope, target)
    shadow_tables.drop(paths, [names.TRANSACTIONS, history])
    shadow_tables.note_edit(paths, step.run_id, "dropped", [member])
