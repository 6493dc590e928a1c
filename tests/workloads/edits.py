"""Edits of a declaration: what of a source it watches and makes, changed at random; and the truth by each of them.

A view is one declaration of a source. The oracle is a fresh pipeline of the present view over the whole source: the
source's state as of a csn, with the names and columns of the view.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from oracle.declarations import Aggregate, Child, Table
from workloads.sources.database import Sent, State
from workloads.sources.shapes import Shape, SourceText
from workloads.sources.truth import held, keyed

Rows = dict[str, Any]


@dataclass(frozen=True)
class Watched:
    """A watched table: its source, under a name, with some of its columns under names of their own.

    mirror: the names of its current table and its history; None: no mirror. columns: by name in the lake, the source's.
    """

    source: Table
    name: str
    columns: Mapping[str, str]
    mirror: tuple[str, str] | None

    @property
    def table(self) -> Table:
        """Return the table as the view declares it."""
        to_lake = {source: name for name, source in self.columns.items()}
        kinds = {name: self.source.columns[source] for name, source in self.columns.items()}
        return Table(self.name, self.source.source, tuple(to_lake[name] for name in self.source.key), kinds)

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of the source as the view has it."""
        return {name: row[source] for name, source in self.columns.items()}


@dataclass(frozen=True)
class Documents:
    """An aggregate: its name, its root and its children, by the source's names of their tables."""

    name: str
    root: str
    children: tuple[Child, ...]


@dataclass(frozen=True)
class View:
    """A declaration: the watched tables by the source's name, and the aggregates."""

    watched: Mapping[str, Watched]
    aggregates: tuple[Documents, ...] = ()

    def aggregate(self, each: Documents) -> Aggregate:
        """Return an aggregate under the view's names."""
        children = []
        for child in each.children:
            seen = self.watched[child.table]
            to_lake = {source: name for name, source in seen.columns.items()}
            parent = tuple(to_lake[name] for name in child.parent_key)
            children.append(Child(seen.name, child.field, child.relation, parent))
        return Aggregate(each.name, self.watched[each.root].name, tuple(children))

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """Return the key of every current table."""
        of_mirrors = {seen.mirror[0]: seen.table.key for seen in self.watched.values() if seen.mirror is not None}
        return of_mirrors | {f"{each.name}_current": self.watched[each.root].table.key for each in self.aggregates}

    def members(self, current: str) -> set[str]:
        """Return the names of the watched tables whose rows a current table shows."""
        for seen in self.watched.values():
            if seen.mirror is not None and seen.mirror[0] == current:
                return {seen.name}
        each = next(each for each in self.aggregates if f"{each.name}_current" == current)
        return {self.watched[name].name for name in (each.root, *(child.table for child in each.children))}

    def expected(self, made: Shape, sent: Sequence[Sent], csn: int) -> Rows:
        """Return what the source held as of a csn, by current table."""
        empty: State = {name: {} for name in made.tables}
        state = next((each.state for each in reversed(sent) if each.csn <= csn), empty)
        seen_state: State = {
            seen.name: {key: seen.row(row) for key, row in state[name].items()} for name, seen in self.watched.items()
        }
        tables = {seen.name: seen.table for seen in self.watched.values()}
        rows = held(replace(made, tables=tables, aggregate=None), seen_state)
        result = {seen.mirror[0]: rows[seen.name] for seen in self.watched.values() if seen.mirror is not None}
        for each in self.aggregates:
            of_documents = held(replace(made, tables=tables, aggregate=self.aggregate(each)), seen_state)
            result[f"{each.name}_current"] = of_documents["doc_current"]
        return result

    def actual(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Rows:
        """Return rows of current tables under their keys."""
        return {name: keyed(rows[name], key) for name, key in self.keys.items() if name in rows}


def first_view(made: Shape, chance: Random) -> View:
    """Return a first declaration of a source: all of it, or some."""
    watched = {name: _whole(table) for name, table in made.tables.items()}
    view = View(watched, tuple(_aggregates(made)))
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        view = edited(view, made, chance)
    return view


def _whole(table: Table) -> Watched:
    columns = {name: name for name in table.columns}
    return Watched(table, table.name, columns, (table.name, f"{table.name}_changes"))


def _aggregates(made: Shape) -> Iterator[Documents]:
    if made.aggregate is not None:
        yield Documents("doc", made.aggregate.root, made.aggregate.children)


def edited(view: View, made: Shape, chance: Random) -> View:
    """Return a declaration with one edit that the models allow; the same where the drawn edit is not possible."""
    change = chance.choice(EDITS)(view, made, chance)
    is_possible = change is not None and change.watched and (change.aggregates or _mirrors(change))
    return change if is_possible and change is not None else view


def _mirrors(view: View) -> list[Watched]:
    return [seen for seen in view.watched.values() if seen.mirror is not None]


def _with(view: View, name: str, seen: Watched) -> View:
    return replace(view, watched={**view.watched, name: seen})


def _leave_table_out(view: View, made: Shape, chance: Random) -> View | None:
    """Remove a table, its mirror and the documents of it."""
    name = chance.choice(sorted(view.watched))
    if made.dimensions.twins and name in ("t0", "t8"):
        # Their sources differ in case alone: the other one's rows would be taken for those of the one that is left.
        return None
    watched = {each: seen for each, seen in view.watched.items() if each != name}
    others = [each for each in view.aggregates if each.root != name]
    return View(watched, tuple(replace(e, children=tuple(c for c in e.children if c.table != name)) for e in others))


def _add_table(view: View, made: Shape, chance: Random) -> View | None:
    """Declare a table that is not watched, as it was before or whole."""
    left = sorted(made.tables.keys() - view.watched.keys())
    return _with(view, name := chance.choice(left), _whole(made.tables[name])) if left else None


def _toggle_mirror(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    mirror = (seen.name, f"{seen.name}_changes") if seen.mirror is None else None
    return _with(view, name, replace(seen, mirror=mirror))


def _rename_history(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    if seen.mirror is None:
        return None
    names = (seen.mirror[0], f"{seen.name}_{chance.choice(('changes', 'log', 'all'))}")
    return _with(view, name, replace(seen, mirror=names))


def _rename_current(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    if seen.mirror is None:
        return None
    return _with(view, name, replace(seen, mirror=(f"{seen.name}{chance.choice(('', '_now'))}", seen.mirror[1])))


def _rename_table(view: View, made: Shape, chance: Random) -> View | None:
    """Give a table another name in the lake; its mirror's tables are called after it, or keep their names."""
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    called = f"{name}{chance.choice(('', 'b', 'c'))}"
    if called == seen.name:
        return None
    mirror = None if seen.mirror is None else (called, f"{called}_changes")
    if chance.random() < 0.3:
        mirror = seen.mirror
    return _with(view, name, replace(seen, name=called, mirror=mirror))


def _free_columns(view: View, made: Shape, name: str) -> list[str]:
    """Return the source's columns that are no key of the table, and hold no key of a root."""
    child = made.children.get(name)
    kept = {*made.tables[name].key, *(child.parent_key if child is not None else ())}
    return [column for column in made.tables[name].columns if column not in kept]


def _toggle_column(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen, free = view.watched[name], _free_columns(view, made, name)
    if not free:
        return None
    column = chance.choice(free)
    columns = {lake: source for lake, source in seen.columns.items() if source != column}
    if len(columns) == len(seen.columns):
        columns = {**columns, column: column}
    return _with(view, name, replace(seen, columns=columns)) if columns else None


def _rename_column(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    there = [lake for lake, source in seen.columns.items() if source in _free_columns(view, made, name)]
    if not there:
        return None
    old = chance.choice(there)
    new = f"{seen.columns[old]}{chance.choice(('', '_x', '_y'))}"
    if new in seen.columns:
        return None
    columns = {new if lake == old else lake: source for lake, source in seen.columns.items()}
    return _with(view, name, replace(seen, columns=columns))


def _toggle_aggregate(view: View, made: Shape, chance: Random) -> View | None:
    """Add or remove one of several aggregates, some of which have no children."""
    if made.aggregate is None:
        root = chance.choice(sorted(name for name, table in made.tables.items() if table.key) or [""])
        children: tuple[Child, ...] = ()
    else:
        root, children = made.aggregate.root, made.aggregate.children
    if root not in view.watched:
        return None
    name = chance.choice(("doc", "twin", "bare"))
    others = tuple(each for each in view.aggregates if each.name != name)
    if len(others) < len(view.aggregates):
        return replace(view, aggregates=others)
    chosen = () if name == "bare" else tuple(c for c in children if c.table in view.watched)
    return replace(view, aggregates=(*others, Documents(name, root, chosen)))


def _toggle_child(view: View, made: Shape, chance: Random) -> View | None:
    if not view.aggregates or not made.children:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    child = made.children[chance.choice(sorted(made.children))]
    if child.table not in view.watched or made.aggregate is None or each.root != made.aggregate.root:
        return None
    children = tuple(c for c in each.children if c.table != child.table)
    if len(children) == len(each.children):
        children = (*children, child)
    return _with_aggregate(view, number, replace(each, children=children))


def _rename_field(view: View, made: Shape, chance: Random) -> View | None:
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    if not each.children:
        return None
    place = chance.randrange(len(each.children))
    child = each.children[place]
    renamed = replace(child, field=f"{made.children[child.table].field}{chance.choice(('', 'q', 'r'))}")
    children = (*each.children[:place], renamed, *each.children[place + 1 :])
    return _with_aggregate(view, number, replace(each, children=children))


def _change_relation(view: View, made: Shape, chance: Random) -> View | None:
    """Let documents have a list of what is one row at most, and back."""
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    ones = [place for place, c in enumerate(each.children) if made.children[c.table].relation == "one"]
    if not ones:
        return None
    place = chance.choice(ones)
    child = each.children[place]
    other = replace(child, relation="one" if child.relation == "many" else "many")
    return _with_aggregate(
        view, number, replace(each, children=(*each.children[:place], other, *each.children[place + 1 :]))
    )


def _with_aggregate(view: View, number: int, each: Documents) -> View:
    return replace(view, aggregates=(*view.aggregates[:number], each, *view.aggregates[number + 1 :]))


EDITS = (
    _leave_table_out,
    _leave_table_out,
    _add_table,
    _add_table,
    _add_table,
    _toggle_mirror,
    _toggle_mirror,
    _rename_history,
    _rename_current,
    _rename_table,
    _toggle_column,
    _toggle_column,
    _rename_column,
    _toggle_aggregate,
    _toggle_aggregate,
    _toggle_child,
    _toggle_child,
    _rename_field,
    _change_relation,
)
"""Each edit once, and more often what is edited more often."""


@dataclass
class Editor:
    """Edits a declaration between runs: one edit or several, or back to an earlier declaration."""

    made: Shape
    chance: Random
    inbox: Path
    file: Path
    source: SourceText
    view: View = field(init=False)
    earlier: list[View] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.view = first_view(self.made, self.chance)

    def edit(self) -> None:
        """Edit the declaration, or take an earlier one."""
        self.earlier.append(self.view)
        if self.chance.random() < 0.2:
            self.view = self.chance.choice(self.earlier)
            return
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            self.view = edited(self.view, self.made, self.chance)

    def write(self) -> Path:
        """Write the declaration's file."""
        self.file.write_text(declaration(self.view, self.inbox, self.source))
        return self.file


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
        lines += [f"  - name: {table.name}", f"    source: {table.source}", f"    key: {key}", "    columns:"]
        for name, kind in table.columns.items():
            lines.append(f'      {name}: {{type: "{kind}", source: {seen.columns[name]}}}')
    lines += ["targets:"]
    if mirrors := _mirrors(view):
        lines += ["  mirrors:"]
        for seen in mirrors:
            assert seen.mirror is not None
            lines.append(f"    - {{table: {seen.name}, current: {seen.mirror[0]}, history: {seen.mirror[1]}}}")
    if view.aggregates:
        lines += ["  aggregates:"]
        for each in map(view.aggregate, view.aggregates):
            lines += [f"    - name: {each.name}", f"      root: {each.root}"]
            lines += ["      children:"] if each.children else []
            for child in each.children:
                parent = f"parent_key: [{', '.join(child.parent_key)}]"
                names = f"table: {child.table}, as: {child.field}, relation: {child.relation}"
                lines.append(f"        - {{{names}, {parent}}}")
    return "\n".join(lines) + "\n"
