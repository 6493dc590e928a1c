"""Edits of a declaration: what of a source it watches and makes, changed at random."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from pathlib import Path
from random import Random

from oracle.declarations import Child
from workloads.dimensions import ALONE, CHANGE_SETS, DEBEZIUM, EXTRACTS, GOLDENGATE
from workloads.edited.views import WIDER, Documents, View, Watched, declaration
from workloads.sources.shapes import SERIAL, Shape, SourceText

SPELLING = (GOLDENGATE, *ALONE, EXTRACTS)
"""The sources that print uuids and times otherwise than their types are read."""

PARTED = ("int", "long", "string", "date")
"""The types of columns that a table may have partitions by."""


def first_view(made: Shape, chance: Random) -> View:
    """Return a first declaration of a source: all of it, or some."""
    watched = {name: _whole(made, name) for name in made.tables}
    view = View(watched, tuple(_aggregates(made)))
    for _ in range(chance.choice((0, 0, 1, 2, 4))):
        view = edited(view, made, chance)
    return view


def _whole(made: Shape, name: str) -> Watched:
    """Return a table as it is in the source, with all names that its key columns will get.

    A message without the declared key is a dead letter. A source whose names are foretold has all new names here.
    """
    table, renamed = made.tables[name], made.renamed.get(name, {})
    columns = {column: column for column in table.columns}
    followed = {column: times for column, times in renamed.items() if made.foretold or column in table.key}
    spells = made.dimensions.source in SPELLING
    watched = Watched(table, name, table.key, columns, (name, f"{name}_changes"), spells=spells, followed=followed)
    parts = [each for each in table.key if made.dimensions.partitioned and table.columns[each] in PARTED]
    return replace(watched, partition=parts[0] if parts else None)


def _aggregates(made: Shape) -> Iterator[Documents]:
    if made.aggregate is not None:
        yield Documents("doc", made.aggregate.root, made.aggregate.children)
    if made.below is not None:
        yield Documents("sub", made.below.root, made.below.children)


def edited(view: View, made: Shape, chance: Random) -> View:
    """Return a declaration with one edit that the models allow; the same where the drawn edit is not possible."""
    return _edited(view, made, chance)[0]


def _edited(view: View, made: Shape, chance: Random) -> tuple[View, str]:
    """Return a declaration with one edit, and the name of the edit; "" where the drawn one is not possible."""
    edit = chance.choice(EDITS)
    change = edit(view, made, chance)
    if change is None or change == view or not _is_possible(change, made):
        return view, ""
    return change, edit.__name__.strip("_").replace("_", " ")


def _is_possible(view: View, made: Shape) -> bool:
    """Return whether the models accept a declaration; a table of extracts needs a target that writes its rows."""
    if made.dimensions.source == EXTRACTS and view.watched.keys() - view.written:
        return False
    return bool(view.watched and (view.aggregates or view.mirrors))


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
    others = [replace(each, children=tuple(c for c in each.children if c.table != name)) for each in others]
    return replace(view, watched=watched, aggregates=tuple(others))


def _add_table(view: View, made: Shape, chance: Random) -> View | None:
    """Declare a table that is not watched, as it was before or whole."""
    left = sorted(made.tables.keys() - view.watched.keys())
    return _with(view, name := chance.choice(left), _whole(made, name)) if left else None


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


def _free_columns(made: Shape, name: str) -> list[str]:
    """Return the source's columns that are no key of the table, and hold no key of a root."""
    kept = {*made.tables[name].key, *(made.hanging[name][1].parent_key if name in made.hanging else ())}
    return [column for column in made.tables[name].columns if column not in kept]


def _toggle_column(view: View, made: Shape, chance: Random) -> View | None:
    """Leave a column out, or declare it again; mostly one that the source drops, if there is one."""
    altered_tables = sorted(name for name in view.watched if made.altered.get(name))
    name = chance.choice(altered_tables if altered_tables and chance.random() < 0.6 else sorted(view.watched))
    seen, free = view.watched[name], _free_columns(made, name)
    if not free:
        return None
    altered = [each for each in free if each in made.altered.get(name, ())]
    column = chance.choice(altered if altered and chance.random() < 0.6 else free)
    columns = {lake: source for lake, source in seen.columns.items() if source != column}
    if len(columns) == len(seen.columns):
        if column in columns:
            # Another column has its name.
            return None
        columns = {**columns, column: column}
    return _with(view, name, replace(seen, columns=columns)) if columns else None


def _rename_column(view: View, made: Shape, chance: Random) -> View | None:
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    old = chance.choice([*seen.columns])
    source = seen.columns[old]
    if source == seen.partition:
        # Delta cannot change the partitions of a table: the edit is refused.
        return None
    # The name may be that of a column that is not declared (any more); its values in the lake have its type.
    kinds = made.tables[name].columns
    free = [other for other in kinds if other not in seen.columns and kinds[other] == kinds[source]]
    new = chance.choice((source, f"{source}_x", f"{source}_y", *free))
    if new in seen.columns:
        return None
    columns = {new if lake == old else lake: source for lake, source in seen.columns.items()}
    return _with(view, name, replace(seen, columns=columns))


def _exchange_columns(view: View, made: Shape, chance: Random) -> View | None:
    """Give each of two columns of one type the other's name."""
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    kinds = made.tables[name].columns
    kind_of = {lake: (kinds[source], seen.table.columns[lake]) for lake, source in seen.columns.items()}
    moved = [lake for lake, source in seen.columns.items() if source != seen.partition]
    pairs = [pair for pair in combinations(moved, 2) if kind_of[pair[0]] == kind_of[pair[1]]]
    if not pairs:
        return None
    one, other = chance.choice(pairs)
    names = {one: other, other: one}
    return _with(view, name, replace(seen, columns={names.get(n, n): source for n, source in seen.columns.items()}))


def _follow_rename(view: View, made: Shape, chance: Random) -> View | None:
    """Declare the next name that the source has given a column, or will give it."""
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    later = [column for column in made.tables[name].columns if column not in made.tables[name].key]
    times = {column: seen.followed.get(column, 0) + 1 for column in later}
    times = {column: time for column, time in times.items() if time <= made.renamed.get(name, {}).get(column, 0)}
    if not times:
        return None
    column = chance.choice(sorted(times))
    return _with(view, name, replace(seen, followed={**seen.followed, column: times[column]}))


def _toggle_aggregate(view: View, made: Shape, chance: Random) -> View | None:
    """Add or remove one of several aggregates, which share members; some have no children."""
    name = chance.choice(("doc", "twin", "bare", "sub"))
    others = tuple(each for each in view.aggregates if each.name.partition("_")[0] != name)
    if len(others) < len(view.aggregates):
        return replace(view, aggregates=others)
    declared = made.below if name == "sub" else made.aggregate
    if declared is None or name == "bare":
        root = chance.choice(sorted(name for name, table in made.tables.items() if table.key) or [""])
        children: tuple[Child, ...] = ()
        # A history keeps its root: another one is refused.
        name = f"{name}_{root}"
    else:
        root, children = declared.root, declared.children
    if root not in view.watched:
        return None
    chosen = tuple(child for child in children if child.table in view.watched)
    return replace(view, aggregates=(*others, Documents(name, root, chosen)))


def _toggle_child(view: View, made: Shape, chance: Random) -> View | None:
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    possible = [c for root, c in made.hanging.values() if root == each.root and c.table in view.watched]
    if not possible:
        return None
    child = chance.choice(possible)
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
    renamed = replace(child, field=f"{made.hanging[child.table][1].field}{chance.choice(('', 'q', 'r'))}")
    children = (*each.children[:place], renamed, *each.children[place + 1 :])
    return _with_aggregate(view, number, replace(each, children=children))


def _rename_documents(view: View, made: Shape, chance: Random) -> View | None:
    """Give the current table of an aggregate, or its history, another name."""
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    current, history = each.called
    called = (chance.choice(("current", "now")), history)
    if chance.random() < 0.6:
        called = (current, chance.choice(("stream", "log", "all")))
    return _with_aggregate(view, number, replace(each, called=called))


def _change_relation(view: View, made: Shape, chance: Random) -> View | None:
    """Let documents have a list of what is one row at most, and back."""
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    ones = [place for place, c in enumerate(each.children) if made.hanging[c.table][1].relation == "one"]
    if not ones:
        return None
    place = chance.choice(ones)
    child = each.children[place]
    other = replace(child, relation="one" if child.relation == "many" else "many")
    return _with_aggregate(
        view, number, replace(each, children=(*each.children[:place], other, *each.children[place + 1 :]))
    )


def _change_parent_key(view: View, made: Shape, chance: Random) -> View | None:
    """Let a child have the key of its root in another order of columns, where their types allow it."""
    if not view.aggregates:
        return None
    number = chance.randrange(len(view.aggregates))
    each = view.aggregates[number]
    if not each.children:
        return None
    place = chance.randrange(len(each.children))
    child = each.children[place]
    kinds, key = made.tables[child.table].columns, made.tables[each.root].key
    kind_of = {column: made.tables[each.root].columns[column] for column in key}
    orders = [
        order
        for order in permutations(made.hanging[child.table][1].parent_key)
        if all(kinds[column] == kind_of[name] for name, column in zip(key, order, strict=True))
    ]
    other = replace(child, parent_key=chance.choice(orders))
    children = (*each.children[:place], other, *each.children[place + 1 :])
    return _with_aggregate(view, number, replace(each, children=children))


def _change_key(view: View, made: Shape, chance: Random) -> View | None:
    """Declare another key: other columns that identify a row too, or the same ones in another order."""
    name = chance.choice(sorted(view.watched))
    seen, key = view.watched[name], made.tables[name].key
    keys = [*permutations(key)]
    has_ones = any(root == name and child.relation == "one" for root, child in made.hanging.values())
    if SERIAL in key and name not in made.hanging and not has_ones:
        keys += [(SERIAL,)] * len(keys)
    return _with(view, name, replace(seen, key=chance.choice(keys))) if len(key) > 1 else None


def _change_texts(view: View, made: Shape, chance: Random) -> View | None:
    """Declare a column of uuid or time as string, or back; a key column only if no other table refers to it."""
    spelled = {"uuid"} if made.dimensions.source in DEBEZIUM else {"uuid", "time"}
    columns = list[tuple[str, str]]()
    for name in sorted(view.watched):
        is_alone = name not in made.hanging and not any(root == name for root, _ in made.hanging.values())
        of_table = [*made.tables[name].columns] if is_alone else _free_columns(made, name)
        columns += [(name, each) for each in of_table if _is_declared_as(view, made, name, each, spelled)]
    if not columns:
        return None
    name, column = chance.choice(columns)
    return _with(view, name, replace(view.watched[name], texts=view.watched[name].texts ^ {column}))


def _widen_type(view: View, made: Shape, chance: Random) -> View | None:
    """Declare a column of int as long, or of float as double; there is no way back, because values cannot be narrowed.

    In Parquet a float is no nearest value of a number with fewer digits.
    """
    narrow = {"int"} if made.dimensions.source in (EXTRACTS, CHANGE_SETS) else {*WIDER}
    columns = [
        (name, each)
        for name in sorted(view.watched)
        for each in _free_columns(made, name)
        if _is_declared_as(view, made, name, each, narrow)
    ]
    if not columns:
        return None
    name, column = chance.choice(columns)
    return _with(view, name, replace(view.watched[name], widened=view.watched[name].widened | {column}))


def _is_declared_as(view: View, made: Shape, name: str, column: str, kinds: Collection[str]) -> bool:
    """Return whether a column that the source has in one of some types is declared."""
    return made.tables[name].columns[column] in kinds and column in view.watched[name].columns.values()


def _toggle_taking_up(view: View, made: Shape, chance: Random) -> View | None:
    """Let the lake take up columns that are not declared, or leave them out."""
    name = chance.choice(sorted(view.watched))
    seen = view.watched[name]
    return _with(view, name, replace(seen, takes_up=not seen.takes_up))


def _toggle_hold(view: View, made: Shape, chance: Random) -> View | None:
    return replace(view, incomplete="hold" if view.incomplete == "publish_without" else "publish_without")


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
    _exchange_columns,
    _follow_rename,
    _follow_rename,
    _follow_rename,
    _toggle_aggregate,
    _toggle_aggregate,
    _toggle_child,
    _toggle_child,
    _rename_field,
    _rename_documents,
    _change_relation,
    _change_parent_key,
    _change_key,
    _change_key,
    _widen_type,
    _widen_type,
    _change_texts,
    _change_texts,
    _change_texts,
    _toggle_taking_up,
    _toggle_taking_up,
    _toggle_taking_up,
    _toggle_hold,
)
"""Each edit once, and more often what is edited more often."""


@dataclass
class Editor:
    """Edits a declaration between steps: one edit or several, there and back, or back to an earlier declaration."""

    made: Shape
    chance: Random
    inbox: Path
    file: Path
    source: SourceText
    view: View = field(init=False)
    earlier: list[View] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.view = first_view(self.made, self.chance)

    def edit(self) -> None:
        """Edit the declaration, or take an earlier one."""
        self.earlier.append(self.view)
        how = self.chance.random()
        if how < 0.2:
            self.view = self._kept(self.chance.choice(self.earlier))
            self.drawn["back to an earlier declaration"] += self.view != self.earlier[-1]
            return
        times = self.chance.choice((1, 1, 1, 2, 3))
        for _ in range(times):
            self.view, name = _edited(self.view, self.made, self.chance)
            self.drawn[name or "no edit"] += 1
        self.view = self._kept(self.view)
        self.drawn["several edits at once"] += times > 1
        if how > 0.9 and self.view != self.earlier[-1]:
            self.write()
            self.view = self._kept(self.earlier[-1])
            self.drawn["there and back at once"] += 1

    def _kept(self, view: View) -> View:
        """Return a view with the types that are widened, and the renames that are followed by now."""
        wide, followed = dict[str, frozenset[str]](), dict[str, dict[str, int]]()
        for each in (*self.earlier, self.view):
            wide |= {name: wide.get(name, seen.widened) | seen.widened for name, seen in each.watched.items()}
            for name, seen in each.watched.items():
                of_table = followed.setdefault(name, {})
                of_table |= {column: max(times, of_table.get(column, 0)) for column, times in seen.followed.items()}
        watched = {
            name: replace(seen, widened=wide[name], followed=followed[name]) for name, seen in view.watched.items()
        }
        return replace(view, watched=watched)

    def write(self) -> Path:
        """Write the declaration's file."""
        self.file.write_text(declaration(self.view, self.inbox, self.source))
        return self.file
