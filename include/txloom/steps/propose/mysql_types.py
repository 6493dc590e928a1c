"""The types that columns of a MySQL or MariaDB table have in the lake, as Debezium sends them."""

import re

from txloom.config.models.column_types import MOST_DIGITS
from txloom.steps.propose.database_types import Proposed

KNOWN = {
    "tinyint": "int",
    "smallint": "int",
    "mediumint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "datetime": "timestamp",
    "timestamp": "timestamptz",
    "year": "int",
    "json": "json",
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), "string"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"),
}
GEOMETRIC = re.compile(r"geometry|geomcollection|(multi)?(point|linestring|polygon)|geometrycollection")
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
BITS = re.compile(r"bit\((\d+)\)")


def proposed(kind: str) -> Proposed:
    """Return the lake's type for a type as `information_schema` has it in column_type.

    A type of shapes has none: the type is empty, and the guess says why.

    >>> proposed("decimal(20,4) unsigned").type, proposed("int(10) unsigned").type, proposed("bit(1)").type
    ('decimal(20,4)', 'long', 'boolean')
    >>> proposed("varchar(30)"), proposed("inet6")
    (Proposed(type='string', guess=''), Proposed(type='string', guess='inet6 stays text'))
    """
    kind = kind.lower()
    base = re.split(r"[( ]", kind, maxsplit=1)[0]
    if match := DECIMAL.match(kind):
        digits, scale = int(match[1]), int(match[2])
        if digits <= MOST_DIGITS:
            return Proposed(f"decimal({digits},{scale})")
        return Proposed("string", f"{kind} has more digits than a decimal of the lake")
    if kind.startswith("tinyint(1)"):
        return Proposed("boolean", "tinyint(1) may hold more than 0 and 1: int, if it does")
    if match := BITS.match(kind):
        return Proposed("boolean") if match[1] == "1" else Proposed("binary", _BITS)
    if base == "bigint" and "unsigned" in kind:
        return Proposed("decimal(20,0)", "beyond 2^63 only with bigint.unsigned.handling.mode=precise and schemas")
    if base == "int" and "unsigned" in kind:
        return Proposed("long")
    if base == "time":
        return Proposed("time", "a time of day; for durations long, which is microseconds")
    if GEOMETRIC.fullmatch(base):
        return Proposed("", f"a {base} cannot be declared")
    if base == "uuid":
        return Proposed("uuid", "Debezium 3.5 reads MariaDB's UUID wrong: audit it")
    return Proposed(KNOWN[base]) if base in KNOWN else Proposed("string", f"{base} stays text")


_BITS = "bytes, the lowest first; where messages have schemas, int or long is the number"
