"""Names and values as SQL writes them: for DataFusion (delta-rs), and where a function says so for Spark.

DataFusion reads a literal without a type as a type of its choice: a decimal as a double, a timestamp as nanoseconds,
which span 1677 to 2262. A comparison then misses rows without an error. So a value of a declared column is written with
its type (`literal`); integers, texts and times of txloom's system tables have a function each.

Spark has other rules than DataFusion: it quotes names with backticks, and in its texts a backslash escapes. SQL for
Spark is written by `spark_name` and `spark_literal`, and by nothing else.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = [f"arrow_cast({1 - (1 << 63)}, 'Timestamp(Microsecond, {zone})')" for zone in ('Some("UTC")', "None")]
"""A time, with and without a zone, that no column holds."""
MOST_LISTED = 5_000
"""Values that an `in` lists. delta-rs calls itself for each of them, and some 20,000 overflow its stack: the process
ends without a word. A query in their place becomes a join, which finds no file by its bounds but takes any number.
"""
MOST_RANGES = 16
"""Ranges of `near`."""
EXACT_DIGITS = 15
"""Decimals of more digits may change as doubles; delta-rs writes the bounds of a file's decimals as doubles."""


def literal(value: Any, kind: pa.DataType | None = None) -> str:
    """Write a value of a column as SQL, with its type; a list as an array, None as null.

    kind: the column's Arrow type; None: the one that Arrow infers of the value.

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
    """Write the condition that a column holds one of some values; None among them matches nothing.

    Wide decimals are compared as text, because files of an older version have bounds of them that are not exact. Times
    are compared behind a function, which hides them from the bounds: those that Spark and delta-rs write end at the
    millisecond, so that DataFusion leaves out a file with the row, or takes the bound for its value.

    Args:
        column: as SQL names it.
        values: of the column.
        kind: the column's Arrow type.

    >>> print(among('"id"', [2, None], pa.int64()), among('"id"', [None], pa.int64()))
    "id" in (2) false
    """
    known = [value for value in values if value is not None]
    if not known:
        return "false"
    if pa.types.is_decimal(kind) and not has_exact_bounds(kind):
        return f"cast({column} as varchar) in ({text_list(f'{value:.{kind.scale}f}' for value in known)})"
    compared = f"coalesce({column}, {_NEVER[kind.tz is None]})" if pa.types.is_timestamp(kind) else column
    return f"{compared} in ({_listed([literal(value, kind) for value in known])})"


def has_exact_bounds(kind: pa.DataType) -> bool:
    """Return whether the bounds that delta-rs writes of a file's values of a type are exact."""
    return not (pa.types.is_decimal(kind) and kind.precision > EXACT_DIGITS)


def text_literal(text: str) -> str:
    """Write a text as SQL.

    `txloom.quality.conditions`, which does not import storage, writes texts by the same rule.

    >>> print(text_literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def text_list(values: Iterable[str]) -> str:
    """Write texts as the list of an `in` in a query; "" for none.

    >>> print(text_list(["b", "a", "it's"]))
    'b', 'a', 'it''s'
    """
    return _listed([text_literal(value) for value in values])


def int_list(values: Sequence[int]) -> str:
    """Write integers as the list of an `in` in a query: in order, each once.

    >>> int_list([2, 1, 2])
    '1, 2'
    """
    return _listed([str(value) for value in sorted(set(values))])


def near(column: str, values: Iterable[int], most: int = MOST_RANGES) -> str:
    """Write a condition on a column of integers that holds for some values, and for few between them: ranges.

    Unlike a long list, ranges let a query leave out files by their bounds. most: how many ranges there may be; they are
    parted where the gaps are widest. None of the values is null.

    >>> near("csn", [7, 1, 2, 900, 905], most=2)
    '(csn between 1 and 7 or csn between 900 and 905)'
    >>> near("csn", [])
    'false'
    """
    ordered = sorted(set(values))
    if not ordered:
        return "false"
    gaps = sorted(range(1, len(ordered)), key=lambda place: ordered[place - 1] - ordered[place])[: most - 1]
    starts = [0, *sorted(gaps)]
    ends = [*(start - 1 for start in starts[1:]), len(ordered) - 1]
    ranges = [(ordered[start], ordered[end]) for start, end in zip(starts, ends, strict=True)]
    return f"({' or '.join(f'{column} between {low} and {high}' for low, high in ranges)})"


def _listed(literals: Sequence[str]) -> str:
    """Write what stands between the parentheses of an `in`: a list, or a query of many values."""
    if len(literals) <= MOST_LISTED:
        return ", ".join(literals)
    return f"select column1 from (values ({'), ('.join(literals)})) as listed"


def instant_literal(at: datetime) -> str:
    """Write a time as SQL, in the type of txloom's columns (microseconds, UTC): delta-rs' delete compares no other.

    >>> print(instant_literal(datetime(1970, 1, 1, 0, 0, 2, 5, tzinfo=UTC)))
    arrow_cast(2000005, 'Timestamp(Microsecond, Some("UTC"))')
    """
    return f"arrow_cast({epoch_micros(at)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def epoch_micros(at: datetime) -> int:
    """Return a time in microseconds since 1970; one without a zone is taken as this machine's local time.

    >>> epoch_micros(datetime.fromisoformat("1970-01-01T01:00:02.000005+01:00"))
    2000005
    """
    return (at.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def sql_name(name: str) -> str:
    """Quote a name for DataFusion, or for PostgreSQL.

    >>> print(sql_name("order"))
    "order"
    """
    return '"' + name.replace('"', '""') + '"'


def spark_name(name: str) -> str:
    """Quote the name of a column for Spark.

    >>> spark_name("order")
    '`order`'
    """
    return "`" + name.replace("`", "``") + "`"


def spark_literal(value: Any) -> str:
    r"""Write an integer, text or date as Spark's SQL.

    >>> print(spark_literal(7), spark_literal("it's \\ it"), spark_literal(date(1, 1, 1)))
    7 'it\'s \\ it' DATE'0001-01-01'
    """
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"DATE'{text}'" if isinstance(value, date) else f"'{text}'"
