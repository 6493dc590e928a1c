"""A proposed declaration, and its text: YAML with a comment at everything that is guessed."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from txloom.config.names import SYSTEM_PREFIX

NAME = re.compile(r"[a-z_][a-z0-9_]*")
PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.\-]*")
RESERVED = ("null", "true", "false", "yes", "no", "on", "off", "y", "n", "none", "~")


@dataclass(frozen=True)
class Column:
    """A column: its name in the source, its type, and why that is a guess; empty where it is known."""

    source: str
    type: str
    guess: str = ""


@dataclass(frozen=True)
class Table:
    """A table: its name in the source with its schema, its key, and why that is a guess; empty where it is known."""

    source: str
    columns: Sequence[Column]
    key: Sequence[str] = ()
    guess: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ForeignKey:
    """Rows of a child belong to a row of a parent: the child's columns hold the parent's key."""

    child: str
    parent: str
    columns: Sequence[str]


@dataclass(frozen=True)
class Proposal:
    """A declaration.

    source: lines of YAML below `source:`. completeness: in flow style. open_questions: what only the user can know, one
    sentence each. audit: the connection of the database, where one is known.
    """

    name: str
    source: Sequence[str]
    completeness: str
    tables: Sequence[Table]
    foreign_keys: Sequence[ForeignKey] = ()
    open_questions: Sequence[str] = field(default_factory=list)
    audit: str = ""

    def guesses(self) -> list[str]:
        """Return what is guessed, one sentence each."""
        said = [f"{table.source}: {table.guess}" for table in self.tables if table.guess]
        for table in self.tables:
            said += [
                f"{table.source}.{each.source} as {each.type}: {each.guess}" for each in table.columns if each.guess
            ]
        return said

    def text(self) -> str:
        """Return the declaration's YAML."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        names = lake_names([table.source for table in self.tables])
        yield "# Made by `txloom init`. What was not known for certain is marked with `guess`."
        yield from (f"# Only you know: {sentence}" for sentence in self.open_questions)
        yield f"name: {self.name}"
        yield 'schedule: "*/15 * * * *"          # cron, in UTC'
        yield "source:"
        yield from (f"  {line}" for line in self.source)
        yield f"completeness: {self.completeness}"
        yield "tables:"
        for table in self.tables:
            yield from _table(names[table.source], table)
        yield "targets:"
        yield '  mirrors: ["*"]                  # of each table the current rows, and TABLE_changes: every change'
        if orphans := list(self._orphans(names)):
            yield "expectations:"
            yield from orphans
        yield "alerts:"
        yield "  valid_through_age: 1h           # guess: how old may what readers see be?"
        yield "  stuck_after: 10m"
        yield "  dead_letters: 0"
        yield "  notify: [{kind: log}]           # also webhook, slack, email"
        if self.audit:
            yield f"audit: {{connection: {self.audit}}}"
        yield "maintenance:"
        yield '  schedule: "30 3 * * *"'
        yield "  vacuum: {retain: 7d}"

    def _orphans(self, names: dict[str, str]) -> Iterator[str]:
        """Yield an expectation for each foreign key between the tables."""
        for each in self.foreign_keys:
            child, parent = names[each.child], names[each.parent]
            yield f"  - kind: orphans                 # the foreign key of {each.child}"
            yield f"    id: orphans_of_{child}_{'_'.join(map(lake_name, each.columns))}"
            yield f"    child: {child}"
            yield f"    parent: {parent}"
            yield f"    parent_key: [{', '.join(map(lake_name, each.columns))}]"
            yield "    severity: warn"
            yield f"    sentence: Each row of {child} belongs to a row of {parent}."
            yield f"    hint: Look for the listed rows in the source, and at open dead letters of {parent}."


def _table(name: str, table: Table) -> Iterator[str]:
    yield f"  - name: {name}"
    yield f"    source: {text(table.source)}"
    yield from (f"    # {note}" for note in table.notes)
    key = f"[{', '.join(map(lake_name, table.key))}]" if table.key else "none"
    yield f"    key: {key}" + (f"  # guess: {table.guess}" if table.guess else "")
    yield "    columns:"
    known = lake_columns(table)
    for column in table.columns:
        lake = known[column.source]
        kind = text(column.type)
        value = kind if lake == column.source.lower() else f"{{type: {kind}, source: {text(column.source)}}}"
        yield f"      {text(lake)}: {value}" + (f"  # guess: {column.guess}" if column.guess else "")


def lake_columns(table: Table) -> dict[str, str]:
    """Return the lake's names of a table's columns by their names in the source; no two are the same."""
    made = dict[str, str]()
    for column in table.columns:
        name, number = lake_name(column.source), 2
        while name in made.values():
            name, number = f"{lake_name(column.source)}_{number}", number + 1
        made[column.source] = name
    return made


def lake_name(source: str) -> str:
    """Return a name that the lake takes, of one in the source.

    >>> lake_name("ORDER_ID"), lake_name("Größe in cm"), lake_name("2nd"), lake_name("_txloom_csn")
    ('order_id', 'gr__e_in_cm', '_2nd', 'source_txloom_csn')
    """
    name = re.sub(r"[^a-z0-9_]", "_", source.lower())
    name = name if NAME.fullmatch(name) else f"_{name}"
    return f"source{name}" if name.startswith(SYSTEM_PREFIX) else name


def lake_names(sources: Sequence[str]) -> dict[str, str]:
    """Return the lake's names of tables: without their schema, unless two schemas have a table of one name.

    >>> lake_names(["public.orders", "old.Orders", "public.lines"])
    {'public.orders': 'public_orders', 'old.Orders': 'old_orders', 'public.lines': 'lines'}
    """
    short = {source: lake_name(source.rpartition(".")[2]) for source in sources}
    twice = [name for name in short.values() if list(short.values()).count(name) > 1]
    return {source: lake_name(source) if name in twice else name for source, name in short.items()}


def text(value: str) -> str:
    """Return a text as YAML has it in flow style.

    >>> text("public.orders"), text("decimal(20,4)"), text("no"), text("array<string>")
    ('public.orders', '"decimal(20,4)"', '"no"', '"array<string>"')
    """
    plain = PLAIN.fullmatch(value) and value.lower() not in RESERVED
    return value if plain else json.dumps(value, ensure_ascii=False)
