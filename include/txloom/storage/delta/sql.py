"""Names and values as SQL writes them: for DataFusion (delta-rs), and where a function says so for Spark.

A literal without a type is read as the engine likes: a decimal as a double, a timestamp as nanoseconds, which end in
1677 and 2262. Then rows are not found, and nobody is told. So a value of a column is written with its type (`literal`),
and a number, a text or a moment of txloom's own tables by its own function.

Spark has other rules than DataFusion: it quotes names with backticks, and in its texts a backslash escapes. What it
reads is written by `spark_name` and `spark_literal`, and by nothing else.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT_DIGITS = 15
"""Decimals of more digits may change as doubles; delta-rs writes the bounds of a file's decimals as doubles."""


def literal(value: Any, kind: pa.DataType | None = None) -> str:
    """Write a value of a column's Arrow type; a value of an array is an array. kind: None: as Arrow takes it.

    >>> print(literal(7), literal("it's"), literal(b"a'", pa.binary()))
    7 'it''s' X'6127'
    >>> from decimal import Decimal
    >>> literal(Decimal("-0.50"), pa.decimal128(38, 10)), literal(0.1, pa.float32())
    ("cast('-0.50' as decimal(38,10))", "arrow_cast('0.1', 'Float32')")
    >>> literal(datetime(9999, 12, 31), pa.timestamp("us"))
    "arrow_cast(253402214400000000, 'Timestamp(Microsecond, None)')"
    """
    if value is None:
        return "null"
    if kind is None:
        kind = pa.scalar(value).type
    if pa.types.is_list(kind):
        return f"make_array({', '.join(literal(each, kind.value_type) for each in value)})"
    if pa.types.is_decimal(kind):
        return f"cast('{value:f}' as decimal({kind.precision},{kind.scale}))"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return f"arrow_cast({epoch_micros(at)}, 'Timestamp(Microsecond, {zone})')"
    if pa.types.is_floating(kind):
        return f"arrow_cast('{value!r}', '{'Float32' if kind == pa.float32() else 'Float64'}')"
    if pa.types.is_date(kind):
        return f"date '{value.isoformat()}'"
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return str(value).lower()
    return f"X'{bytes(value).hex()}'" if pa.types.is_binary(kind) else text_literal(str(value))


def among(column: str, values: Iterable[Any], kind: pa.DataType) -> str:
    """Write the condition that a column, named as SQL does, holds one of some values; null is none.

    Wide decimals are compared as text: files that an older version wrote have bounds that are not theirs.

    >>> print(among('"id"', [2, None], pa.int64()), among('"id"', [None], pa.int64()))
    "id" in (2) false
    """
    there = [value for value in values if value is not None]
    if not there:
        return "false"
    if pa.types.is_decimal(kind) and not has_exact_bounds(kind):
        return f"cast({column} as varchar) in ({text_list(f'{value:.{kind.scale}f}' for value in there)})"
    return f"{column} in ({', '.join(literal(value, kind) for value in there)})"


def has_exact_bounds(kind: pa.DataType) -> bool:
    """Say whether the bounds that delta-rs writes for a file's values of a type are those values."""
    return not (pa.types.is_decimal(kind) and kind.precision > EXACT_DIGITS)


def text_literal(text: str) -> str:
    """Write a text.

    Conditions of expectations write theirs by the same rule (`txloom.quality.conditions`), which knows no storage.

    >>> print(text_literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def text_list(values: Iterable[str]) -> str:
    """Write texts as the list of an `in`.

    >>> print(text_list(["b", "a", "it's"]))
    'b', 'a', 'it''s'
    """
    return ", ".join(map(text_literal, values))


def int_list(values: Sequence[int]) -> str:
    """Write whole numbers as the list of an `in`: in order, each once.

    >>> int_list([2, 1, 2])
    '1, 2'
    """
    return ", ".join(str(value) for value in sorted(set(values)))


def instant_literal(at: datetime) -> str:
    """Write a moment, in the very type of txloom's columns: a delete by delta-rs compares no other.

    >>> print(instant_literal(datetime(1970, 1, 1, 0, 0, 2, 5, tzinfo=UTC)))
    arrow_cast(2000005, 'Timestamp(Microsecond, Some("UTC"))')
    """
    return f"arrow_cast({epoch_micros(at)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def epoch_micros(at: datetime) -> int:
    """Return a moment in microseconds since 1970; one without a zone is in this machine's.

    >>> epoch_micros(datetime.fromisoformat("1970-01-01T01:00:02.000005+01:00"))
    2000005
    """
    return (at.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def sql_name(name: str) -> str:
    """Quote the name of a column.

    >>> print(sql_name("order"))
    "order"
    """
    return '"' + name.replace('"', '""') + '"'


def spark_name(name: str) -> str:
    """Quote the name of a column, for Spark.

    >>> spark_name("order")
    '`order`'
    """
    return "`" + name.replace("`", "``") + "`"


def spark_literal(value: Any) -> str:
    r"""Write a number, text or day, for Spark.

    >>> print(spark_literal(7), spark_literal("it's \\ it"), spark_literal(date(1, 1, 1)))
    7 'it\'s \\ it' DATE'0001-01-01'
    """
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"DATE'{text}'" if isinstance(value, date) else f"'{text}'"
