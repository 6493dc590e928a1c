"""Read whole columns of values, as sources write them, as declared types, by Arrow's casts.

A cast either gives the result of `txloom.events.values.scalars` for every value, or refuses the column; then its values
are read one at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, Decimals
from txloom.config.models.column_types import MOST_DIGITS, ColumnType
from txloom.events.values.scalars import arrow_type
from txloom.events.values.text import INSTANT, read_instants, read_timestamps

UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
TIME = r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
INTEGER = r"^-?\d+$"
DOUBLE = r"^-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?$"
ZERO = r"^-?[0.]+([eE]|$)"


def read_column(declared: ColumnType, values: Sequence[Any]) -> AnyArray:
    """Read values (text, JSON scalars, None) as a declared type.

    Raises:
        ArrowInvalid: A value is not certainly of the type; the column must be read one value at a time.
    """
    kind = arrow_type(declared)
    try:
        texts = pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        texts = _texts(declared, values)
    if texts.null_count == len(texts):
        # pyarrow takes any type here, the stubs only known ones.
        nulls: AnyArray = pa.nulls(len(texts), kind)  # type: ignore[call-overload]
        return nulls
    return _CASTS.get(declared.kind if declared.element is None else "array", _refuse)(texts, kind)


def _texts(declared: ColumnType, values: Sequence[Any]) -> pa.StringArray:
    """Return JSON scalars as text: integers and booleans; other numbers come as text already."""
    if declared.kind == "boolean":
        return pa.array([None if v is None else str(v).lower() for v in values], pa.string())
    return pa.array([None if v is None else str(v) for v in values], pa.string())


def _refuse(_texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    raise pa.ArrowInvalid(f"no cast to {kind} for all values at once")


def _times(texts: pa.StringArray, _kind: pa.DataType) -> AnyArray:
    return pc.replace_substring_regex(_matching(texts, TIME), r"\.0*$|(\.\d*[1-9])0+$", r"\1")


def _uuids(texts: pa.StringArray, _kind: pa.DataType) -> AnyArray:
    return pc.ascii_lower(_matching(texts, UUID))


def _matching(texts: pa.StringArray, pattern: str) -> pa.StringArray:
    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
        raise pa.ArrowInvalid(f"not all of {pattern}")
    return texts


def _as_it_came(texts: pa.StringArray, _kind: pa.DataType) -> AnyArray:
    return texts


def _booleans(texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    return texts.cast(kind)


def _integers(texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        return _matching(texts, INTEGER).cast(kind)
    return texts.cast(kind)


def _decimals(texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    """Cast plain numbers that certainly fit.

    Arrow turns numbers that are too small into zero, gives wrong numbers on overflow, and crashes on a huge exponent.
    """
    decimal = cast("Decimals", kind)
    whole = f"[0-9]{{1,{decimal.precision - decimal.scale}}}" if decimal.precision > decimal.scale else "0"
    point = rf"(\.[0-9]{{0,{decimal.scale}}}0{{0,{MOST_DIGITS - decimal.precision}}})?"
    return _matching(texts, rf"^-?{whole}{point}$").cast(kind)


def _doubles(texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    """Cast numbers; raises ArrowInvalid if one becomes infinite, or zero although it is not."""
    doubles = _matching(texts, DOUBLE).cast(pa.float64()).cast(kind)
    zeros = texts.filter(cast("pa.BooleanArray", pc.equal(doubles, pa.scalar(0)).fill_null(False)))
    if pc.any(pc.is_inf(doubles)).as_py() or not pc.all(pc.match_substring_regex(zeros, ZERO), min_count=0).as_py():
        raise pa.ArrowInvalid("a number beyond all doubles, or too small for one")
    return doubles


def _dates(texts: pa.StringArray, kind: pa.DataType) -> AnyArray:
    dates = texts.cast(kind)
    read_timestamps(texts)
    return dates


def _timestamps(texts: pa.StringArray, _kind: pa.DataType) -> AnyArray:
    return read_timestamps(texts)


def _instants(texts: pa.StringArray, _kind: pa.DataType) -> AnyArray:
    try:
        return read_instants(texts)
    except pa.ArrowInvalid:
        return read_timestamps(texts, INSTANT)


_CASTS: dict[str, Callable[[pa.StringArray, pa.DataType], AnyArray]] = {
    "string": _as_it_came,
    "json": _as_it_came,
    "long": _integers,
    "int": _integers,
    "decimal": _decimals,
    "double": _doubles,
    "float": _doubles,
    "boolean": _booleans,
    "date": _dates,
    "timestamp": _timestamps,
    "timestamptz": _instants,
    "uuid": _uuids,
    "time": _times,
}
