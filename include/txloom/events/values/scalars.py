"""Read values from text as declared types, one at a time: exactly, or with a ValueError or the like.

`txloom.events.values.columns` reads whole columns to the same values; columns that it refuses are read here.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from txloom.config.models.column_types import ColumnType
from txloom.events.values.numbers import read_decimal, read_double, read_integer, read_single
from txloom.events.values.text import array_elements, read_binary, read_date, read_time, read_timestamp, read_uuid

_ARROW: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
_BITS = {"long": 63, "int": 31}
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def arrow_type(declared: ColumnType) -> pa.DataType:
    """Return the Arrow type of a declared type."""
    if declared.element is not None:
        return pa.list_(arrow_type(declared.element))
    if declared.kind == "decimal":
        return pa.decimal128(declared.precision, declared.scale)
    return _ARROW.get(declared.kind, pa.string())


def reader(declared: ColumnType) -> Callable[[Any], Any]:
    """Return the function that reads a value's text as a declared type; it raises ValueError or the like.

    >>> from txloom.config.models.column_types import parse
    >>> reader(parse("decimal(5,2)"))("1.5")
    Decimal('1.50')
    """
    if declared.element is not None:
        return partial(_read_array, reader(declared.element))
    if declared.kind == "decimal":
        return partial(read_decimal, declared.precision, declared.scale)
    if declared.kind in _BITS:
        return partial(read_integer, _BITS[declared.kind])
    return _READERS.get(declared.kind, str)


def _read_array(read: Callable[[Any], Any], value: Any) -> list[Any]:
    elements = array_elements(value) if isinstance(value, str) else value
    return [None if element is None else read(element) for element in elements]


def _read_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError as error:
        raise ValueError(text) from error


def _read_instant(text: str) -> datetime:
    time = read_timestamp(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _read_local(text: str) -> datetime:
    time = read_timestamp(text)
    if time.tzinfo is not None:
        raise ValueError(text)
    return time


_READERS: dict[str, Callable[[Any], Any]] = {
    "double": read_double,
    "float": read_single,
    "boolean": _read_boolean,
    "date": read_date,
    "timestamp": _read_local,
    "timestamptz": _read_instant,
    "binary": read_binary,
    "time": read_time,
    "uuid": read_uuid,
}
