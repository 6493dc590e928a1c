"""Convert values as Debezium writes them to values that `txloom.events.images.reader` reads, without losing a digit.

With a schema around the message, its names decide what a number or a text is. Without one the declared type and the
options decide: the unit of time that the connector counts in (`txloom.events.debezium.units`) and how it writes bytes
(binary.handling.mode). A number in a time column whose unit is unknown is not read.

A value that cannot be read becomes a text that its type does not take: a problem of its row, never another value.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Literal, NamedTuple

import msgspec
from msgspec import Raw

from txloom.config.models.column_types import ColumnType
from txloom.events.debezium.units import MICROS, MILLIS, NANOS, Units

BinaryMode = Literal["base64", "hex"]
Convert = Callable[[bytes], bytes]
"""A function from a value's JSON to JSON that its declared type reads."""

_TIME, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DAYS = (f"{_TIME}Date", f"{_CONNECT}Date")
_TIMESTAMPS = {
    f"{_TIME}Timestamp": MILLIS,
    f"{_CONNECT}Timestamp": MILLIS,
    f"{_TIME}MicroTimestamp": MICROS,
    f"{_TIME}NanoTimestamp": NANOS,
}
_TIMES = {
    f"{_TIME}Time": MILLIS,
    f"{_CONNECT}Time": MILLIS,
    f"{_TIME}MicroTime": MICROS,
    f"{_TIME}NanoTime": NANOS,
}
_DECIMAL, _BITS = f"{_CONNECT}Decimal", "io.debezium.data.Bits"
_WITHOUT_ZONE = ("date", "time", "timestamp")
_TEMPORAL = (*_WITHOUT_ZONE, "timestamptz")
_NUMERIC = ("decimal", "long", "int", "double", "float")
_INTEGER = re.compile(rb"-?[0-9]{1,40}")
_DAY_0 = date(1970, 1, 1).toordinal()
_URL_SAFE = str.maketrans("-_", "+/")
UNKNOWN_UNIT = "its unit is unknown: set source.debezium.database and source.debezium.time_precision_mode"
_SURE = "let messages have schemas, set time.precision.mode=connect, or set source.debezium.time_unit"
COARSER, FINER = (f"it may count a {other} unit: {_SURE}" for other in ("coarser", "finer"))
NEAR_1970, NEAR_TIME, FAR = 4_100_000, 86, 4_100_000_000
"""Seconds: milliseconds of any day up to 2099 are microseconds of less than the first, as those of any time of day are
of the second; microseconds of any day beyond the first are milliseconds of more than the third."""
LAST_DAY = 253_402_214_400
"""When 9999-12-31 begins, in seconds since 1970; many applications store that day for `never`."""
_MOST_BITS = 2**13
"""A longer length most likely means varbit without a limit, whose length is unknown."""
_MOST_BYTES = 1000
"""More bytes than any declared decimal needs."""


class Modes(NamedTuple):
    """How a connector writes values, for messages without a schema."""

    units: Units | None = None
    binary_mode: BinaryMode = "base64"


class Field(msgspec.Struct):
    """A part of a Kafka Connect schema."""

    type: str = ""
    field: str | None = None
    name: str | None = None
    parameters: dict[str, str] | None = None
    items: "Field | None" = None
    fields: "list[Field] | None" = None


def converter(declared: ColumnType | None, field: Field | None, modes: Modes) -> Convert | None:
    """Return the conversion of a column's values other than null; None where they are taken as they came.

    declared: None for an undeclared column. field: its part of the schema, if there is one.
    """
    if declared is not None and declared.element is not None:
        element = converter(declared.element, field.items if field else None, modes)
        return None if element is None else partial(_array, element)
    kind = "string" if declared is None else declared.kind
    return (_by_schema(kind, field) if field else None) or _by_type(kind, field, modes)


def _by_schema(kind: str, field: Field) -> Convert | None:
    name = field.name or ""
    if name == _DECIMAL and kind != "binary":
        return partial(_decimal, _parameter(field, "scale"))
    if name == _BITS and kind != "binary":
        return partial(_bits, _parameter(field, "length"), kind)
    if kind not in _TEMPORAL:
        return None
    if name in _DAYS:
        return _date
    if name in _TIMESTAMPS:
        return partial(_timestamp, _TIMESTAMPS[name], kind)
    return partial(_time, _TIMES[name]) if name in _TIMES else None


def _parameter(field: Field, name: str) -> int | None:
    text = (field.parameters or {}).get(name, "")
    return int(text) if _INTEGER.fullmatch(text.encode()) else None


def _by_type(kind: str, field: Field | None, modes: Modes) -> Convert | None:
    if kind == "date":
        return _date
    if kind == "binary":
        return None if modes.binary_mode == "hex" and not (field and field.type == "bytes") else _binary
    if kind in _NUMERIC:
        return _variable_scale
    if kind not in _TEMPORAL or (field and (field.name or "").startswith(f"{_TIME}Zoned")):
        return None
    if modes.units is None:
        return partial(_of_unknown_unit, kind, UNKNOWN_UNIT)
    unit = modes.units.time if kind == "time" else modes.units.timestamp
    convert = partial(_time, unit) if kind == "time" else partial(_timestamp, unit, kind)
    return partial(_unless_other, kind, modes.units, unit, convert)


def _of_unknown_unit(kind: str, why: str, raw: bytes) -> bytes:
    """Return text as it came; a number cannot be read while its unit is unknown."""
    return _unreadable(raw, why) if _INTEGER.fullmatch(raw) else _text(raw, kind)


def _unless_other(kind: str, units: Units, unit: int, convert: Convert, raw: bytes) -> bytes:
    """Convert a number, unless it more likely counts another unit than a column of its database does by default.

    A column with fewer digits of a second counts a coarser unit, so that a moment of today would be read as one of
    January 1970; a column with more digits counts a finer unit, so that it would be read as one of the far future. The
    last day of the year 9999 is taken as such.
    """
    number = abs(int(raw)) if _INTEGER.fullmatch(raw) else 0
    near = (NEAR_TIME if kind == "time" else NEAR_1970) * unit
    if kind in units.coarser and 0 < number < near:
        return _unreadable(raw, COARSER)
    if (
        units.finer
        and kind != "time"
        and FAR * unit < number
        and not LAST_DAY * unit <= int(raw) < (LAST_DAY + 86400) * unit
    ):
        return _unreadable(raw, FINER)
    return convert(raw)


def _array(convert: Convert, raw: bytes) -> bytes:
    if raw[:1] != b"[":
        return raw
    elements = (bytes(element) for element in msgspec.json.decode(raw, type=list[Raw]))
    return b"[" + b",".join(each if each == b"null" else convert(each) for each in elements) + b"]"


def _date(raw: bytes) -> bytes:
    """Convert days since 1970.

    >>> _date(b"-1"), _date(b'"2023-11-21Z"')
    (b'"1969-12-31"', b'"2023-11-21"')
    """
    if _INTEGER.fullmatch(raw) is None:
        return _text(raw, "date")
    day = int(raw) + _DAY_0
    if not 1 <= day <= date.max.toordinal():
        return _unreadable(raw, "days since 1970")
    return f'"{date.fromordinal(day)}"'.encode()


def _timestamp(per_second: int, kind: str, raw: bytes) -> bytes:
    """Convert a number since 1970; a timestamptz is an instant, so that it gets a zone.

    >>> _timestamp(MICROS, "timestamp", b"-1"), _timestamp(MILLIS, "timestamptz", b"1500")
    (b'"1969-12-31 23:59:59.999999"', b'"1970-01-01 00:00:01.500000+00:00"')
    >>> _timestamp(NANOS, "timestamp", b"-1"), _timestamp(NANOS, "timestamp", b"100")
    (b'"1969-12-31 23:59:59.999999999"', b'"1970-01-01 00:00:00.0000001"')
    """
    if _INTEGER.fullmatch(raw) is None:
        return _text(raw, kind)
    seconds, part = divmod(int(raw), per_second)
    day, second = divmod(seconds, 86400)
    if not 1 <= day + _DAY_0 <= date.max.toordinal():
        return _unreadable(raw, f"{per_second} to a second since 1970")
    digits = _fraction(part, per_second)
    digits = digits[:6].ljust(6, "0") + digits[6:].rstrip("0")
    zone = "+00:00" if kind == "timestamptz" else ""
    return f'"{date.fromordinal(day + _DAY_0)} {_clock(second)}.{digits}{zone}"'.encode()


def _time(per_second: int, raw: bytes) -> bytes:
    """Convert a time of day to the text that the source prints, without trailing zeros of a second.

    >>> _time(MICROS, b"29730500000"), _time(MILLIS, b"86400000"), _time(MICROS, b'"10:15:30Z"')
    (b'"08:15:30.5"', b'"24:00:00"', b'"10:15:30"')
    """
    if _INTEGER.fullmatch(raw) is None:
        return _text(raw, "time")
    seconds, part = divmod(abs(int(raw)), per_second)
    digits = _fraction(part, per_second).rstrip("0")
    sign, point = "-" if raw[:1] == b"-" else "", "." if digits else ""
    return f'"{sign}{_clock(seconds)}{point}{digits}"'.encode()


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _fraction(part: int, per_second: int) -> str:
    return str(part).zfill(len(str(per_second)) - 1)


def _text(raw: bytes, kind: str) -> bytes:
    """Return a text as it came, without the Z that isostring appends even to values without a zone."""
    if raw[:1] != b'"':
        return _unreadable(raw, f"no {kind}")
    return raw[:-2] + b'"' if kind in _WITHOUT_ZONE and raw[-2:] == b'Z"' else raw


def _decimal(scale: int | None, raw: bytes) -> bytes:
    """Convert the bytes of a decimal, in base64, to its digits; a number is taken as it came.

    >>> _decimal(2, b'"ATBE"'), _decimal(3, b'"/w=="'), _decimal(-2, b'"AQ=="'), _decimal(0, b"1.50")
    (b'"778.92"', b'"-0.001"', b'"100"', b'1.50')
    """
    if raw[:1] != b'"':
        return raw
    content = _bytes(raw)
    if content is None or scale is None:
        return _unreadable(raw, "a decimal without its bytes or its scale")
    return _digits(content, scale)


def _variable_scale(raw: bytes) -> bytes:
    """Convert a decimal that is sent with its scale; anything else is taken as it came.

    >>> _variable_scale(b'{"scale":1,"value":"AQ=="}'), _variable_scale(b'"12.50"')
    (b'"0.1"', b'"12.50"')
    """
    if raw[:1] != b"{":
        return raw
    try:
        number = msgspec.json.decode(raw, type=_VariableScale)
    except msgspec.ValidationError:
        return raw
    content = _bytes(msgspec.json.encode(number.value))
    return raw if content is None else _digits(content, number.scale)


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


def _digits(content: bytes, scale: int) -> bytes:
    """Return the decimal text of an unscaled number in big-endian bytes, with its scale."""
    if len(content) > _MOST_BYTES or abs(scale) > _MOST_BYTES:
        return _unreadable(content.hex().encode(), f"a decimal with scale {scale}")
    number = int.from_bytes(content, "big", signed=True)
    digits = str(abs(number))
    if scale > 0:
        digits = digits.zfill(scale + 1)
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    else:
        digits += "0" * -scale if number else ""
    return f'"{"-" if number < 0 else ""}{digits}"'.encode()


def _bits(length: int | None, kind: str, raw: bytes) -> bytes:
    """Convert bits, which come as little-endian bytes: to a number, or to the text that the source prints.

    >>> _bits(3, "string", b'"BQ=="'), _bits(10, "int", b'"AQI="')
    (b'"101"', b'513')
    """
    content = _bytes(raw)
    if content is None or length is None or (kind == "string" and length > _MOST_BITS):
        return raw
    number = int.from_bytes(content, "little")
    if number.bit_length() > min(length, _MOST_BITS):
        return _unreadable(raw, f"more than {length} bits")
    return f'"{number:0{length}b}"'.encode() if kind == "string" else str(number).encode()


def _binary(raw: bytes) -> bytes:
    """Convert base64, standard or URL-safe, to hexadecimal digits."""
    content = _bytes(raw)
    return _unreadable(raw, "no base64") if content is None else f'"{content.hex()}"'.encode()


def _bytes(raw: bytes) -> bytes | None:
    """Return the bytes of a base64 text, None for anything else."""
    if raw[:1] != b'"':
        return None
    try:
        return b64decode(msgspec.json.decode(raw, type=str).translate(_URL_SAFE), validate=True)
    except (Error, ValueError):
        return None


def _unreadable(raw: bytes, why: str) -> bytes:
    """Return a text with the value and why it cannot be read; no type reads it as another value."""
    return msgspec.json.encode(f"{raw.decode()[:80]}, {why}")
