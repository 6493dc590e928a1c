"""Edits of a declaration that no cycle has followed yet: histories have columns under their earlier names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from txloom.config.contents import Content, table_content
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
            way_out = "run a cycle, which renames it, then try again"
            if state.newest.status == r.WAITING:
                way_out = (
                    "try again after messages have arrived, or patience has passed, and the history is replaced "
                    f"({state.newest.missing})"
                )
            raise ConfigurationError(
                f"{history} has the key of {name} under earlier names, not yet as {', '.join(names)}: {way_out}"
            )


def find_waiting_keys(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return the tables with a renamed key whose histories wait for messages; their current tables lack the new names.

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
    # A merge renames the columns of earlier rows before it enters a WAITING record.
    return _find_lacking(table, [state.newest] if is_renamed else [state.settled, state.newest])


def _find_lacking(table: Table, written_by: Sequence[Record | None]) -> list[str]:
    """Return the key columns of a table that at least one of the records lacks; []: one of the records is None."""
    pending = {name for each in written_by if each is not None for name in _find_pending(table, each.declaration)}
    return [name for name in table.key if name in pending and None not in written_by]


def _find_pending(table: Table, declaration: Content) -> list[str]:
    """Return the columns of a table that a history of another declaration lacks or has from another source column."""
    return [
        column.name
        for column in table.columns
        if r.sources_of(declaration, column.name)[-1:] != [column.sources[-1].casefold()]
    ]


def refuse_pending(
    pipeline: Pipeline,
    paths: TablePaths,
    states: Mapping[Pair, State],
    read_tables: Collection[RowTable],
    *,
    keys_only: bool = False,
) -> None:
    """Refuse to read a history that the next cycle has yet to bring to the declaration of its table.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        states: of each history's member.
        read_tables: the tables whose histories are read.
        keys_only: whether only the columns of the key are read.

    Raises:
        BeforeHistory: a column was declared or renamed since, got another type, or takes its values from another column
            of the source; the table has another field, source, key or rule for dropped columns, reads values by other
            options of `source.debezium`, or is new in the history.
    """
    taken_up = {(each.table, each.column): each.source.casefold() for each in adopted(paths)}
    for row_table in read_tables:
        table, state = row_table.table, r.find_state(states, row_table.history, row_table.table)
        if state is None and states:
            raise BeforeHistory(
                f"the declaration was edited, and {row_table.history} has the rows of {table.name} only after the next "
                "cycle: run a cycle, then try again"
            )
        if state is not None and (pending := _find_unread(pipeline, row_table, state, taken_up, keys_only=keys_only)):
            raise BeforeHistory(
                f"the declaration of {table.name} was edited, and {row_table.history} has {', '.join(pending)} only "
                "after the next cycle: run a cycle, then try again"
            )


def _find_unread(
    pipeline: Pipeline,
    row_table: RowTable,
    state: State,
    taken_up: Mapping[tuple[str, str], str],
    *,
    keys_only: bool,
) -> list[str]:
    """Return what a history does not have of a table as it is declared: columns, its field, or its rows.

    taken_up: by table and column that it took up as text, the column's name in the source in lower case.
    """
    table, declaration = row_table.table, state.newest.declaration
    columns = declaration["columns"]
    known = {name: (kind, r.sources_of(declaration, name)) for name, (kind, _) in columns.items()}
    held = {column: ("string", [source]) for (name, column), source in taken_up.items() if name in state.names} | known
    read = [table.column(name) for name in table.key] if keys_only else table.columns
    pending = [
        each.name for each in read if held.get(each.name) != (str(each.type), [*map(str.casefold, each.sources)])
    ]
    if row_table.mirror is None and declaration.get("field") != row_table.field:
        pending.append(row_table.field)
    if r.differs(state.newest, replace(state.newest, declaration=table_content(pipeline, table))):
        pending.append("the rows of its new source, key, dropped_columns or source.debezium")
    return pending
