"""Declared column types: what a column may hold, and what that is in Spark."""

import re
from dataclasses import dataclass

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
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_ARRAY = re.compile(r"array<\s*(.+?)\s*>")


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
        return f"array<{self.element}>" if self.element is not None else self.spark if self.kind == "decimal" else self.kind


def parse(text: str) -> ColumnType:
    """Parse a declared type.

    >>> str(parse("array<decimal(20,4)>"))
    'array<decimal(20,4)>'
    """
    text = text.strip()
    if found := _ARRAY.fullmatch(text):
        element = parse(found[1])
        if element.kind in ("array", "json", "binary"):
            raise ValueError(f"an array of {element} is not supported")
        return ColumnType("array", element=element)
    if found := _DECIMAL.fullmatch(text):
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError("a decimal has 1 to 38 digits and no more of them after the point")
        return ColumnType("decimal", precision, scale)
    if text not in SPARK_TYPES:
        raise ValueError(f"{text!r} is not a type")
    return ColumnType(text)
