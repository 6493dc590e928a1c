"""Current tables that are compared with an extract after the declaration was edited, and before a merge followed it.

An extract is read by the present declaration, and a current table still has the rows and names of the earlier one. The
columns of a current table are read by their names in the source. A table whose rows the edit changes is refused.
"""

from collections.abc import Collection, Mapping

from txloom.config.contents import watched_content
from txloom.errors import BeyondValidThrough
from txloom.steps.declarations.declare import by_source, new_records
from txloom.steps.landing.redecode import land_edit
from txloom.steps.settling.need import Need
from txloom.steps.settling.settle import needs_of
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import BufferState, buffer_state
from txloom.storage.declarations import earlier_steps
from txloom.storage.declarations import records as r
from txloom.storage.declarations.marks import differing_tables, outdated_tables
from txloom.storage.declarations.records import State
from txloom.storage.declarations.undeclared_columns import adopted, effective_pipeline
from txloom.storage.delta.read_session import exists
from txloom.storage.snapshots.dated_transactions import AGAIN
from txloom.storage.targets.row_tables import RowTable, row_tables


class EditPending(BeyondValidThrough):
    """The current rows of tables are still computed by the declaration before an edit; a buffer and a merge follow."""


def earlier_names(step: Step, tables: Collection[str], last: int) -> dict[str, Mapping[str, str]]:
    """Return by edited table and declared column the name that the current table has the column under.

    A column that the current table lacks is left out; so is a table that was not edited. An empty landing is written
    if tables are refused and the buffer waits for no other landing, so that the next buffer follows the edit.

    Args:
        step: the pipeline, its tables and the run.
        tables: the tables to compare.
        last: the number of the last landing, which is finished.

    Raises:
        EditPending: a table has to be computed again before it can be compared.
    """
    pipeline, paths, seen = step.pipeline, step.paths, buffer_state(step.paths)
    if seen is None:
        return {}
    if earlier_steps.is_buffered(pipeline, seen):
        refused = sorted(outdated_tables(pipeline, paths) & {*tables})
        names = dict[str, Mapping[str, str]]()
    else:
        names = _find_names(step, seen)
        refused = sorted({*tables} - names.keys())
        if refused and (seen.landing >= last or not earlier_steps.is_landed(pipeline, paths)):
            land_edit(step, last + 1)
    if refused:
        raise EditPending(
            f"the declaration was edited, and the current rows of {', '.join(refused)} are still computed by the "
            f"earlier one: {AGAIN}"
        )
    return names


def _find_names(step: Step, seen: BufferState) -> dict[str, Mapping[str, str]]:
    """Return the names of `earlier_names` for each table that can be compared before a merge follows the edit."""
    paths, pipeline, known = step.paths, effective_pipeline(step.pipeline, step.paths), r.read(step.paths)
    before, states = r.states(known), r.states([*known, *new_records(step.pipeline, step.paths, known, seen)])
    open_pairs = r.unsettled(states, r.declared_pairs(pipeline))
    needs = needs_of(paths, pipeline, states, open_pairs, watched_content(step.pipeline))
    anew = differing_tables(pipeline, paths, before)
    taken_up, sources = adopted(paths), {record.declaration["source"] for record in known}
    names = dict[str, Mapping[str, str]]()
    for row_table in row_tables(pipeline):
        table, state = row_table.table, states[row_table.history, row_table.table.name]
        if state.settled is None:
            if table.source not in sources:
                names[table.name] = {}
            continue
        need = needs.get(state.newest.pair)
        is_there = exists(paths.table(row_table.current)) and table.name not in anew
        if is_there and _keeps_rows(state, need):
            held = {each.source.casefold(): each.column for each in taken_up if each.table in state.names}
            held |= {source: name for source, (name, _) in by_source(state.settled.declaration).items()}
            names[table.name] = _names_of(row_table, held)
    return names


def _keeps_rows(state: State, need: Need | None) -> bool:
    """Return whether an edit only adds columns that no row had, removes columns, or gives them other names."""
    if need is None:
        return True
    assert state.settled is not None
    has, content = state.settled.declaration, state.newest.declaration
    types = {source: kind for name, (kind, _) in has["columns"].items() for source in r.sources_of(has, name)}
    is_back = bool((by_source(content).keys() - by_source(has).keys()) & state.sources)
    is_retyped = any(
        types.get(source, kind) != kind
        for name, (kind, _) in content["columns"].items()
        for source in r.sources_of(content, name)
    )
    return not (need.rereads or need.replaces or need.field or is_back or is_retyped)


def _names_of(row_table: RowTable, held: Mapping[str, str]) -> dict[str, str]:
    """Return by declared column its name in the current table; held: by source of a column, the name that it has."""
    names = dict[str, str]()
    for column in row_table.table.columns:
        source = next((each for each in map(str.casefold, column.sources) if each in held), None)
        names |= {} if source is None else {column.name: held[source]}
    return names
