"""A declaration for cross-checks: the parts that are valid by themselves, while other parts may be refused already."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from txloom.config.models.column_types import KEYLESS, ColumnType, parse
from txloom.config.models.fields import NO_KEY
from txloom.config.problems import Problem, Unfit, counted, did_you_mean, named, nearest
from txloom.config.yaml.document import Item, inner


@dataclass(frozen=True)
class Draft:
    """The items of a file, and the paths that have a problem already."""

    root: Item
    file: str
    reported: frozenset[str]

    def word(self, item: Item, name: str) -> Item | None:
        """Return a member that is text without a problem, else None."""
        member = item.get(name)
        return member if member is not None and self._is_sound(member) else None

    def words(self, item: Item, name: str) -> list[Item]:
        """Return the members of a list that are text without a problem."""
        return [member for member in item.members(name) if self._is_sound(member)]

    def within(self, *names: str) -> list[Item]:
        """Return the items of the list at a path of names; none where there is no such list."""
        item: Item | None = self.root
        for name in names[:-1]:
            item = item.get(name) if item is not None else None
        return item.members(names[-1]) if item is not None else []

    def problem(self, item: Item, expected: str, hint: str = "", value: str | None = None) -> Problem:
        """Return a problem at an item."""
        return Problem(self.file, item.line, item.path, value or item.shown, expected, hint)

    def is_reported(self, item: Item) -> bool:
        """Return whether a member below an item is refused already, such as a misspelled key."""
        return any(path.startswith(f"{item.path}.") for path in self.reported)

    def missing(self, item: Item, key: str, expected: str) -> Problem:
        """Return the problem of a key that a mapping must have."""
        return Problem(self.file, (item.get(key) or item).line, inner(item.path, key), "nothing", expected)

    def _is_sound(self, item: Item) -> bool:
        return isinstance(item.value, str) and item.path not in self.reported

    @cached_property
    def tables(self) -> list["TableDraft"]:
        """Return the watched tables."""
        return [TableDraft(self, item) for item in self.within("tables") if isinstance(item.value, dict)]

    @cached_property
    def shapes(self) -> list["TableDraft"]:
        """Return one watched table of each entry; the others of an entry differ from it only by name and source."""
        return shapes(self.tables)

    @cached_property
    def table_names(self) -> list[str]:
        """Return the names of the watched tables."""
        return [name for table in self.tables if (name := table.item.text("name"))]

    def table(self, name: Item) -> "TableDraft | None":
        """Return the watched table that an item names."""
        return next((table for table in self.tables if table.item.text("name") == name.value), None)

    @cached_property
    def mirrors(self) -> list["MirrorDraft"]:
        """Return the mirrors whose table, or pattern of tables, has no problem."""
        declared = [(mirror, self.word(mirror, "table") or mirror) for mirror in self.within("targets", "mirrors")]
        sound = [pair for pair in declared if isinstance(pair[1].value, str) and pair[1].path not in self.reported]
        tables: dict[str, TableDraft] = {}
        for table in self.tables:
            tables.setdefault(table.item.text("name") or "", table)
        patterns = mirrored([name.value for _, name in sound], self.table_names)
        return [
            MirrorDraft(mirror, name, [tables[each] for each in stands_for if each in tables])
            for (mirror, name), stands_for in zip(sound, patterns, strict=True)
        ]

    @property
    def targets_are_refused(self) -> bool:
        """Return whether a part of the targets is refused already, so that it is not known what they write."""
        return any(f"{path}.".startswith("targets.") for path in self.reported)

    def is_written(self, name: Item) -> bool:
        """Return whether a target writes the watched table that an item names, or may write it."""
        return name.value in self._written_tables or self.targets_are_refused

    @cached_property
    def _written_tables(self) -> set[str]:
        mirrors = self.within("targets", "mirrors")
        declared = [
            name for item in mirrors if (name := item.value if isinstance(item.value, str) else item.text("table"))
        ]
        tables = {table for of_mirror in mirrored(declared, self.table_names) for table in of_mirror}
        for aggregate in self.within("targets", "aggregates"):
            tables |= {name for item in aggregate.members("children") if (name := item.text("table"))}
            tables |= {name for name in [aggregate.text("root")] if name}
        return tables

    def unknown_table(self, name: Item) -> Iterator[Problem]:
        """Yield a problem where an item names no watched table, unless it probably means one whose name is refused."""
        sound = [table.label for table in self.tables if self.word(table.item, "name")]
        refused = [
            name for table in self.tables if table.label not in sound for name in (table.label, table.short_source)
        ]
        if self.table(name) is None and not nearest(name.value, refused):
            yield self.problem(name, "a watched table", meant(name, sound))


@dataclass(frozen=True)
class TableDraft:
    """A watched table, with the parts of it that have no problem."""

    draft: Draft
    item: Item

    @property
    def label(self) -> str:
        """Return the table's name as the file has it; without one, its path in the file."""
        return written(self.item.get("name")) or self.item.path

    @property
    def short_source(self) -> str:
        """Return the table's name in the source, without its schema."""
        return written(self.item.get("source")).rsplit(".", 1)[-1]

    @property
    def key(self) -> list[Item]:
        """Return the key columns, each once."""
        return list({column.value: column for column in reversed(self.draft.words(self.item, "key"))}.values())[::-1]

    @property
    def has_no_key(self) -> bool:
        """Return whether the table declares that it has no key."""
        return self.item.text("key") == NO_KEY

    @property
    def key_is_refused(self) -> bool:
        """Return whether the key or a part of it has a problem, so that references to it cannot be checked."""
        declared = self.item.members("key")
        return not declared or len(self.draft.words(self.item, "key")) != len(declared)

    @cached_property
    def columns(self) -> dict[str, Item]:
        """Return the declared columns."""
        declared = self.item.get("columns")
        return declared.value if declared is not None and isinstance(declared.value, dict) else {}

    def type_of(self, column: str) -> ColumnType | None:
        """Return the type of a column; None where the column is not declared or its type is not valid."""
        declared = self.columns.get(column)
        if declared is None:
            return None
        try:
            return parse(declared.text("type") if isinstance(declared.value, dict) else declared.value)
        except Unfit:
            return None

    def shown_type(self, column: str) -> str:
        """Return the type of a column as the file has it."""
        declared = self.columns[column]
        return written(declared.get("type") or declared)

    def columns_of(self, named: list[Item]) -> Iterator[Problem]:
        """Yield a problem for each item that is not a declared column, or repeats one."""
        seen: set[str] = set()
        for column in named:
            if column.value in seen:
                yield self.draft.problem(column, "each column once", value=f"{column.shown} again")
            elif self.columns and column.value not in self.columns:
                yield self.draft.problem(column, f"a declared column of {self.label}", meant(column, self.columns))
            seen.add(column.value)

    def keyless(self, name: Item) -> Iterator[Problem]:
        """Yield a problem where an item names this table for something that needs a key."""
        if self.has_no_key:
            hint = "A table whose key is `none` takes inserts only; it can be mirrored."
            yield self.draft.problem(name, "a table with a key", hint)

    def parent_key(self, child: "TableDraft", holder: Item) -> Iterator[Problem]:
        """Yield a problem for each column of a child that cannot hold this table's key."""
        columns = self.draft.words(holder, "parent_key")
        yield from child.columns_of(columns)
        declared = holder.get("parent_key")
        incomplete = len(columns) != len(holder.members("parent_key")) or self.key_is_refused
        if declared is None or not columns or incomplete:
            return
        if len(columns) != len(self.key):
            key = ", ".join(written(item) for item in self.key)
            expected = f"{counted(len(self.key), 'column')} for the key of {self.label} ({key})"
            yield self.draft.problem(declared, expected, value=counted(len(columns), "column"))
            return
        for column, key_column in zip(columns, self.key, strict=True):
            child_type, parent_type = child.type_of(column.value), self.type_of(key_column.value)
            if child_type and parent_type and child_type != parent_type and parent_type.kind not in KEYLESS:
                expected = f"type {self.shown_type(key_column.value)}, as {written(key_column)} of {self.label} has"
                shown = f"{column.shown} of type {child.shown_type(column.value)}"
                yield self.draft.problem(column, expected, value=shown)


@dataclass(frozen=True)
class MirrorDraft:
    """A mirror with its item, the item that names its tables, and the watched tables that it stands for."""

    item: Item
    name: Item
    tables: list[TableDraft]

    @property
    def is_pattern(self) -> bool:
        """Return whether the mirror's table is a pattern of names."""
        return is_pattern(self.name.value)

    def matches(self, table: str) -> bool:
        """Return whether its pattern matches a table, even one that another mirror names."""
        return fnmatchcase(table, self.name.value)


def shapes(tables: Iterable[TableDraft]) -> list[TableDraft]:
    """Return the first of the tables of each entry."""
    drafts: dict[str, TableDraft] = {}
    for table in tables:
        drafts.setdefault(table.item.path, table)
    return list(drafts.values())


def written(item: Item | None) -> str:
    """Return an item's text as the file has it; empty for None."""
    return "" if item is None else named(str(item.value if item.written is None else item.written))


def meant(item: Item, names: Iterable[str]) -> str:
    """Return the question `Did you mean ...?` for an item's text, or an empty text.

    A value from the environment gets no hint, because it may be secret.
    """
    return did_you_mean(item.value, names) if item.written is None else ""


def is_pattern(name: str) -> bool:
    """Return whether a mirror's table is a pattern of names."""
    return "*" in name or "?" in name


def mirrored(declared: list[str], tables: list[str]) -> list[list[str]]:
    """Return the tables that each declared mirror stands for.

    A table that a mirror names belongs to no pattern; of several matching patterns, the first gets a table.

    >>> mirrored(["*", "b"], ["a", "b", "c"])
    [['a', 'c'], ['b']]
    """
    taken = {name for name in declared if not is_pattern(name)}
    tables_of = []
    for name in declared:
        free = [table for table in tables if table not in taken and fnmatchcase(table, name)]
        matching = free if is_pattern(name) else [name]
        taken.update(matching)
        tables_of.append(matching)
    return tables_of
