"""A proposed declaration, and its text: YAML with a comment at everything that is guessed."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from txloom.config.models.column_types import KEYLESS
from txloom.config.names import PIPELINE_TABLES, changes_table

NAME = re.compile(r"[a-z][a-z0-9_]*")
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
            guessed = [column for column in table.columns if column.guess]
            said += [f"{table.source}.{each.source} as {each.type}: {each.guess}" for each in guessed]
        return said

    def text(self) -> str:
        """Return the declaration's YAML."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        names = lake_names([table.source for table in self.tables])
        yield "# Made by `txloom init`. What was not known for certain is marked with `guess`."
        yield from (f"# Only you know: {comment(sentence)}" for sentence in self.open_questions)
        yield f"name: {text(self.name)}"
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
        yield "  notify: [{kind: log}]           # also webhook, slack, email, apprise"
        if self.audit:
            yield f"audit: {{connection: {text(self.audit)}}}"
        yield "maintenance:"
        yield '  schedule: "30 3 * * *"'
        yield "  vacuum: {retain: 7d}"

    def _orphans(self, names: dict[str, str]) -> Iterator[str]:
        """Yield an expectation for each foreign key between the tables."""
        columns = {table.source: lake_columns(table) for table in self.tables}
        for each in self.foreign_keys:
            child, parent = names[each.child], names[each.parent]
            held = [columns[each.child][column] for column in each.columns]
            yield f"  - kind: orphans                 # the foreign key of {comment(each.child)}"
            yield f"    id: orphans_of_{child}_{'_'.join(held)}"
            yield f"    child: {text(child)}"
            yield f"    parent: {text(parent)}"
            yield f"    parent_key: [{', '.join(map(text, held))}]"
            yield "    severity: warn"
            yield f"    sentence: Each row of {child} belongs to a row of {parent}."
            yield f"    hint: Look for the listed rows in the source, and at open dead letters of {parent}."


def fit(table: Table) -> Table:
    """Return a table that can be declared: without a key of a type that is none, and without columns named twice.

    Names that differ in case alone are one name to the lake.
    """
    columns, notes = dict[str, Column](), list(table.notes)
    for column in table.columns:
        if column.source.casefold() in columns or not column.source.strip() or "${" in column.source:
            notes.append(f"Its column {column.source!r} is left out: it cannot be declared by that name.")
        else:
            columns[column.source.casefold()] = column
    kept, guess = list(columns.values()), table.guess
    types = {column.source: column.type.split("<")[0] for column in kept}
    key = list(table.key)
    if unfit := [name for name in key if types.get(name, KEYLESS[0]) in KEYLESS]:
        key, guess = [], f"{unfit[0]} is no type of a key: inserts only"
    return replace(table, columns=kept, key=key, guess=guess, notes=notes)


def _table(name: str, table: Table) -> Iterator[str]:
    known = lake_columns(table)
    yield f"  - name: {text(name)}"
    yield f"    source: {text(table.source)}"
    yield from (f"    # {comment(note)}" for note in table.notes)
    key = f"[{', '.join(text(known[column]) for column in table.key)}]" if table.key else "none"
    yield f"    key: {key}" + (f"  # guess: {comment(table.guess)}" if table.guess else "")
    yield "    columns:"
    for column in table.columns:
        lake = known[column.source]
        kind = text(column.type)
        value = kind if lake == column.source.lower() else f"{{type: {kind}, source: {text(column.source)}}}"
        yield f"      {text(lake)}: {value}" + (f"  # guess: {comment(column.guess)}" if column.guess else "")


def lake_columns(table: Table) -> dict[str, str]:
    """Return the lake's names of a table's columns by their names in the source; no two are the same.

    A column whose name the lake takes as it is keeps it.
    """
    return _distinct([column.source for column in table.columns], lake_name, lambda name, made: name not in made)


def lake_name(source: str) -> str:
    """Return a name that the lake takes, of one in the source.

    >>> lake_name("ORDER_ID"), lake_name("Größe in cm"), lake_name("2nd"), lake_name("_txloom_csn")
    ('order_id', 'gr__e_in_cm', 'c_2nd', 'c_txloom_csn')
    """
    name = re.sub(r"[^a-z0-9_]", "_", source.lower()).lstrip("_")
    return name if name == source.lower() and NAME.fullmatch(name) else f"c_{name}" if _needs(source) else name


def _needs(source: str) -> bool:
    """Return whether a name begins with something that no name of the lake begins with."""
    return not source[:1].isalpha() or not source[:1].isascii()


def lake_names(sources: Sequence[str]) -> dict[str, str]:
    """Return the lake's names of tables: without their schema, unless two of them, or txloom's own, would be the same.

    >>> lake_names(["public.orders", "old.Orders", "public.lines"])
    {'public.orders': 'public_orders', 'old.Orders': 'old_orders', 'public.lines': 'lines'}
    >>> lake_names(["bank.transactions", "bank.orders", "bank.orders_changes"])
    {'bank.transactions': 'bank_transactions', 'bank.orders': 'orders', 'bank.orders_changes': 'orders_changes_2'}
    """
    short = {source: lake_name(source.rpartition(".")[2]) for source in sources}
    every = list(short.values())
    named = {
        source: lake_name(source) if every.count(name) > 1 or name in PIPELINE_TABLES else name
        for source, name in short.items()
    }

    def is_free(name: str, made: Collection[str]) -> bool:
        histories = {changes_table(each) for each in made}
        return not {name, changes_table(name)} & {*made, *histories, *PIPELINE_TABLES}

    return _distinct(sources, named.__getitem__, is_free)


def _distinct(
    sources: Sequence[str], name: Callable[[str], str], is_free: Callable[[str, Collection[str]], bool]
) -> dict[str, str]:
    """Return a name for each source name, numbered where several would have one; exact ones keep theirs."""
    made = dict[str, str]()
    for source in sorted(sources, key=lambda each: (name(each) != each.lower(), sources.index(each))):
        shown, number = name(source), 2
        while not is_free(shown, made.values()):
            shown, number = f"{name(source)}_{number}", number + 1
        made[source] = shown
    return {source: made[source] for source in sources}


def comment(sentence: str) -> str:
    """Return a text on one line."""
    return " ".join(sentence.split())


def text(value: str) -> str:
    """Return a text as YAML has it in flow style.

    >>> text("public.orders"), text("decimal(20,4)"), text("no"), text("array<string>")
    ('public.orders', '"decimal(20,4)"', '"no"', '"array<string>"')
    """
    plain = PLAIN.fullmatch(value) and value.lower() not in RESERVED
    return value if plain else json.dumps(value, ensure_ascii=False)
