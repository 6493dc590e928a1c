"""Images of rows, before and after, typed as declared; what cannot be read as its type is a problem, never a null."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models import Column, Table
from txloom.config.types import ColumnType
from txloom.events.text import array_elements, read_date, read_time, read_uuid

Raw = msgspec.Raw
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


class _Message(msgspec.Struct):
    op_type: str = ""
    before: dict[str, Raw] | None = None
    after: dict[str, Raw] | None = None


class Unreadable(ValueError):
    """A value that is not of its declared type."""


def arrow_type(declared: ColumnType) -> pa.DataType:
    """Return the Arrow type of a declared one."""
    if declared.element is not None:
        return pa.list_(arrow_type(declared.element))
    if declared.kind == "decimal":
        return pa.decimal128(declared.precision, declared.scale)
    return _ARROW.get(declared.kind, pa.string())


class ImageReader:
    """Reads the images of one table's row messages; compiled, so it does not travel between processes."""

    def __init__(self, table: Table) -> None:
        """Compile the readers of a declared table's columns."""
        self._columns = {column.source.upper(): column for column in table.columns}
        self._readers = {column.name: partial(_read, reader(column.type), column) for column in table.columns}
        self._names = table.column_names
        self._quarantine = table.undeclared_columns == "quarantine"
        image = pa.struct([(column.name, arrow_type(column.type)) for column in table.columns])
        names = pa.list_(pa.string())
        self.schema = pa.schema(
            [
                ("after", image),
                ("unchanged", names),
                ("before", image),
                ("before_known", names),
                ("problem", pa.string()),
            ]
        )
        self._decode = msgspec.json.Decoder(_Message).decode

    def read(self, values: Sequence[bytes | str]) -> pa.Table:
        """Return one row per message; unchanged: columns that an update leaves out; before_known: those it has."""
        return pa.Table.from_pylist([self._one(value) for value in values], self.schema)

    def _one(self, value: bytes | str) -> dict[str, Any]:
        message = self._decode(value)
        op = message.op_type.upper()
        try:
            before = None if op == "I" else self._image(message.before)
            after = None if op == "D" else self._image(message.after)
        except Unreadable as problem:
            return {"problem": str(problem)}
        absent = [name for name in self._names if name not in after] if after is not None and op == "U" else []
        return {
            "after": after,
            "unchanged": absent or None,
            "before": before,
            "before_known": None if before is None else list(before),
        }

    def _image(self, image: dict[str, Raw] | None) -> dict[str, Any] | None:
        if image is None:
            return None
        flags = {
            name.upper() for name, raw in image.items() if name.upper().endswith("_ISMISSING") and bytes(raw) == b"true"
        }
        found = {}
        for name, raw in image.items():
            column = self._columns.get(name.upper())
            if column is not None and f"{name.upper()}_ISMISSING" not in flags:
                found[column.name] = self._readers[column.name](raw)
            elif column is None and self._quarantine and not name.upper().endswith("_ISMISSING"):
                raise Unreadable(f"{name}: not a declared column, and undeclared_columns is quarantine")
        return found


def _read(read: Callable[[Any], Any], column: Column, raw: Raw) -> Any:
    """Read one value; a JSON number comes as its own digits, so that no decimal passes through a float."""
    text = bytes(raw)
    if text == b"null":
        return None
    nested = text[:1] in (b"{", b"[")
    value: Any = msgspec.json.decode(text) if text[:1] == b'"' else text.decode()
    if nested and column.type.element is not None:
        value = [_plain(item) for item in msgspec.json.decode(text, type=list[Raw])]
    try:
        return read(value)
    except (ValueError, TypeError, InvalidOperation, OverflowError) as error:
        shown = value if isinstance(value, str) else text.decode()
        article = "an" if str(column.type)[0] in "aeiou" else "a"
        raise Unreadable(f"{column.source}: {shown[:80]!r} is not {article} {column.type}") from error


def _plain(raw: Raw) -> str | None:
    text = bytes(raw)
    if text == b"null":
        return None
    return str(msgspec.json.decode(text)) if text[:1] == b'"' else text.decode()


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
