"""The types that columns of a PostgreSQL table have in the lake."""

import re
from typing import NamedTuple

from txloom.config.models.column_types import MOST_DIGITS

KNOWN = {
    "smallint": "int",
    "integer": "int",
    "bigint": "long",
    "oid": "long",
    "real": "float",
    "double precision": "double",
    "boolean": "boolean",
    "date": "date",
    "bytea": "binary",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "json",
    "text": "string",
    "character varying": "string",
    "character": "string",
    "name": "string",
    "citext": "string",
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamp",
    "time without time zone": "time",
}
NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
LENGTH = re.compile(r"\((\d+)\)")


class Proposed(NamedTuple):
    """A type of the lake, and why it is a guess; empty where it is known."""

    type: str
    guess: str = ""


def proposed(kind: str) -> Proposed:
    """Return the lake's type for a type as PostgreSQL's format_type writes it.

    >>> proposed("numeric(20,4)").type, proposed("timestamp(3) with time zone").type
    ('decimal(20,4)', 'timestamptz')
    >>> proposed("character varying(30)[]").type, proposed("numeric").type, proposed("interval")
    ('array<string>', 'decimal(38,10)', Proposed(type='string', guess='interval stays text'))
    """
    if kind.endswith("[]"):
        element = proposed(kind.removesuffix("[]"))
        if element.type.startswith("array") or element.type in ("json", "binary"):
            return Proposed("string", f"arrays of {kind.removesuffix('[]')} stay text")
        return Proposed(f"array<{element.type}>", element.guess)
    if match := NUMERIC.fullmatch(kind):
        digits, scale = int(match[1]), int(match[2])
        if digits <= MOST_DIGITS and 0 <= scale <= digits:
            return Proposed(f"decimal({digits},{scale})")
        return Proposed("string", f"{kind} has more digits than a decimal of the lake")
    if kind == "numeric":
        return Proposed("decimal(38,10)", "numeric without digits: say how wide; longer values become dead letters")
    name = LENGTH.sub("", kind)
    return Proposed(KNOWN[name]) if name in KNOWN else Proposed("string", f"{kind} stays text")
