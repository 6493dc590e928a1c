"""The tables that a declaration makes, and what the next cycle does to those that a warehouse has already."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from txloom.config import names
from txloom.config.models.durations import show_duration
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import counted
from txloom.errors import ConfigurationError
from txloom.steps.settling.forecast import Forecast, Made, count_rows, forecast
from txloom.storage.declarations.incomplete import (
    awaited,
    current_tables_of,
    describe_begin,
    feeding,
)
from txloom.storage.declarations.records import declared_pairs
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.delta.schema_evolution import describe_type, lagging
from txloom.storage.edits.refused_edits import messages_of
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.snapshots import kept_columns
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables
from txloom.storage.views.paging import open_tables

SYSTEM = "_txloom_"
AS_IT_IS, NEW = "as it is", "new"
NOT_DECLARED = "no longer declared"
LANDED = "messages as they were landed"
MESSAGE_ROWS_A_SECOND = 60_000
"""About how many rows a second are made again of messages, on a core (`make bench PARTS=edits`)."""
HISTORY_ROWS_A_SECOND = 300_000
"""About how many rows a second are copied out of a history, or folded into a current table, on a core."""


Retyped = tuple[str, pa.DataType, pa.DataType]
"""A column that gets another type: its name, its type and the new type."""


@dataclass(frozen=True)
class PlannedTable:
    """One table of the lake.

    Args:
        name: of its folder.
        what: in words.
        key: its columns.
        columns: how many are declared.
        state: NEW, AS_IT_IS, or what the next cycle does to it, in words.
        rows: how many rows the next cycle makes again, copies, rewrites, or computes the table from.
        seconds: about how long that takes on a core.
    """

    name: str
    what: str
    key: tuple[str, ...]
    columns: int
    state: str = NEW
    rows: int = 0
    seconds: int = 0


@open_tables
def planned_tables(pipeline: Pipeline, warehouse: str | None, name_or_file: str = "") -> list[PlannedTable]:
    """Return the tables that readers of a pipeline get, and those that it does not write any more; nothing is written.

    Args:
        pipeline: the declaration.
        warehouse: where tables may be already; None: none are.
        name_or_file: of the declaration, for messages.

    Raises:
        ConfigurationError: the next cycle refuses the declaration; a line for each edit, with its place in the file.
    """
    if warehouse is None:
        return [each.table for each in _targets(pipeline)]
    paths = TablePaths(warehouse, pipeline.name)
    expected = forecast(pipeline, paths)
    if expected.refused:
        raise ConfigurationError(messages_of(expected.refused, name_or_file or pipeline.name))
    plans = _Plans(pipeline, paths, expected)
    return [*map(plans.of, _targets(pipeline)), *plans.left_out(), *plans.decoded_again()]


@dataclass(frozen=True)
class _Target:
    """A table that a declaration makes; member: of a mirror, its source table."""

    table: PlannedTable
    schema: pa.Schema
    is_history: bool
    member: str = ""


def _targets(pipeline: Pipeline) -> Iterator[_Target]:
    for row_table in row_tables(pipeline):
        if row_table.mirror is not None:
            source, key = row_table.table.source, tuple(row_table.table.key)
            what = f"rows that were inserted into {source}" if not key else f"current rows of {source}"
            member = row_table.table.name
            yield _target(row_table.current, what, key, row_table.schema, is_history=False, member=member)
            history = schemas.changes_schema(row_table.table)
            name = row_table.mirror.history
            yield _target(name, f"every change of {source}", key, history, is_history=True, member=member)
    for aggregate in pipeline.targets.aggregates:
        key = tuple(pipeline.table(aggregate.root).key)
        inside = ", ".join([aggregate.root, *(child.table for child in aggregate.children)])
        schema = schemas.document_schema(pipeline, aggregate)
        yield _target(aggregate.current, f"documents of {inside}", key, schema, is_history=False)
        history = schemas.stream_schema(pipeline, aggregate)
        yield _target(aggregate.history, f"every transaction of {inside}", key, history, is_history=True)


def _target(
    name: str, what: str, key: tuple[str, ...], schema: pa.Schema, *, is_history: bool, member: str = ""
) -> _Target:
    columns = [field for field in schema if not field.name.startswith(SYSTEM)]
    return _Target(PlannedTable(name, what, key, len(columns)), schema, is_history, member)


@dataclass(frozen=True)
class _Plans:
    """What the next cycle does to tables.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        expected: what the next cycle does because the declaration changed.
    """

    pipeline: Pipeline
    paths: TablePaths
    expected: Forecast

    def of(self, target: _Target) -> PlannedTable:
        """Return a target's table with what the next cycle does to it."""
        return self._history(target) if target.is_history else self._current(target)

    def _history(self, target: _Target) -> PlannedTable:
        name = target.table.name
        of_members = {member: each for (history, member), each in sorted(self.expected.made.items()) if history == name}
        made = [*of_members.values()]
        is_there = exists(self.paths.table(name))
        removed = self.expected.removed.get(name, ())
        # What its members rename is described with the rows that are made.
        parts = [*_columns(self.paths, target, _merge_renamed(made), removed)] if is_there else [NEW]
        parts += dict.fromkeys(part for member, each in of_members.items() for part in self._made(name, member, each))
        rows = max((each.rows for each in made), default=0)
        copied = all(each.copied_from for each in made)
        rewritten = self._count_rewritten(name, target.schema)
        rewritten += count_rows(self.paths, name) if any(each.renamed or each.fields for each in made) else 0
        seconds = -(-rows // (HISTORY_ROWS_A_SECOND if copied else MESSAGE_ROWS_A_SECOND))
        seconds += -(-rewritten // HISTORY_ROWS_A_SECOND)
        return replace(target.table, state="; ".join(parts) or AS_IT_IS, rows=rows + rewritten, seconds=seconds)

    def _current(self, target: _Target) -> PlannedTable:
        name, path = target.table.name, self.paths.table(target.table.name)
        is_there, is_anew = exists(path), (target.member or name) in self.expected.anew
        renamed = self._renamed(target) if is_anew else {}
        parts = [*_columns(self.paths, target, renamed, None if is_anew else ())] if is_there else [NEW]
        parts = [_describe_renamed(renamed)] * bool(renamed and is_there) + parts
        rows = self._feeding(target) if is_anew or not is_there else 0
        rewritten = self._count_rewritten(name, target.schema)
        if is_anew and is_there:
            parts.insert(0, f"is computed anew from {counted(rows, 'row')}")
        if name in current_tables_of(self.pipeline, self.expected.incomplete):
            held = self.pipeline.targets.incomplete == "hold"
            parts.append("no cut is published" if held else "left out of cuts")
            lacking = [each for each in self.expected.incomplete if name in current_tables_of(self.pipeline, [each])]
            parts[-1] += f" until {self._describe_completion(lacking)}"
        rows += rewritten
        return replace(
            target.table, state="; ".join(parts) or AS_IT_IS, rows=rows, seconds=-(-rows // HISTORY_ROWS_A_SECOND)
        )

    def _count_rewritten(self, name: str, schema: pa.Schema) -> int:
        """Return how many rows of a table are rewritten because a column gets a wider type."""
        path = self.paths.table(name)
        return count_rows(self.paths, name) if lagging(path, arrow_tables.plain_schema(schema)) else 0

    def _renamed(self, target: _Target) -> dict[str, str]:
        """Return the earlier names of renamed columns by their new names; a child's follow its field and a dot."""
        if target.member:
            return dict(self._made_of(target.member).renamed)
        aggregate = next(each for each in self.pipeline.targets.aggregates if each.current == target.table.name)
        renamed = dict(self._made_of(aggregate.root).renamed)
        for child in aggregate.children:
            renamed |= self.expected.made.get((aggregate.history, child.table), Made()).fields
            of_child = self._made_of(child.table).renamed
            renamed |= {f"{child.as_}.{now}": f"{child.as_}.{before}" for now, before in of_child.items()}
        return renamed

    def _made_of(self, table: str) -> Made:
        """Return what is made of the history that the rows of a source table are computed from."""
        return self.expected.made.get(feeding(self.pipeline)[table], Made())

    def _describe_completion(self, lacking: Collection[str]) -> str:
        """Describe what completes the tables: messages that may arrive, a redrive, the stream, a date or a snapshot."""
        completing = self.expected.completing
        if lacking and {*lacking} <= {*completing}:
            return awaited(max(completing[each] for each in lacking))
        if lacking and {*lacking} <= {*self.expected.waiting}:
            patience = show_duration(self.pipeline.completeness.patience)
            return f"the missing messages arrive or, if they do not arrive within {patience}, a snapshot is loaded"
        if lacking and all(self._made_of(each).missing.are_rejected for each in lacking):
            return "their dead letters are redriven, or a snapshot is loaded"
        return "the next date is landed" if kept_columns.is_full(self.pipeline) else "a snapshot is loaded"

    def _feeding(self, target: _Target) -> int:
        """Return how many rows a current table is computed from."""
        for row_table in row_tables(self.pipeline):
            if row_table.current == target.table.name:
                return self._count_changes(row_table)
        aggregate = next(each for each in self.pipeline.targets.aggregates if each.current == target.table.name)
        members = {name for name, _ in schemas.members_of(aggregate)}
        return sum(self._count_member(each) for each in row_tables(self.pipeline) if each.table.name in members)

    def _count_member(self, row_table: RowTable) -> int:
        """Return how many rows of a member documents are computed from; of rows that no mirror shows: of changes.

        The changes are read if the rows are computed anew.
        """
        is_anew = row_table.mirror is None and row_table.table.name in self.expected.anew
        is_kept = exists(self.paths.table(row_table.current)) and not is_anew
        return count_rows(self.paths, row_table.current) if is_kept else self._count_changes(row_table)

    def _count_changes(self, row_table: RowTable) -> int:
        """Return how many rows a history has after it is settled."""
        made = self.expected.made.get((row_table.history, row_table.table.name))
        return count_rows(self.paths, row_table.history) if made is None else made.rows + made.staying

    def _made(self, history: str, member: str, made: Made) -> Iterator[str]:
        """Yield in words what is made of a history's member."""
        if renamed := made.renamed | made.fields:
            yield _describe_renamed(renamed)
        if made.replaced and not made.missing.may_come:
            yield f"replaces its {counted(made.replaced, 'row')}"
        if made.copied_from is not None:
            yield f"gets {counted(made.rows, 'row')} out of {made.copied_from}"
        elif made.rows:
            yield f"gets {counted(made.rows, 'row')} from messages"
        if not made.missing.transactions:
            return
        source = feeding(self.pipeline)[member][0]
        if made.missing.may_come or made.missing.are_rejected:
            yield f"waits: {made.missing}"
        elif source == history or member in self.expected.incomplete:
            needed = "the next full extract" if kept_columns.is_full(self.pipeline) else "a snapshot"
            yield f"needs {needed}: {made.missing}; after that, read.as_of refuses every csn below it"
        else:
            yield describe_begin(history, member, made.missing.last_csn + 1, source)

    def left_out(self) -> Iterator[PlannedTable]:
        """Yield the current tables that leave the cuts, and the histories that are not written any more."""
        shown = newest_cut(self.paths, "versions")
        for name in sorted(dict(shown["versions"])) if shown is not None else ():
            if name not in self.pipeline.current_tables and exists(self.paths.table(name)):
                state = "leaves the cuts; its folder stays as it is, and gets nothing more"
                yield PlannedTable(name, NOT_DECLARED, (), self._count_columns(name), state)
        declared = {history for history, _ in declared_pairs(self.pipeline)}
        for name in dict.fromkeys(history for history, _ in self.expected.left_out):
            if name not in declared and exists(self.paths.table(name)):
                state = "stays, and gets nothing more"
                yield PlannedTable(name, NOT_DECLARED, (), self._count_columns(name), state)

    def decoded_again(self) -> Iterator[PlannedTable]:
        """Yield the table of landed messages, if the next cycle decodes some of these again."""
        if self.expected.decoded_again:
            undecided = counted(self.expected.decoded_again, "transaction")
            state = f"messages of {undecided} that may still wait are decoded again"
            name = names.CHANGE_EVENTS
            yield PlannedTable(name, LANDED, (), self._count_columns(name), state)

    def _count_columns(self, name: str) -> int:
        columns = small_tables.schema_of(self.paths.table(name)).names
        return sum(not column.startswith(SYSTEM) for column in columns)


def _merge_renamed(made: Sequence[Made]) -> dict[str, str]:
    """Return what the members of a history rename: by a column's new name, its name before."""
    return {now: before for each in made for now, before in (each.renamed | each.fields).items()}


def _describe_renamed(renamed: Mapping[str, str]) -> str:
    return "renames " + ", ".join(f"{before} to {now}" for now, before in sorted(renamed.items()))


def _columns(
    paths: TablePaths, target: _Target, renamed: Mapping[str, str], removed: Collection[str] | None
) -> Iterator[str]:
    """Describe what the next cycle does to the columns of an existing table.

    Args:
        paths: the tables of the pipeline.
        target: the table.
        renamed: by new name, the columns that get another one.
        removed: the columns that the edit removes, and that the table keeps; None: the table is computed again, and
            keeps no column that is not declared.
    """
    has, declared = arrow_tables.plain_schema(small_tables.schema_of(paths.table(target.table.name))), target.schema
    nested = {*has.names} & {*declared.names} if not target.is_history else set[str]()
    names_there, names_declared = (_names(schema, nested) for schema in (has, declared))
    added = [name for name in names_declared if name not in names_there and name not in renamed]
    if added:
        yield f"gets {', '.join(added)}"
    retyped = [*_retyped(has, arrow_tables.plain_schema(declared))]
    if retyped:
        described = [f"{name} from {describe_type(kind)} to {describe_type(new)}" for name, kind, new in retyped]
        yield f"is written anew: {', '.join(described)}"
    known = {*names_declared, *renamed.values()}
    left = [name for name in names_there if name not in known and not name.startswith(SYSTEM)]
    if left and removed is None:
        yield f"loses {', '.join(left)}"
    elif kept := [name for name in left if name in (removed or ())]:
        yield f"keeps {', '.join(kept)} with the earlier values"


def _names(schema: pa.Schema, nested: Collection[str]) -> list[str]:
    """Return the names of columns; nested: the fields whose rows' columns are named too, behind the field's name."""
    listed = list[str]()
    for field in schema:
        listed.append(field.name)
        rows = field.type.value_type if pa.types.is_list(field.type) else field.type
        if field.name in nested and pa.types.is_struct(rows):
            listed += [f"{field.name}.{each.name}" for each in rows]
    return listed


def _retyped(has: pa.Schema | pa.StructType, declared: pa.Schema | pa.StructType) -> Iterator[Retyped]:
    """Yield each column with another type than declared, also inside structs and lists of these."""
    known = {field.name: field.type for field in has}
    for field in (each for each in declared if not each.name.startswith(SYSTEM)):
        kind = known.get(field.name, field.type)
        old, new = (each.value_type if pa.types.is_list(each) else each for each in (kind, field.type))
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            yield from ((f"{field.name}.{name}", before, now) for name, before, now in _retyped(old, new))
        elif kind != field.type and not pa.types.is_map(kind):
            yield field.name, kind, field.type
