"""Edits of a declaration that no cycle has followed yet: histories have columns under their earlier names."""

from collections.abc import Collection, Mapping, Sequence

from txloom.config.contents import Content
from txloom.config.models.pipeline import Pipeline, Table
from txloom.errors import BeforeHistory, ConfigurationError
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.declarations.undeclared_columns import adopted
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import RowTable


def refuse_renamed_keys(pipeline: Pipeline, paths: TablePaths, pairs: Collection[Pair]) -> None:
    """Refuse to compare or look up rows by a key that histories have under other names.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        pairs: the histories that are read, each with the table whose rows are read.

    Raises:
        ConfigurationError: the key columns of a table got other names since its history was settled.
    """
    states = r.states(r.read(paths))
    for history, name in sorted(pairs):
        state = r.find_state(states, history, table := pipeline.table(name))
        if state is not None and (names := _find_new_names(table, state)):
            way_out = "run a cycle, which renames it, then this"
            if state.newest.status == r.WAITING:
                way_out = f"it is replaced once messages have arrived ({state.newest.missing})"
            raise ConfigurationError(
                f"{history} has the key of {name} under earlier names, not yet as {', '.join(names)}: {way_out}"
            )


def find_waiting_keys(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return the tables with a renamed key whose histories wait for messages: current tables lack the new names.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
    """
    states = r.states(r.read(paths))
    return sorted(
        {
            name
            for history, name in r.declared_pairs(pipeline)
            if (state := states.get((history, name))) is not None
            and state.newest.status == r.WAITING
            and _find_lacking(pipeline.table(name), [state.settled])
        }
    )


def _find_new_names(table: Table, state: State) -> list[str]:
    """Return the key columns of a table that not all rows of its history have under their declared names."""
    is_renamed = state.newest.status == r.WAITING and state.settled and not r.differs(state.settled, state.newest)
    # The merge that left a waiting record gave the columns of earlier rows their new names before it.
    return _find_lacking(table, [state.newest] if is_renamed else [state.settled, state.newest])


def _find_lacking(table: Table, written_by: Sequence[Record | None]) -> list[str]:
    """Return the key columns of a table that one of some records lacks; []: one of the records is None."""
    pending = {name for each in written_by if each is not None for name in _find_pending(table, each.declaration)}
    return [name for name in table.key if name in pending and None not in written_by]


def _find_pending(table: Table, declaration: Content) -> list[str]:
    """Return the columns of a table that a history of another declaration lacks or has from another source column."""
    has = {name: source.casefold() for name, (_, source) in declaration["columns"].items()}
    return [column.name for column in table.columns if has.get(column.name) != column.source.casefold()]


def refuse_pending(paths: TablePaths, states: Mapping[Pair, State], read_tables: Collection[RowTable]) -> None:
    """Refuse to read a history that lacks the declared columns of a table until the next cycle.

    Args:
        paths: the tables of the pipeline.
        states: of each history's member.
        read_tables: the tables whose histories are read.

    Raises:
        BeforeHistory: a column was declared or renamed since, or takes its values from another column of the source.
    """
    taken_up = {(each.table, each.column) for each in adopted(paths)}
    for row_table in read_tables:
        table, state = row_table.table, states.get((row_table.history, row_table.table.name))
        if state is None:
            continue
        pending = [
            column
            for column in _find_pending(table, state.newest.declaration)
            if not any((name, column) in taken_up for name in state.names)
        ]
        if pending:
            raise BeforeHistory(
                f"the declaration of {table.name} was edited, and {row_table.history} has {', '.join(pending)} after "
                "the next cycle only: run a cycle, then this"
            )
