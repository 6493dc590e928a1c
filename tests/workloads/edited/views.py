"""Views: what a declaration watches and makes of a source, its YAML, and the truth by it.

The oracle is a fresh pipeline of the view over the whole source: the source's state as of a csn, with the keys, names
and columns of the view.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oracle.capture import Image, Key
from oracle.declarations import Aggregate, Child, Table
from workloads.edited.retention import is_lost
from workloads.sources.database import Sent, State, name_after
from workloads.sources.kinds import printed
from workloads.sources.shapes import Shape, SourceText
from workloads.sources.truth import held, keyed

Rows = dict[str, Any]
WIDER = {"int": "long", "float": "double"}
"""The types whose columns may be declared wider later."""


@dataclass(frozen=True)
class Watched:
    """A watched table: its source, under a name, with some of its columns under names of their own.

    key: the key by the source's names of columns. mirror: the names of its current table and its history; None: no
    mirror. columns: by name in the lake, the source's. widened: the source's columns of int and float that are declared
    as long and double. texts: the source's columns of uuid and time that are declared as string. spells: whether the
    source prints these otherwise than they are read (`sources.kinds.printed`).
    takes_up: whether the lake takes up columns that are not declared. taken_up: the undeclared columns that the
    lake took up, each with its name in the source; the lake stores the values of these columns as text. followed: how
    many of the new names that the source gave a column the declaration has, by the column's first name. partition: the
    source's column by which its current table has partitions.
    """

    source: Table
    name: str
    key: tuple[str, ...]
    columns: Mapping[str, str]
    mirror: tuple[str, str] | None
    widened: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    spells: bool = False
    takes_up: bool = False
    taken_up: Mapping[str, str] = field(default_factory=dict)
    followed: Mapping[str, int] = field(default_factory=dict)
    partition: str | None = None

    @property
    def table(self) -> Table:
        """Return the table as the view declares it, plus the columns that the lake took up."""
        kinds = {name: self._kind(source) for name, source in self.columns.items()}
        kinds |= dict.fromkeys(self.taken_up, "string")
        return Table(self.name, self.source.source, tuple(map(self.in_lake, self.key)), kinds)

    def _kind(self, column: str) -> str:
        kind = self.source.columns[column]
        return WIDER[kind] if column in self.widened else "string" if column in self.texts else kind

    def in_lake(self, column: str) -> str:
        """Return the name in the lake of a column of the source."""
        return next(name for name, source in self.columns.items() if source == column)

    def row(self, row: Mapping[str, Any], renamed: Mapping[str, int]) -> dict[str, Any]:
        """Return a row of the source as the view has it.

        renamed: how often each column was renamed by then. One that has a name that the declaration lacks is null.
        """
        declared = {
            name: self._value(source, row[source]) if renamed.get(source, 0) <= self.followed.get(source, 0) else None
            for name, source in self.columns.items()
        }
        taken_up = {
            name: None if source in renamed else self._comparable(name, row[source])
            for name, source in self.taken_up.items()
        }
        return declared | taken_up

    def _value(self, column: str, value: str | None) -> str | None:
        is_printed = self.spells and column in self.texts and value is not None
        return printed(self.source.columns[column], str(value)) if is_printed else value

    def exported(self, column: str, value: str | None) -> str | None:
        """Return a value as an export of the source has it."""
        return printed(self.source.columns[column], value) if self.spells and value is not None else value

    def describe(self, column: str) -> str:
        """Return what a declaration says of a column in the lake."""
        source = self.columns[column]
        now, *former = [name_after(source, times) for times in range(self.followed.get(source, 0), -1, -1)]
        aliases = f", source_aliases: [{', '.join(former)}]" if former else ""
        return f'{{type: "{self.table.columns[column]}", source: {now}{aliases}}}'

    def _comparable(self, name: str, value: str | None) -> str | None:
        """Return the value of a taken-up column in a form that does not depend on the format of the source.

        All formats write whole numbers and text in the same way. Values of other types become a placeholder, so that
        the comparison sees only whether a value is null.
        """
        is_known = self.source.columns[self.taken_up[name]] in ("int", "long", "string")
        return value if is_known or value is None else "a value"

    def judged(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a lake's row that the view has: the declared columns and those in `taken_up`."""
        declared = {name: value for name, value in row.items() if name in self.columns}
        return declared | {name: self._comparable(name, row[name]) for name in self.taken_up if name in row}

    def with_taken_up(self, names: Iterable[str]) -> "Watched":
        """Return the table with `taken_up` set to the undeclared columns of the source among `names`.

        names: columns of the table in the lake.
        """
        undeclared = self.source.columns.keys() - self.columns.values()
        known = {name.casefold(): name for name in undeclared if name.casefold() not in self.columns}
        return replace(self, taken_up={name: known[name] for name in names if name in known})

    def rows(self, rows: Mapping[Key, Image], renamed: Mapping[str, int]) -> dict[Key, Image]:
        """Return rows of the source as the view has them, under the key that it declares."""
        if not self.key:
            return {key: self.row(row, renamed) for key, row in rows.items()}
        return {
            tuple(str(self._value(column, row[column])) for column in self.key): self.row(row, renamed)
            for row in rows.values()
        }


@dataclass(frozen=True)
class Documents:
    """An aggregate: its name, its root and its children, by the source's names of their tables.

    called: what the names of its current table and of its history have after its own name.
    """

    name: str
    root: str
    children: tuple[Child, ...]
    called: tuple[str, str] = ("current", "stream")

    @property
    def current(self) -> str:
        """Return the name of the current table."""
        return f"{self.name}_{self.called[0]}"

    @property
    def history(self) -> str:
        """Return the name of the history."""
        return f"{self.name}_{self.called[1]}"

    @property
    def members(self) -> set[str]:
        """Return the source's names of the tables that make up the documents."""
        return {self.root, *(child.table for child in self.children)}


@dataclass(frozen=True)
class View:
    """A declaration: the watched tables by the source's name, and the aggregates.

    incomplete: what becomes of cuts while a table is not complete.
    """

    watched: Mapping[str, Watched]
    aggregates: tuple[Documents, ...] = ()
    incomplete: str = "publish_without"

    def aggregate(self, each: Documents) -> Aggregate:
        """Return an aggregate under the view's names."""
        children, root = [], self.watched[each.root]
        for child in each.children:
            seen = self.watched[child.table]
            holder = dict(zip(root.source.key, child.parent_key, strict=True))
            parent = tuple(seen.in_lake(holder[column]) for column in root.key)
            children.append(Child(seen.name, child.field, child.relation, parent))
        return Aggregate(each.name, root.name, tuple(children))

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """Return the key of every current table."""
        of_mirrors = {seen.mirror[0]: seen.table.key for seen in self.mirrors if seen.mirror is not None}
        return of_mirrors | {each.current: self.watched[each.root].table.key for each in self.aggregates}

    @property
    def mirrors(self) -> list[Watched]:
        """Return the watched tables that have a mirror."""
        return [seen for seen in self.watched.values() if seen.mirror is not None]

    @property
    def written(self) -> set[str]:
        """Return the source's names of the tables that a target writes."""
        mirrored = {name for name, seen in self.watched.items() if seen.mirror is not None}
        return mirrored.union(*(each.members for each in self.aggregates))

    def members(self, history: str) -> set[str]:
        """Return the source's names of the tables whose changes a history has."""
        mirrored = {
            name for name, seen in self.watched.items() if seen.mirror is not None and seen.mirror[1] == history
        }
        of = [each for each in self.aggregates if each.history == history]
        return mirrored.union(*(each.members for each in of))

    def expected(self, made: Shape, sent: Sequence[Sent], csn: int) -> Rows:
        """Return what the source held as of a csn, by current table."""
        empty: State = {name: {} for name in made.tables}
        last = next((each for each in reversed(sent) if each.csn <= csn), Sent("", 0, [], None, empty))
        seen_state: State = {
            seen.name: seen.rows(last.state[name], last.renamed.get(name, {})) for name, seen in self.watched.items()
        }
        tables = {seen.name: seen.table for seen in self.watched.values()}
        rows = held(replace(made, tables=tables, aggregate=None), seen_state)
        result = {seen.mirror[0]: rows[seen.name] for seen in self.mirrors if seen.mirror is not None}
        for each in self.aggregates:
            of_documents = held(replace(made, tables=tables, aggregate=self.aggregate(each)), seen_state)
            result[each.current] = of_documents["doc_current"]
        return result

    def actual(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Rows:
        """Return the rows of current tables by key, with only the columns that the view has."""
        shown = {name: [*map(self._judged(name), rows[name])] for name in self.keys if name in rows}
        return {name: keyed(shown[name], key) for name, key in self.keys.items() if name in rows}

    def _judged(self, current: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Return a function that keeps only the columns of the view in a row and its nested rows."""
        for seen in self.mirrors:
            if seen.mirror is not None and seen.mirror[0] == current:
                return seen.judged
        each = next(each for each in self.aggregates if each.current == current)
        nested = {child.field: self.watched[child.table].judged for child in each.children}

        def judged(row: Mapping[str, Any]) -> dict[str, Any]:
            fields = {field: _within(row[field], of_child) for field, of_child in nested.items()}
            return self.watched[each.root].judged(row) | fields

        return judged

    def with_taken_up(self, rows: Mapping[str, Sequence[Mapping[str, Any]]], *, lost: Iterable[str]) -> "View":
        """Return the view with the columns that its lake took up, as the rows of its mirrors show them.

        rows: by current table. lost: source tables that have lost messages. The taken-up columns of these tables are
        not judged, because earlier values may be null.
        """
        watched = dict(self.watched)
        for name, seen in self.watched.items():
            of_mirror = rows.get(seen.mirror[0], ()) if seen.mirror is not None else ()
            if of_mirror and not is_lost(seen.source.source, lost):
                watched[name] = seen.with_taken_up(of_mirror[0])
        return replace(self, watched=watched)


def _within(value: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """Change each row of a field of documents, which has a list of them, or one at most."""
    if isinstance(value, list):
        return [*map(change, value)]
    return None if value is None else change(value)


def declaration(view: View, inbox: Path, source: SourceText) -> str:
    """Write a view as a pipeline's YAML."""
    lines = [
        "name: workload",
        f"source: {{{source.source}, files: {{path: {inbox}{source.layout}}}}}",
        f"completeness: {{rule: {source.completeness}}}",
        "tables:",
    ]
    for seen in view.watched.values():
        table = seen.table
        key = f"[{', '.join(table.key)}]" if table.key else "none"
        lines += [f"  - name: {table.name}", f"    source: {table.source}", f"    key: {key}"]
        lines += ["    undeclared_columns: evolve"] if seen.takes_up else []
        lines += ["    columns:"]
        lines += [f"      {name}: {seen.describe(name)}" for name in table.columns]
    lines += ["targets:", f"  incomplete: {view.incomplete}"]
    if view.mirrors:
        lines += ["  mirrors:"]
        for seen in view.mirrors:
            assert seen.mirror is not None
            partition = "" if seen.partition is None else f", partition_by: {seen.in_lake(seen.partition)}"
            names = f"table: {seen.name}, current: {seen.mirror[0]}, history: {seen.mirror[1]}"
            lines.append(f"    - {{{names}{partition}}}")
    if view.aggregates:
        lines += ["  aggregates:"]
        for documents, each in zip(view.aggregates, map(view.aggregate, view.aggregates), strict=True):
            lines += [f"    - name: {each.name}", f"      root: {each.root}"]
            lines += [f"      current: {documents.current}", f"      history: {documents.history}"]
            lines += ["      children:"] if each.children else []
            for child in each.children:
                parent = f"parent_key: [{', '.join(child.parent_key)}]"
                names = f"table: {child.table}, as: {child.field}, relation: {child.relation}"
                lines.append(f"        - {{{names}, {parent}}}")
    return "\n".join(lines) + "\n"


def content_of(view: View) -> View:
    """Return a view without what decides no content of tables."""
    watched = {name: replace(seen, takes_up=False) for name, seen in view.watched.items()}
    return replace(view, watched=watched, incomplete="")
