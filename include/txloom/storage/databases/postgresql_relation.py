"""A table of PostgreSQL as an audit reads it: the SQL of its key ranges, texts and digests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from txloom.config.models.column_types import ColumnType
from txloom.current.equality import postgresql_texts
from txloom.current.equality.canonical_texts import Form
from txloom.storage.databases.audit_source import Handle

TEXTS = ("text", "varchar", "bpchar", "name")
"""Types whose order depends on a collation, and whose values equal what is written of them."""
WHOLE = ("int2", "int4", "int8")


@dataclass(frozen=True)
class Relation:
    """A table of the database, with the lake's columns.

    Args:
        name: quoted, with its schema.
        oid: its number.
        key: the SQL of the key's columns, by which rows are sought.
        order: the same with the collation that orders them as the lake does.
        key_types: the types in which their values are given.
        texts: the SQL of each declared column's canonical text, the key's columns first.
        forms: by declared name, how a column writes equal values in several ways.
        widths: by declared name, up to how many characters a column's texts are padded with blanks.
        nullable: quoted names of the key's columns that take null.
        undeclared: names of the columns that are not declared.
    """

    name: str
    oid: int
    key: tuple[str, ...]
    order: tuple[str, ...]
    key_types: tuple[str, ...]
    texts: tuple[str, ...]
    forms: Mapping[str, Form]
    widths: Mapping[str, int]
    nullable: tuple[str, ...]
    undeclared: tuple[str, ...]

    @property
    def values(self) -> str:
        """The place of a key's values in SQL."""
        return f"({', '.join(f'cast(%s as {kind})' for kind in self.key_types)})"

    def within(self, low: Handle, high: Handle) -> str:
        """Return the condition of a key range; an empty bound is none."""
        row = f"({', '.join(self.order)})"
        conditions = [f"{row} {sign} {self.values}" for sign, bound in ((">=", low), ("<", high)) if bound]
        conditions += [f"{name} is not null" for name in self.nullable]
        return " and ".join(conditions) or "true"

    def among(self, keys: int) -> str:
        """Return the condition of rows that have one of so many keys."""
        return f"({', '.join(self.key)}) in ({', '.join([self.values] * keys)})"

    def digests(self, condition: str) -> str:
        """Return the query of canonical key, key, and digest of each row for which a condition holds."""
        columns = [f"c{number}" for number in range(len(self.texts))]
        inner = ", ".join(f"{text} as {column}" for text, column in zip(self.texts, columns, strict=True))
        handles = ", ".join(f"{name}::text as h{number}" for number, name in enumerate(self.key))
        read = ", ".join([*columns[: len(self.key)], *(f"h{number}" for number in range(len(self.key)))])
        digest = postgresql_texts.row_digest(columns)
        return (
            f"select {read}, {digest} as digest from (select {inner}, {handles} from {self.name} where {condition}) r"
        )


class Column(NamedTuple):
    """A column of the database.

    Args:
        name: its name.
        base: the name of the type below its domains and arrays.
        kind: the same as SQL writes it, without length and digits.
        modifier: what it has of these (`atttypmod`).
        family: "e" of an enumeration (`typtype`).
        is_required: whether it takes no null.
    """

    name: str
    base: str
    kind: str
    modifier: int
    family: str
    is_required: bool

    @property
    def width(self) -> int:
        """The length that texts are padded to; 0: none."""
        return max(0, self.modifier - 4) if self.base == "bpchar" else 0

    def key(self, quoted: str, declared: ColumnType) -> tuple[str, str, str]:
        """Return how a column of a key is sought and ordered, and the type in which its values are given.

        What the lake orders as a text, and the database does not, is written as one. The type takes each value that the
        lake may hold: no domain, no length, the largest of the whole numbers.
        """
        if self.base in TEXTS:
            return quoted, f'{quoted} collate "C"', "bpchar" if self.base == "bpchar" else "text"
        is_number = self.base in postgresql_texts.FORMS and declared.kind == "string"
        if is_number or self.family == "e" or self.base == "citext":
            text = postgresql_texts.canonical(quoted, declared, self.base)
            return text, f'({text}) collate "C"', "text"
        return quoted, quoted, "bigint" if self.base in WHOLE else self.kind
