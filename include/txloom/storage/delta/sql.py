"""Values as SQL writes them, in the very type of their column: for DataFusion (delta-rs) and for Spark.

A literal without a type is read as the engine likes: a decimal as a double, a timestamp as nanoseconds, which end in
1677 and 2262. Then rows are not found, and nobody is told.
"""

from collections.abc import Iterable
from datetime import UTC, date
from typing import Any

import pyarrow as pa

from txloom.storage.delta.arrow_tables import micros, quoted, texts

EXACT_DIGITS = 15
"""Decimals of more digits may change as doubles; delta-rs writes the bounds of a file's decimals as doubles."""


def literal(value: Any, kind: pa.DataType) -> str:
    """Write a value of a column's Arrow type as DataFusion's SQL does; a value of an array is an array.

    >>> print(literal(7, pa.int64()), literal("it's", pa.string()), literal(b"a'", pa.binary()))
    7 'it''s' X'6127'
    >>> from decimal import Decimal
    >>> literal(Decimal("-0.50"), pa.decimal128(38, 10)), literal(0.1, pa.float32())
    ("cast('-0.50' as decimal(38,10))", "arrow_cast('0.1', 'Float32')")
    >>> from datetime import datetime
    >>> literal(datetime(9999, 12, 31), pa.timestamp("us"))
    "arrow_cast(253402214400000000, 'Timestamp(Microsecond, None)')"
    """
    if value is None:
        return "null"
    if pa.types.is_list(kind):
        return f"make_array({', '.join(literal(each, kind.value_type) for each in value)})"
    if pa.types.is_decimal(kind):
        return f"cast('{value:f}' as decimal({kind.precision},{kind.scale}))"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return f"arrow_cast({micros(at)}, 'Timestamp(Microsecond, {zone})')"
    if pa.types.is_floating(kind):
        return f"arrow_cast('{value!r}', '{'Float32' if kind == pa.float32() else 'Float64'}')"
    if pa.types.is_date(kind):
        return f"date '{value.isoformat()}'"
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return str(value).lower()
    return f"X'{bytes(value).hex()}'" if pa.types.is_binary(kind) else quoted(str(value))


def among(column: str, values: Iterable[Any], kind: pa.DataType) -> str:
    """Write DataFusion's condition that a column, named as SQL does, holds one of some values; null is none.

    Wide decimals are compared as text: files that an older version wrote have bounds that are not theirs.

    >>> print(among('"id"', [2, None], pa.int64()), among('"id"', [None], pa.int64()))
    "id" in (2) false
    """
    there = [value for value in values if value is not None]
    if not there:
        return "false"
    if not has_exact_bounds(kind):
        return f"cast({column} as varchar) in ({texts(f'{value:.{kind.scale}f}' for value in there)})"
    return f"{column} in ({', '.join(literal(value, kind) for value in there)})"


def has_exact_bounds(kind: pa.DataType) -> bool:
    """Say whether the bounds that delta-rs writes for a file's values of a type are those values."""
    return not (pa.types.is_decimal(kind) and kind.precision > EXACT_DIGITS)


def spark_literal(value: Any) -> str:
    r"""Write a number, text or day as Spark's SQL does.

    >>> print(spark_literal(7), spark_literal("it's \\ it"), spark_literal(date(1, 1, 1)))
    7 'it\'s \\ it' DATE'0001-01-01'
    """
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"DATE'{text}'" if isinstance(value, date) else f"'{text}'"
