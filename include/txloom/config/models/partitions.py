"""The declared partitions of a current table: a column, or the year, month or day of one."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from txloom.config.models.column_types import KEYLESS
from txloom.config.models.fields import COLUMN
from txloom.config.problems import Unfit, nearest

UNITS = ("year", "month", "day")
MOMENTS = ("timestamp", "timestamptz")
DATED = ("date", *MOMENTS)
"""Kinds of columns that have a year, a month and a day; timestamptz as of UTC."""
UNFIT = (*KEYLESS, "decimal", "binary")
"""Kinds of columns that cannot be partitioned by; delta-rs names the partition of -0.5 `0.-5000`, which no reader
parses."""
TEXTS = ("string", "uuid", "time")
"""Kinds whose values are texts: in the name of a Delta partition an empty text would become null."""
EXPECTED = "a column, or the year, month or day of one, such as year(created)"
_EXPRESSION = re.compile(rf"(?:([A-Za-z]+)\(\s*({COLUMN})\s*\)|({COLUMN}))")


@dataclass(frozen=True)
class Partition:
    """One declared partition: a column, or a unit of one."""

    column: str
    unit: str | None = None

    def __str__(self) -> str:
        """Return the partition as it is declared."""
        return f"{self.unit}({self.column})" if self.unit else self.column

    def is_added(self, kind: str) -> bool:
        """Return whether a column that txloom adds names the partitions, because the declared one cannot.

        kind: the declared kind of the column.
        """
        return self.unit is not None or kind in TEXTS

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema by which pydantic parses the partition from text."""
        return core_schema.no_info_plain_validator_function(parse_partition)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema of a declared partition, for editors."""
        pattern = rf"^(({'|'.join(UNITS)})\( *{COLUMN} *\)|{COLUMN})$|\$\{{"
        return {"type": "string", "pattern": pattern, "examples": ["region", "year(created)"]}


def parse_partition(declared: Any) -> Partition:
    """Parse a declared partition; raises Unfit for anything else.

    >>> parse_partition("year( created )"), str(parse_partition("month(created)"))
    (Partition(column='created', unit='year'), 'month(created)')
    """
    if isinstance(declared, Partition):
        return declared
    match = _EXPRESSION.fullmatch(declared.strip()) if isinstance(declared, str) else None
    if match is None:
        raise Unfit(EXPECTED)
    unit, inside, column = match.groups()
    if unit is not None and unit not in UNITS:
        near = nearest(unit, UNITS)
        raise Unfit(EXPECTED, f"Did you mean '{near}({inside})'?" if near else "")
    return Partition(column or inside, unit)
