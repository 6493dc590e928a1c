"""Declared column types: which values a column may hold, and the type's name in Spark."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from txloom.config.problems import Unfit, did_you_mean

SPARK_TYPES = {
    "long": "bigint",
    "int": "int",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "time": "string",
    "binary": "binary",
    "uuid": "string",
    "json": "string",
}
"""The types without parameters, and Spark's type for each."""

KEYLESS = ("array", "json", "double", "float")
"""Kinds that cannot be part of a key: equal values may differ in how they are written, or are no single value."""

SPELLED = ("uuid", "time")
"""Kinds that Delta has as texts, each value in one spelling."""

MOST_DIGITS = 38
EXPECTED = f"a type: {', '.join(SPARK_TYPES)}, decimal(p,s) or array<type>"
JSON_PATTERN = (
    rf"^({'|'.join(SPARK_TYPES)}|decimal\(\d+, ?\d+\)"
    rf"|array<({'|'.join(t for t in SPARK_TYPES if t not in ('json', 'binary'))}|decimal\(\d+, ?\d+\))>)$"
)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)")
_ARRAY = re.compile(r"array<\s*(.+?)\s*>")
_FOREIGN = {
    "long": "bigint int8 bigserial int64",
    "int": "integer int4 int2 int16 int32 smallint tinyint short byte serial mediumint",
    "boolean": "bool bit",
    "string": "text str varchar varchar2 nvarchar nvarchar2 char character bpchar nchar clob citext",
    "timestamp": "datetime datetime2 timestamp_ntz",
    "timestamptz": "timestamp_tz timestamp_ltz instant datetimeoffset",
    "binary": "bytea blob bytes raw varbinary",
    "json": "jsonb",
    "uuid": "guid uniqueidentifier",
    "float": "real float4 float32",
    "double": "float8 float64 double_precision",
}
_ALIASES = {alias: name for name, aliases in _FOREIGN.items() for alias in aliases.split()}


@dataclass(frozen=True)
class ColumnType:
    """One declared type; `precision` and `scale` for decimals, `element` for arrays."""

    kind: str
    precision: int = 0
    scale: int = 0
    element: "ColumnType | None" = None

    @property
    def spark(self) -> str:
        """Return the type as Spark DDL."""
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.element is not None:
            return f"array<{self.element.spark}>"
        return SPARK_TYPES[self.kind]

    def __str__(self) -> str:
        """Return the type as it is declared."""
        if self.element is not None:
            return f"array<{self.element}>"
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema by which pydantic parses the type from text."""
        return core_schema.no_info_plain_validator_function(parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema of a declared type, for editors."""
        return {"type": "string", "pattern": JSON_PATTERN, "description": EXPECTED[0].upper() + EXPECTED[1:]}


def parse(declared: Any) -> ColumnType:
    """Parse a declared type; raises Unfit for anything else.

    >>> parse("array<decimal(20,4)>").spark, parse("timestamptz").spark
    ('array<decimal(20,4)>', 'timestamp')
    """
    if isinstance(declared, ColumnType):
        return declared
    if not isinstance(declared, str):
        raise Unfit(EXPECTED)
    text = declared.strip()
    if match := _ARRAY.fullmatch(text):
        element = parse(match[1])
        if element.kind in ("array", "json", "binary"):
            raise Unfit("an array of single values", "Declare such a column as json or string.")
        return ColumnType("array", element=element)
    if match := _DECIMAL.fullmatch(text):
        return _decimal(int(match[1]), int(match[2]))
    if text not in SPARK_TYPES:
        raise Unfit(EXPECTED, _nearest(text))
    return ColumnType(text)


def reads_alike(before: ColumnType, now: ColumnType) -> bool:
    """Return whether values that were read as one type become those that another type would have read.

    A history gives its values another type by a cast, or reads its texts again; it does so only where Delta's types
    differ. A uuid and a time have one spelling, unlike the texts they are read from. A float is not the nearest double
    of the number that the source sent.

    >>> reads_alike(parse("int"), parse("decimal(12,2)")), reads_alike(parse("string"), parse("long"))
    (True, True)
    >>> reads_alike(parse("string"), parse("uuid")), reads_alike(parse("array<float>"), parse("array<double>"))
    (False, False)
    """
    if before == now:
        return True
    if now.element is not None:
        return reads_alike(before.element or before, now.element)
    is_text = {before.kind, now.kind} <= {"string", "json"}
    return is_text or not ({before.kind, now.kind} & set(SPELLED) or before.kind == "float")


def _decimal(precision: int, scale: int) -> ColumnType:
    if not 1 <= precision <= MOST_DIGITS:
        hint = "Declare a wider number as string." if precision else ""
        raise Unfit(f"a decimal of 1 to {MOST_DIGITS} digits", hint)
    if scale > precision:
        raise Unfit("a decimal with no more digits after the point than it has")
    return ColumnType("decimal", precision, scale)


def _nearest(text: str) -> str:
    """Return a hint that names the type probably meant by a database's type or a misspelled type."""
    name, _, parameters = text.lower().replace(" ", "").partition("(")
    if name in ("numeric", "number", "decimal", "dec", "money"):
        digits = re.fullmatch(r"(\d+)(?:,(\d+))?\)", parameters)
        return f"Did you mean 'decimal({digits[1]},{digits[2] or 0})'?" if digits else "Say how wide: decimal(20,4)."
    if text.endswith("[]"):
        element = text[:-2].lower()
        near = _ALIASES.get(element, element)
        return f"Did you mean 'array<{near}>'?" if near in SPARK_TYPES else ""
    if name.startswith("timestamp") and "timezone" in text.lower().replace(" ", ""):
        return f"Did you mean {'timestamp' if 'without' in text.lower() else 'timestamptz'!r}?"
    if alias := _ALIASES.get(name) or _ALIASES.get(text.lower().replace(" ", "_")):
        return f"Did you mean {alias!r}?"
    return did_you_mean(text, SPARK_TYPES)
