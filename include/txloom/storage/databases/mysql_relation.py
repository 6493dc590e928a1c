"""A table of MySQL or MariaDB as an audit reads it: the SQL of its key ranges, texts and digests.

Statements are run with values, so that a percent sign in a name is written twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Table
from txloom.current.equality import mysql_texts
from txloom.current.equality.canonical_texts import Form
from txloom.current.equality.mysql_texts import Held
from txloom.errors import ConfigurationError
from txloom.storage.databases.audit_source import Handle

BY_VALUE = ("long", "int", "decimal", "double", "float", "boolean", "date", "timestamp", "timestamptz")
"""Types whose values both sides order alike; all others are ordered by the bytes of their texts."""
GEOMETRIC = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


class Column(NamedTuple):
    """A column of the database: its name, and how it holds values."""

    name: str
    held: Held


@dataclass(frozen=True)
class Stored:
    """What the catalog says of a table.

    Args:
        name: quoted, with its schema.
        columns: place, name and type of each.
        created: when it got its definition; None: unknown.
        ids: the numbers of the files of the table and its partitions; None: this user may not know them.
    """

    name: str
    columns: tuple[Any, ...]
    created: datetime | None
    ids: tuple[Any, ...] | None


def quoted(name: str) -> str:
    """Quote a name.

    >>> quoted("100% `sure`")
    '`100%% ``sure```'
    """
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


@dataclass(frozen=True)
class Relation:
    """A table of the database, with the lake's columns.

    Args:
        name: quoted, with its schema.
        key: quoted names of the key's columns.
        order: what orders each of them as the lake does: the column, or the bytes of its text.
        texts: the SQL of each declared column's canonical text, the key's columns first.
        forms: declared columns whose JSON the server writes in its own way; both sides parse it.
        columns: the declared columns' names, in the order of texts.
        nullable: quoted names of the key's columns that take null.
        undeclared: names of the columns that are not declared.
    """

    name: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    texts: tuple[str, ...]
    forms: Mapping[str, Form]
    columns: tuple[str, ...]
    nullable: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()

    @property
    def widths(self) -> Mapping[str, int]:
        """No column: the server leaves the blanks out that it pads texts with."""
        return {}

    def within(self, low: Handle, high: Handle) -> tuple[str, list[Any]]:
        """Return the condition of a key range, which an index can serve, and its values; an empty bound is none."""
        conditions, values = list[str](), list[Any]()
        for sign, bound in ((">=", low), ("<", high)):
            if bound:
                condition, some = self._beyond(sign, bound)
                conditions.append(condition)
                values += some
        conditions += [f"{name} is not null" for name in self.nullable]
        return " and ".join(conditions) or "true", values

    def _beyond(self, sign: str, bound: Handle) -> tuple[str, list[Any]]:
        """Compare keys column by column; a comparison of rows would not be served by an index."""
        first, *rest = zip(self.key, self.order, bound, strict=True)
        parts, values = list[str](), list[Any]()
        equal, known = "", list[Any]()
        for number, (key, order, value) in enumerate((first, *rest)):
            last = number == len(bound) - 1
            place = _place(key, order)
            parts.append(f"({equal}{order} {sign if last else sign[0]} {place})")
            values += [*known, value]
            equal, known = f"{equal}{order} = {place} and ", [*known, value]
        loose = f"{first[1]} {sign[0]}= {_place(first[0], first[1])}"
        return f"{loose} and ({' or '.join(parts)})", [first[2], *values]

    def among(self, keys: Sequence[Handle]) -> tuple[str, list[Any]]:
        """Return the condition of rows that have one of some keys, and perhaps of others, and its values."""
        if len(self.key) == 1:
            return f"{self.key[0]} in ({', '.join(['%s'] * len(keys))})", [key[0] for key in keys]
        one = f"({' and '.join(f'{name} = %s' for name in self.key)})"
        return " or ".join([one] * len(keys)), [value for key in keys for value in key]

    def rows(self, condition: str) -> str:
        """Return the query of the canonical texts, and then the keys, of rows for which a condition holds."""
        return f"select {', '.join((*self.texts, *self.handles))} from {self.name} where {condition}"

    def digests(self, condition: str) -> str:
        """Return the query of canonical key, key, and digest of each row for which a condition holds."""
        texts = [f"c{number}" for number in range(len(self.texts))]
        handles = [f"h{number}" for number in range(len(self.key))]
        inner = ", ".join(f"{text} as {name}" for text, name in zip(self.texts, texts, strict=True))
        keys = ", ".join(f"{handle} as {name}" for handle, name in zip(self.handles, handles, strict=True))
        read = ", ".join([*texts[: len(self.key)], *handles])
        digest = mysql_texts.row_digest(texts)
        return f"select {read}, {digest} as digest from (select {inner}, {keys} from {self.name} where {condition}) r"

    @property
    def handles(self) -> list[str]:
        """The SQL of a key's values as they are given back: numbers and times, or texts."""
        pairs = zip(self.key, self.order, self.texts, strict=False)
        return [key if key == order else text for key, order, text in pairs]


def _place(key: str, order: str) -> str:
    """Return the place of a value that is compared with a column, or with the bytes of its text."""
    return "%s" if key == order else "cast(%s as binary)"


def relation_of(table: Table, name: str, columns: Mapping[str, Column]) -> Relation:
    """Return how a table is read.

    Args:
        table: as declared.
        name: of the table, quoted, with its schema.
        columns: of the database, by lower-case name.

    Raises:
        ConfigurationError: a column is missing, or has a type that cannot be compared.
    """
    if missing := [column.source for column in table.columns if column.find_source(columns) not in columns]:
        raise ConfigurationError(f"{table.name}: {table.source} has no column {', '.join(missing)} in the database")
    ordered = [*(table.column(each) for each in table.key), *(c for c in table.columns if c.name not in table.key)]
    known = {column.name: columns[column.find_source(columns)] for column in ordered}
    for column in ordered:
        refuse_unfit(table, column.name, column.type, known[column.name].held)
    names = {name: quoted(column.name) for name, column in known.items()}
    texts = {c.name: mysql_texts.canonical(names[c.name], known[c.name].held, c.type) for c in ordered}
    by_value = {each: table.column(each).type.kind in BY_VALUE for each in table.key}
    return Relation(
        name=name,
        key=tuple(names[each] for each in table.key),
        order=tuple(names[each] if by_value[each] else f"cast({texts[each]} as binary)" for each in table.key),
        texts=tuple(texts.values()),
        forms={name: "json" for name, column in known.items() if column.held.base == "json"},
        columns=tuple(texts),
        nullable=tuple(names[each] for each in table.key if known[each].held.is_nullable),
        undeclared=tuple(
            column.name
            for name, column in columns.items()
            if name not in {source.lower() for declared in table.columns for source in declared.sources}
        ),
    )


def held(base: str, kind: str, is_nullable: str) -> Held:
    """Return how a column holds values, of what the catalog says of it."""
    bits = kind.lower().removeprefix("bit(").removesuffix(")") if base.lower() == "bit" else "0"
    return Held(base.lower(), is_nullable == "YES", int(bits))


def refuse_unfit(table: Table, name: str, declared: ColumnType, held: Held) -> None:
    """Raise ConfigurationError for a column whose values the lake cannot have exactly."""
    known = {
        "json": (("json",), "JSON, which has no text of its own: declare json"),
        "float": (("float",), "FLOAT, and its digits are those of a float: declare float"),
    }
    fitting, why = known.get(held.base, ((declared.kind,), ""))
    if declared.element is not None or declared.kind not in fitting:
        why = why or "no array"
        raise ConfigurationError(f"{table.name}.{name}: the column in the database is {why}")
    if held.base in GEOMETRIC:
        raise ConfigurationError(f"{table.name}.{name}: a {held.base} cannot be compared; leave the column out")
