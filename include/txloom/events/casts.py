"""Whole columns of values, as sources write them, -> declared types, by Arrow's own casts.

A cast either gives what `txloom.events.values` gives for every value, or refuses the column: then its values are read
one at a time.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.types import ColumnType
from txloom.events.text import INSTANT, read_instants, read_timestamps
from txloom.events.values import arrow_type

UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
TIME = r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
INTEGER = r"^-?\d+$"


def read_column(declared: ColumnType, values: Sequence[Any]) -> pa.Array:
    """Read values (text, JSON scalars, None) as a declared type; raises ArrowInvalid when one is not plainly of it."""
    kind = arrow_type(declared)
    try:
        texts = pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        texts = _texts(declared, values)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    return _CASTS.get(declared.kind if declared.element is None else "array", _refuse)(texts, kind)


def _texts(declared: ColumnType, values: Sequence[Any]) -> pa.Array:
    """Return JSON scalars as text: numbers of decimals come as Decimal, so that each digit is there."""
    if declared.kind == "boolean":
        return pa.array([None if v is None else str(v).lower() for v in values], pa.string())
    if declared.kind == "decimal" and any(isinstance(v, Decimal) and not v.is_finite() for v in values):
        raise pa.ArrowInvalid("not a number")
    return pa.array([None if v is None else str(v) for v in values], pa.string())


def _refuse(_texts: pa.Array, kind: pa.DataType) -> pa.Array:
    raise pa.ArrowInvalid(f"no cast to {kind} for all values at once")


def _matching(pattern: str) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    def cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
        if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            raise pa.ArrowInvalid(f"not all of {pattern}")
        return texts.cast(kind)

    return cast


def _as_it_came(texts: pa.Array, _kind: pa.DataType) -> pa.Array:
    return texts


def _plain(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return texts.cast(kind)


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        return _matching(INTEGER)(texts, kind)
    return texts.cast(kind)


def _singles(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return texts.cast(pa.float64()).cast(kind)


def _dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    found = texts.cast(kind)
    read_timestamps(texts)
    return found


def _timestamps(texts: pa.Array, _kind: pa.DataType) -> pa.Array:
    return read_timestamps(texts)


def _instants(texts: pa.Array, _kind: pa.DataType) -> pa.Array:
    try:
        return read_instants(texts)
    except pa.ArrowInvalid:
        return read_timestamps(texts, INSTANT)


_CASTS: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "string": _as_it_came,
    "json": _as_it_came,
    "long": _integers,
    "int": _integers,
    "decimal": _plain,
    "double": _plain,
    "float": _singles,
    "boolean": _plain,
    "date": _dates,
    "timestamp": _timestamps,
    "timestamptz": _instants,
    "uuid": _matching(UUID),
    "time": _matching(TIME),
}
