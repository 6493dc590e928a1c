"""A table of MySQL or MariaDB as an audit reads it: the SQL of its key ranges, texts and digests.

Statements are run with values, so that a percent sign in a name is written twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txloom.current.equality import mysql_texts
from txloom.storage.databases.audit_source import Handle


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
        padded: declared columns whose JSON the server writes in its own way; both sides parse it.
        columns: the declared columns' names, in the order of texts.
    """

    name: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    texts: tuple[str, ...]
    padded: frozenset[str]
    columns: tuple[str, ...]

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
