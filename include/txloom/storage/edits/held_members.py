"""Changes of watched tables in existing histories, against which an edited declaration is checked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from txloom.config.contents import ALIASES
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.current.folding.value_sources import WHOLE
from txloom.events.values.scalars import arrow_type
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, State
from txloom.storage.declarations.undeclared_columns import first_seen
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.schema_evolution import UNREADABLE, text_reader
from txloom.storage.delta.sql import sql_name, text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.targets import schemas

TEXTS = ("string", "json")
"""The declared types that take every text."""
BEFORE = "_txloom_before"
"""The column of a history with the values before a change."""
CHANGED = ("U", "D")
"""The operations that change or delete an existing row."""


@dataclass(frozen=True)
class Lost:
    """Values of a column that an edit of its source would lose.

    Args:
        sources: the names in the source under which the values were read, spelled as they were declared.
        last_csn: the csn of the last change with such a value.
        first_csn: the csn of the first event that had one of the new names; None: no such event is known.
        is_declared: whether one of the new names was declared before as the `source` of a column.
    """

    sources: Sequence[str]
    last_csn: int
    first_csn: int | None = None
    is_declared: bool = False


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
        refused = [kind for kind in known if not can_hold(column, kind)]
        return next(iter([*refused, *known]), None)

    def lacks(self, paths: TablePaths, column: Column) -> bool:
        """Return whether any row change has no value of a column, under any of the column's names in the history."""
        changes, head = self._changes
        empty = [f"{head}{sql_name(name)} is null" for name in self._find_names(column)]
        where = " and ".join([f"{head}_txloom_op not in ({text_list(WHOLE)})", *empty])
        return bool(
            small_tables.query(paths.table(self.history), f"select 1 as n from {changes} where {where} limit 1")
        )

    def find_unreadable(self, paths: TablePaths, column: Column) -> tuple[str, int] | None:
        """Return a text that the declared type of a column cannot read, and the csn of its change; None: there is none.

        Only values that were read as text are looked at. Values before a change count too.
        """
        settled = self.state.settled if self.state is not None else None
        read_as = {} if settled is None else r.types_of(settled.declaration)
        if column.type.kind in TEXTS or read_as.get(column.source.casefold()) == str(column.type):
            return None
        read, names = text_reader(column.type), self._find_names(column)
        values = [name for name in names if pa.types.is_string(self.types[name])]
        if isinstance(before := self.types.get(BEFORE), pa.StructType):
            fields = [field for field in before if field.name in names and pa.types.is_string(field.type)]
            values += [f"{BEFORE}.{field.name}" for field in fields]
        for name in values:
            for text, csn in self._texts(paths, name):
                try:
                    read(text)
                except UNREADABLE:
                    return text, csn
        return None

    def _texts(self, paths: TablePaths, name: str) -> Iterator[tuple[str, int]]:
        """Yield the texts of a column, and the csn of the change that has each.

        name: of the column, or BEFORE, a point and the name.
        """
        changes, head = self._changes
        value = head + ".".join(map(sql_name, name.split(".")))
        sql = f"select {value} as value, _txloom_csn as csn from {changes} where {value} is not null"
        for rows in arrow_tables.batches({"t": opened(paths.table(self.history))}, sql):
            yield from zip(rows.column("value").to_pylist(), rows.column("csn").to_pylist(), strict=True)

    def find_changed_rows(self, paths: TablePaths) -> str | None:
        """Return what has updates or deletes of rows, with a verb: "HISTORY has" or "messages have"; None: neither."""
        changes, head = self._changes
        changed = f"op in ({text_list(CHANGED)})"
        if small_tables.query(
            paths.table(self.history), f"select 1 as n from {changes} where {head}_txloom_{changed} limit 1"
        ):
            return f"{self.history} has"
        settled = self.state.settled if self.state is not None else None
        if self.state is None or settled is None:
            return None
        source = text_literal(settled.declaration["source"])
        of_table = f'("table" in ({text_list(sorted(self.state.names))}) or source_table = {source})'
        kept = f"kind = 'row' and value is not null and {changed} and {of_table}"
        is_kept = small_tables.query(paths.change_events, f"select 1 as n from t where {kept} limit 1")
        return "messages have" if is_kept else None

    def find_lost(self, paths: TablePaths, table: Table, column: Column) -> Lost | None:
        """Return the values that a column would lose because its names in the source were edited; None: it loses none.

        The column becomes null in rows that lack the new names, when these rows are made again. Values that a declared
        column still reads are not lost, even if it has another name in the lake. A table that gets another source
        starts again without its earlier rows, so that nothing is compared.
        """
        settled = self.state.settled if self.state is not None else None
        if settled is None or column.name not in self.types or settled.declaration["source"] != table.source:
            return None
        read, new = r.sources_of(settled.declaration, column.name), [*map(str.casefold, column.sources)]
        if not read or set(read) <= set(new):
            return None
        if any(set(read) <= {*map(str.casefold, each.sources)} for each in table.columns):
            return None
        firsts = list[int]()
        for source in new:
            if source in read:
                continue
            if self.state is not None and source in self.state.always:
                return self._find_lacking(paths, column.name, source)
            if (first := self._find_first(paths, source)) is not None:
                firsts.append(first)
        first = min(firsts, default=None)
        last = self._query_csn(paths, "max", column.name, "true" if first is None else f"_txloom_csn < {first}")
        return None if last is None else Lost(self._spell(column.name), last, first)

    def _spell(self, column: str) -> list[str]:
        """Return the names in the source of a settled column, spelled as they were declared."""
        settled = self.state.settled if self.state is not None else None
        content = settled.declaration if settled is not None else {}
        return [content["columns"][column][1], *content.get(ALIASES, {}).get(column, ())]

    def _find_first(self, paths: TablePaths, source: str) -> int | None:
        """Return the csn of the first event that had a column of the source; None if no such event is known.

        Of a column that was declared later than others, it may be that of the first value.
        """
        firsts = [] if self.state is None else [first_seen(paths, self.state.names, source)]
        if (name := self._names.get(source)) is not None and name in self.types:
            firsts.append(self._query_csn(paths, "min", name, "true"))
        return min((first for first in firsts if first is not None), default=None)

    def _find_lacking(self, paths: TablePaths, column: str, source: str) -> Lost | None:
        """Return the values of a column in inserts that lack another declared column; None if there are none."""
        if (name := self._names.get(source)) not in self.types:
            return None
        _, head = self._changes
        last = self._query_csn(paths, "max", column, f"list_contains({head}_txloom_absent, {text_literal(str(name))})")
        return None if last is None else Lost(self._spell(column), last, is_declared=True)

    def _query_csn(self, paths: TablePaths, which: str, column: str, where: str) -> int | None:
        """Return the lowest (min) or highest (max) csn of changes that have a column's value and meet a condition."""
        changes, head = self._changes
        sql = (
            f"select {which}(_txloom_csn) as csn from {changes} where {head}{sql_name(column)} is not null and {where}"
        )
        rows = small_tables.query(paths.table(self.history), sql)
        csn: int | None = rows[0]["csn"] if rows else None
        return csn

    @property
    def _changes(self) -> tuple[str, str]:
        """Return the SQL relation with the member's changes, and the prefix of its column names."""
        if self.field is None:
            return "t", ""
        return f"(select unnest({sql_name(self.field)}) as change, _txloom_csn from t) u", "change."

    @property
    def _names(self) -> dict[str, str]:
        """Return by name in the source, in lower case, the name under which the history has a column's values."""
        if self.state is None:
            return {}
        before = self.state.settled.declaration if self.state.settled is not None else None
        of_before = {} if before is None else {name: r.sources_of(before, name) for name in before["columns"]}
        held = {source: name for name, source in self.state.held.items()}
        return held | {source: name for name, sources in of_before.items() for source in sources}

    def _find_names(self, column: Column) -> list[str]:
        """Return the names under which the history has a column's values: the column's own name and an earlier name."""
        names = [self._names.get(source.casefold(), column.name) for source in column.sources]
        return [name for name in dict.fromkeys((column.name, *names)) if name in self.types]


def can_hold(column: Column, kind: pa.DataType) -> bool:
    """Return whether the declared type of a column holds every value of another type."""
    return schema_evolution.can_become(kind, arrow_type(column.type))


def find_members(
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
