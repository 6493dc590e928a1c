"""Values as canonical texts: equal values have one text, and different values have different ones.

A decimal is its digits without the point, in the declared scale; a number with a binary point is its bits, so that no
rounding hides a difference; times are microseconds since 1970, days are days; binary is hexadecimal. Texts are
themselves, and so are JSON, UUIDs and times of day, which land as the source prints them. The database writes the same
texts by itself (`txloom.current.equality.postgresql_texts`).
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from hashlib import sha256
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, Lists
from txloom.config.models.column_types import ColumnType
from txloom.current.row_hashes import joined, lists_of, measured

NULL = "~"
"""What stands for null: no length begins with it."""
HALF = 1 << 32
Form = Literal["padded", "json", "numeric", "double", "single"]
"""How a source's column writes equal values in several ways.

padded: texts with blanks at their end. json: other blanks and another order of names. numeric: not a number and the
infinities, which Debezium names otherwise than the database. double, single: numbers of 64 or 32 bits as texts.
"""
SPECIAL = {
    "nan": "NaN",
    "infinity": "Infinity",
    "positive_infinity": "Infinity",
    "-infinity": "-Infinity",
    "negative_infinity": "-Infinity",
}
"""What is not a finite number as PostgreSQL writes it, by its names in lower case."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EXACT = Context(prec=131_072 + 16_384)
"""PostgreSQL's numbers have no more digits."""


def canonical(values: AnyArray, declared: ColumnType, form: Form | None = None) -> AnyArray:
    """Return values as canonical texts; null stays null.

    Args:
        values: of a column with the declared type.
        declared: the type.
        form: how the source's column, or each element of its arrays, writes equal values in several ways; None: it
            writes each value in one way.
    """
    if declared.element is not None:
        return _arrays(values, declared.element, form)
    if declared.kind == "decimal":
        return _unscaled(values).cast(pa.string())
    if declared.kind in ("double", "float"):
        return _bits(values, np.dtype(np.int64 if declared.kind == "double" else np.int32))
    if declared.kind == "binary":
        return pa.array([None if each is None else each.hex() for each in values.to_pylist()], pa.string())
    if declared.kind == "boolean":
        return cast("AnyArray", pc.if_else(values, pa.scalar("t"), pa.scalar("f")))
    if declared.kind == "date":
        return values.cast(pa.int32()).cast(pa.string())
    if declared.kind in ("timestamp", "timestamptz"):
        return values.cast(pa.timestamp("us", getattr(values.type, "tz", None))).cast(pa.int64()).cast(pa.string())
    texts = values.cast(pa.string())
    if form == "padded":
        return pc.utf8_rtrim(texts, characters=" ")
    if form is None or declared.kind not in ("string", "json"):
        return texts
    return pa.array([None if each is None else formed(each, form) for each in texts.to_pylist()], pa.string())


def formed(text: str, form: Form) -> str:
    """Return the one text of all that mean the same in a form; a text that does not have the form stays as it is.

    >>> [formed(text, "numeric") for text in ("NAN", "NEGATIVE_INFINITY", "1.50")]
    ['NaN', '-Infinity', '1.50']
    >>> [formed(text, "double") for text in ("1.0E20", "100.0", "-0.0", "NaN", "x")]
    ['100000000000000000000', '100', '0', 'NaN', 'x']
    >>> formed("0.1", "single"), formed("0.10000000149011612", "single")
    ('0.1', '0.1')
    """
    if form == "padded":
        return text.rstrip(" ")
    if form == "json":
        return json_text(text)
    if (special := SPECIAL.get(text.lower())) is not None:
        return special
    if form == "numeric" or not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    if not np.isfinite(number):
        return text
    digits = format(Decimal(str(np.float32(number) if form == "single" else number)).normalize(_EXACT), "f")
    return "0" if digits == "-0" else digits


def readable(text: str | None, declared: ColumnType) -> str | None:
    """Return a canonical text as people write the value; arrays stay as they are.

    >>> readable("30001", ColumnType("decimal", 20, 4)), readable("-1", ColumnType("date"))
    ('3.0001', '1969-12-31')
    >>> readable("30001.5", ColumnType("decimal", 20, 4))  # of a source with more digits than are declared
    '3.00015'
    >>> readable("4609112532926033335", ColumnType("double")), readable("500000", ColumnType("timestamptz"))
    ('1.4285714285714286', '1970-01-01 00:00:00.500000+00:00')
    """
    if text is None or not _NUMBER.fullmatch(text):
        return text
    if declared.kind == "decimal":
        return format(Decimal(text).scaleb(-declared.scale, _EXACT), "f")
    if not text.lstrip("-").isdigit():
        return text
    kind, number = declared.kind, int(text)
    if kind in ("double", "float"):
        return str(
            np.array(number, np.int64 if kind == "double" else np.int32).view(f"f{8 if kind == 'double' else 4}")
        )
    try:
        if kind == "date":
            return (date(1970, 1, 1) + timedelta(number)).isoformat()
        if kind in ("timestamp", "timestamptz"):
            begin = datetime(1970, 1, 1, tzinfo=UTC if kind == "timestamptz" else None)
            return str(begin + timedelta(microseconds=number))
    except OverflowError:
        return text
    return text


def json_text(text: str) -> str:
    """Return the one text of all JSON that means the same; what is no JSON stays as it is.

    >>> json_text('{"b": 1.0, "a": "\u017e"}') == json_text('{"a":"ž","b":1}')
    True
    """
    try:
        value = json.loads(text, parse_float=_number)
    except ValueError:
        return text
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _number(digits: str) -> float | int:
    number = float(digits)
    return int(number) if number.is_integer() else number


def row_texts(columns: Sequence[AnyArray]) -> pa.BinaryArray:
    """Return one text for each row: every canonical text with its length in bytes before it, NULL for null.

    >>> row_texts([pa.array(["ab", None]), pa.array(["", "b"])]).to_pylist()
    [b'2:ab0:', b'~1:b']
    """
    return joined([_measured(column) for column in columns])


def digests(texts: pa.BinaryArray) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return a digest of each text: the first 64 bits of its SHA-256, as a signed integer.

    It finds differences that happen, not ones that somebody constructs.
    """
    rows = cast("list[bytes]", texts.to_pylist())
    first = b"".join([sha256(row).digest()[:8] for row in rows])
    return np.frombuffer(first, ">i8").astype(np.int64)


def total(some: "np.ndarray[Any, np.dtype[np.int64]]") -> int:
    """Return the exact sum of digests, which no order changes.

    >>> total(np.array([2**63 - 1, 2**63 - 1, -5], np.int64)) == 2**64 - 7
    True
    """
    return int((some >> 32).sum()) * HALF + int((some & (HALF - 1)).sum())


def _measured(texts: AnyArray) -> pa.BinaryArray:
    return measured(cast("pa.BinaryArray", texts.cast(pa.binary())), pa.scalar(NULL.encode()))


def _unscaled(values: AnyArray) -> AnyArray:
    """Return decimals without their point: the same digits with scale 0."""
    whole = pa.decimal128(values.type.precision, 0)
    return pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)


def _bits(values: AnyArray, kind: "np.dtype[Any]") -> AnyArray:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers).view(kind)
    texts = pa.array(bits).cast(pa.string())
    return cast("AnyArray", pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string())))


def _arrays(values: AnyArray, element: ColumnType, form: Form | None) -> AnyArray:
    """Return each list as the row text of its elements."""
    lists = cast("Lists", values)
    return lists_of(lists, _measured(canonical(lists.flatten(), element, form))).cast(pa.string())
