"""Edits of a declaration that no rebuild can follow: an existing table holds rows of another kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from txloom.config.contents import table_content
from txloom.config.load import line_of_column, line_of_target, locate
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.config.problems import Problem
from txloom.current.folding.value_sources import WHOLE
from txloom.errors import ConfigurationError
from txloom.events.values.scalars import arrow_type
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, Record, State
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.delta.sql import sql_name, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import partition_columns, row_tables

TABLES = "tables"
"""The key of a declaration with the watched tables."""
REBUILT = (
    "After the move, the next cycle rebuilds the rows from the messages that are still kept. A table needs a snapshot "
    "if some of its messages are gone."
)
"""What the next cycle does after the folder of a history is moved away."""


@dataclass(frozen=True)
class RefusedEdit:
    """An edit that the next cycle refuses.

    Args:
        kind: `mirrors` or `aggregates`; `tables` where a column was edited.
        target: the table of the mirror, the name of the aggregate, or the watched table.
        key: of the target, what was edited; of a watched table, the column.
        value: what it says.
        expected: what it may say.
        hint: the way out.
    """

    kind: str
    target: str
    key: str
    value: str
    expected: str
    hint: str

    @property
    def path(self) -> str:
        """Return where it is in a declaration."""
        if self.kind == TABLES:
            return f"{TABLES}[{self.target}].columns.{self.key}"
        return f"targets.{self.kind}[{self.target}].{self.key}"

    def locate(self, file: Path) -> tuple[int, str]:
        """Return line and path in the file of a declaration."""
        if self.kind == TABLES:
            return line_of_column(file, self.target, self.key)
        return line_of_target(file, self.kind, self.target, self.key)


def messages_of(refused: Sequence[RefusedEdit], name_or_file: str) -> str:
    """Return refused edits as messages, one in each line, with file and line where the declaration is found.

    Args:
        refused: the edits.
        name_or_file: the pipeline, as `config.find` takes it.
    """
    try:
        file: Path | None = locate(name_or_file)
    except ConfigurationError:
        file = None
    return "\n".join(_message(each, file, name_or_file) for each in refused)


def _message(edit: RefusedEdit, file: Path | None, name: str) -> str:
    line, path = (1, edit.path) if file is None else edit.locate(file)
    where = f"pipeline {name}" if file is None else str(file)
    problem = Problem(where, line, path, edit.value, edit.expected, edit.hint)
    return str(problem) if file is not None else str(problem).replace(f"{where}:1:", f"{where}:", 1)


def refused_edits(pipeline: Pipeline, paths: TablePaths, known: Sequence[Record]) -> list[RefusedEdit]:
    """Return the edits that the next cycle refuses.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        known: the records, in order.
    """
    others = [*_other_histories(pipeline, paths, known), *_other_partitions(pipeline, paths)]
    states = r.states(known)
    for table in pipeline.tables:
        members = [*_find_members(pipeline, paths, states, table)]
        others += [*_find_other_types(table, members), *_find_empty_keys(paths, table, members)]
    return others


def _other_histories(pipeline: Pipeline, paths: TablePaths, known: Sequence[Record]) -> Iterator[RefusedEdit]:
    """Yield targets whose history holds rows of another target."""
    held = _held(known)
    for aggregate in pipeline.targets.aggregates:
        declared = Held(aggregate.root, pipeline.table(aggregate.root).source, is_root=True)
        if (other := _other(paths, aggregate.history, held, declared)) is not None:
            yield RefusedEdit("aggregates", aggregate.name, "root", aggregate.root, *_way_out(aggregate.history, other))
    for mirror in pipeline.targets.mirrors:
        declared = Held(mirror.table, pipeline.table(mirror.table).source, is_root=False)
        if (other := _other(paths, mirror.history, held, declared)) is not None:
            yield RefusedEdit("mirrors", mirror.table, "history", mirror.history, *_way_out(mirror.history, other))


@dataclass(frozen=True)
class Held:
    """Of what a history holds rows: of a source table alone, or of the transactions of an aggregate with this root.

    table: its name in the lake, or that of the root.
    """

    table: str
    source: str
    is_root: bool

    def follows(self, other: "Held") -> bool:
        """Return whether rows can be written beside those of another: the same table, by its name or its source."""
        return self.is_root == other.is_root and (self.table == other.table or self.source == other.source)

    def __str__(self) -> str:
        """Return it in words."""
        return f"transactions with the root {self.source}" if self.is_root else f"changes of {self.source}"


def _held(known: Sequence[Record]) -> dict[str, dict[Pair, Held]]:
    """Return by history of what its members hold rows; a table that got another source has rows of the new one."""
    states, held = r.states(known), dict[str, dict[Pair, Held]]()
    for pair, state in states.items():
        root = state.newest.declaration.get("root")
        of_root = pair if root is None else (pair[0], root)
        source = states[of_root if of_root in states else pair].newest.declaration["source"]
        held.setdefault(pair[0], {})[pair] = Held(root or pair[1], source, is_root=root is not None)
    return held


def _other(paths: TablePaths, history: str, held: Mapping[str, Mapping[Pair, Held]], declared: Held) -> Held | None:
    """Return of what else than declared an existing history holds rows; None: of nothing else."""
    other = [each for each in held.get(history, {}).values() if not declared.follows(each)]
    return other[0] if other and exists(paths.table(history)) else None


def _way_out(history: str, other: Held) -> tuple[str, str]:
    """Return what an edit may say instead, and how it can stay."""
    return f"{other} as before", f"Give the target another history, or move the folder {history} away. {REBUILT}"


def _other_partitions(pipeline: Pipeline, paths: TablePaths) -> Iterator[RefusedEdit]:
    """Yield mirrors whose current table is partitioned by other columns than the declared ones."""
    for row_table in row_tables(pipeline):
        path = paths.table(row_table.current)
        if row_table.mirror is None or not exists(path):
            continue
        other = schema_evolution.other_partitions(path, row_table.schema, partition_columns(row_table))
        if other is not None:
            lie, say = other
            way_out = schema_evolution.OTHER_PARTITIONS.format(folder=f"the folder {row_table.current}")
            hint = f"The rows of {row_table.current} lie so: {way_out}."
            yield RefusedEdit("mirrors", row_table.mirror.table, "partition_by", say, lie, hint)


@dataclass(frozen=True)
class HeldMember:
    """The changes of a watched table in an existing history.

    Args:
        history: the name of the history.
        types: by column, its types in the history: of the values after and before a change.
        state: of the history's member; None: no record has it.
        field: of an aggregate's history, the field that has the changes; None: the history is a mirror's.
    """

    history: str
    types: Mapping[str, pa.DataType]
    state: State | None
    field: str | None = None

    def find_type(self, column: Column) -> pa.DataType | None:
        """Return the type of the values that a history has of a column, maybe under an earlier name; None: it has none.

        Of two, the one that the declared type does not hold is returned.
        """
        known = [self.types[name] for name in self._find_names(column)]
        refused = [kind for kind in known if not _can_hold(column, kind)]
        return next(iter([*refused, *known]), None)

    def lacks(self, paths: TablePaths, column: Column) -> bool:
        """Return whether any row change has no value of a column, under any of the column's names in the history."""
        changes = "t"
        if self.field is not None:
            changes = f"(select unnest({sql_name(self.field)}) as change from t) u"
        head = "" if self.field is None else "change."
        empty = [f"{head}{sql_name(name)} is null" for name in self._find_names(column)]
        where = " and ".join([f"{head}_txloom_op not in ({text_list(WHOLE)})", *empty])
        return bool(
            small_tables.query(paths.table(self.history), f"select 1 as n from {changes} where {where} limit 1")
        )

    def _find_names(self, column: Column) -> list[str]:
        """Return the names under which the history has a column's values: the column's own name and an earlier name."""
        sources = {source: name for name, source in self.state.held.items()} if self.state is not None else {}
        names = dict.fromkeys((column.name, sources.get(column.source.casefold(), column.name)))
        return [name for name in names if name in self.types]


def _can_hold(column: Column, kind: pa.DataType) -> bool:
    return schema_evolution.can_become(kind, arrow_type(column.type))


def _find_other_types(table: Table, members: Sequence[HeldMember]) -> Iterator[RefusedEdit]:
    """Yield columns with a declared type that does not hold every value that a history may have of them."""
    for column in table.columns:
        held = [(each.history, kind) for each in members if (kind := each.find_type(column)) is not None]
        refused = [(history, kind) for history, kind in held if not _can_hold(column, kind)]
        if refused:
            before = schema_evolution.describe_type(refused[0][1])
            folders = dict.fromkeys(history for history, _ in refused)
            named = f"the folder{'s' if len(folders) > 1 else ''} {' and '.join(folders)}"
            expected = f"{before} as before, or a type that holds all its values"
            hint = f"Or move {named} away. {REBUILT}"
            yield RefusedEdit(TABLES, table.name, column.name, str(column.type), expected, hint)


def _find_empty_keys(paths: TablePaths, table: Table, members: Sequence[HeldMember]) -> Iterator[RefusedEdit]:
    """Yield the columns of a changed key of which some change in a history has no value.

    A change without a complete key does not identify a row, so no table can be computed from the history. The cycle
    replaces the history only if every message is kept and has a value.
    """
    for member in members:
        before = member.state.settled if member.state is not None else None
        if before is None or not r.has_other_key(before, replace(before, declaration=table_content(table))):
            continue
        for column in map(table.column, table.key):
            if member.lacks(paths, column):
                expected = f"a column with a value in every change of {member.history}"
                hint = (
                    "First declare the column without adding it to the key. Add the column to the key after a "
                    "cycle has taken its values from messages. Or give the target another history."
                )
                yield RefusedEdit(TABLES, table.name, column.name, f"{column.type} in the key", expected, hint)


def _find_members(
    pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State], table: Table
) -> Iterator[HeldMember]:
    """Yield the changes of a table in each existing history that is declared for it."""
    for mirror in pipeline.targets.mirrors:
        if mirror.table == table.name and exists(path := paths.table(mirror.history)):
            schema = arrow_tables.plain_schema(small_tables.schema_of(path))
            types = {field.name: field.type for field in schema}
            yield HeldMember(mirror.history, types, r.find_state(states, mirror.history, table))
    for aggregate in pipeline.targets.aggregates:
        declared = dict(schemas.members_of(aggregate)).get(table.name)
        if declared is None or not exists(path := paths.table(aggregate.history)):
            continue
        state = r.find_state(states, aggregate.history, table)
        records = [each for each in (state.settled, state.newest) if each is not None] if state is not None else []
        fields = [declared, *(each.declaration.get("field") for each in records)]
        schema = arrow_tables.plain_schema(small_tables.schema_of(path))
        for field in dict.fromkeys(name for name in fields if name in schema.names):
            if pa.types.is_list(kind := schema.field(field).type):
                inside = kind.value_type
                types = {inside.field(i).name: inside.field(i).type for i in range(inside.num_fields)}
                yield HeldMember(aggregate.history, types, state, field)
