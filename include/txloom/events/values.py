"""Values as text -> declared types, one at a time: exact, or a ValueError or the like."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from txloom.config.types import ColumnType
from txloom.events.text import array_elements, read_date, read_time, read_uuid

_ARROW = {
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
    """Return the Arrow type of a declared one."""
    if declared.element is not None:
        return pa.list_(arrow_type(declared.element))
    if declared.kind == "decimal":
        return pa.decimal128(declared.precision, declared.scale)
    return _ARROW.get(declared.kind, pa.string())


def reader(declared: ColumnType) -> Callable[[Any], Any]:
    """Return the function that reads a value's text as a declared type; it raises ValueError or the like.

    >>> from txloom.config.types import parse
    >>> reader(parse("decimal(5,2)"))("1.5")
    Decimal('1.50')
    """
    if declared.element is not None:
        return partial(_read_array, reader(declared.element))
    if declared.kind == "decimal":
        return partial(_read_decimal, declared.precision, declared.scale)
    if declared.kind in _BITS:
        return partial(_read_integer, _BITS[declared.kind])
    return _READERS.get(declared.kind, str)


def _read_array(read: Callable[[Any], Any], value: Any) -> list[Any]:
    elements = array_elements(value) if isinstance(value, str) else value
    return [None if element is None else read(element) for element in elements]


def _read_integer(bits: int, text: str) -> int:
    number = Decimal(text)
    if number != number.to_integral_value() or not -(2**bits) <= number < 2**bits:
        raise ValueError(text)
    return int(number)


def _read_decimal(precision: int, scale: int, text: str) -> Decimal:
    """Read a decimal exactly: more digits than declared, before or after the point, are refused."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + scale
    whole = int("".join(map(str, digits)))
    if shift < 0:
        whole, rest = divmod(whole, 10**-shift)
        if rest:
            raise ValueError(text)
    elif whole:
        if len(digits) + shift > precision:
            raise ValueError(text)
        whole *= 10**shift
    if whole >= 10**precision:
        raise ValueError(text)
    return Decimal((sign, tuple(map(int, str(whole))), -scale))


def _read_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError as error:
        raise ValueError(text) from error


def _read_instant(text: str) -> datetime:
    found = read_time_of_day(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _read_local(text: str) -> datetime:
    found = read_time_of_day(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return found


def read_time_of_day(text: str) -> datetime:
    """Read a date with a time; Oracle's `YYYY-MM-DD:HH:MM:SS` too."""
    if len(text) > 10 and text[10] == ":":
        text = f"{text[:10]} {text[11:]}"
    return datetime.fromisoformat(text)


def _read_binary(text: str) -> bytes:
    return bytes.fromhex(text[2:] if text[:2] in ("\\x", "0x", "0X") else text)


def _read_day(text: str) -> date:
    return read_date(text)


_READERS: dict[str, Callable[[Any], Any]] = {
    "double": float,
    "float": float,
    "boolean": _read_boolean,
    "date": _read_day,
    "timestamp": _read_local,
    "timestamptz": _read_instant,
    "binary": _read_binary,
    "time": read_time,
    "uuid": read_uuid,
}
