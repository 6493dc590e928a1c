"""Edits of a declaration that no cycle has followed yet: histories have columns under their earlier names."""

from collections.abc import Collection, Mapping

from txloom.config.contents import Content
from txloom.config.models.pipeline import Pipeline, Table
from txloom.errors import BeforeHistory, ConfigurationError
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, State
from txloom.storage.declarations.undeclared_columns import adopted
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import RowTable


def refuse_renamed_keys(pipeline: Pipeline, paths: TablePaths) -> None:
    """Refuse to compare or look up rows by a key that histories have under other names.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.

    Raises:
        ConfigurationError: the key columns of a table got other names since its history was settled.
    """
    declared = r.declared_pairs(pipeline)
    for pair, state in r.states(r.read(paths)).items():
        if pair in declared and (names := _find_new_names(pipeline.table(pair[1]), state)):
            raise ConfigurationError(
                f"{pair[0]} has the key of {pair[1]} under earlier names, not yet as {', '.join(names)}: run a cycle, "
                "which renames it, then this"
            )


def _find_new_names(table: Table, state: State) -> list[str]:
    """Return the key columns of a table that its history does not have under their declared names."""
    pending = [] if state.settled is None else _find_pending(table, state.settled.declaration)
    return [name for name in table.key if name in pending]


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
