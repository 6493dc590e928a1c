"""Read images of single row messages: every value exactly, or a problem that names column and value."""

from collections.abc import Callable, Sequence
from decimal import InvalidOperation
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from txloom.arrow_types import AnyArray
from txloom.config.models.pipeline import Column, Table
from txloom.config.secret_names import MASK, is_secret
from txloom.events.goldengate.messages import INSERTS, operation
from txloom.events.malformed import Refused, shortened
from txloom.events.values.scalars import arrow_type, reader

Raw = msgspec.Raw
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What parsing raises for a message that is not JSON, or nested too deeply."""
MOST_SHOWN = 200
"""The most characters of an unreadable value that its problem shows."""


class _Message(msgspec.Struct):
    op_type: str = ""
    before: dict[str, Raw] | None = None
    after: dict[str, Raw] | None = None


class Unreadable(ValueError):
    """A value that is not of its declared type."""


class ImageMessages:
    """Reads single messages of one table; compiled, so each process makes one."""

    def __init__(self, table: Table) -> None:
        """Compile the readers of a declared table's columns."""
        self._columns = table.columns_by_source
        self._newer = {
            name.upper(): {source.upper() for source in column.sources[:number]}
            for column in table.columns
            for number, name in enumerate(column.sources)
        }
        self._readers = {column.name: partial(_read, reader(column.type), column) for column in table.columns}
        self._names = table.column_names
        self._key = [(name, table.column(name).source) for name in table.key]
        self._clears = table.dropped_columns == "clear"
        self._quarantine = table.undeclared_columns == "quarantine"
        self._decode = msgspec.json.Decoder(_Message).decode

    def names(self, value: bytes | str) -> list[str]:
        """Return the columns of a message, in either image, as it spells them."""
        message = self._decode(value)
        return list(dict.fromkeys([*(message.before or ()), *(message.after or ())]))

    def read(self, value: bytes | str) -> dict[str, Any]:
        """Return one message as a row of `events.images.reader.image_schema`; if unreadable, with only a problem."""
        if isinstance(value, Refused):
            return {"problem": value.detail}
        try:
            return self._row(self._decode(value))
        except Unreadable as problem:
            return {"problem": shortened(str(problem))}
        except UNREADABLE as error:
            return {"problem": shortened(f"the message cannot be read: {error}")}

    def _row(self, message: _Message) -> dict[str, Any]:
        op = operation(message.op_type)
        before = None if op in INSERTS else self._image(message.before)
        after = None if op == "D" else self._image(message.after)
        for name, source in self._key if op != "T" else ():
            if (after or {}).get(name) is None and (before or {}).get(name) is None:
                raise Unreadable(f"{source}: a key without a value")
        absent = [name for name in self._names if name not in after] if after is not None else []
        columns = {name for image in (message.before, message.after) for name in image or ()}
        return {
            "after": after,
            "unchanged": absent if absent and op == "U" else None,
            "before": before,
            "before_known": None if before is None else [name for name in self._names if name in before],
            "absent": absent if absent and op == "I" and self._clears else None,
            "undeclared": sorted(filter(self._is_undeclared, columns)) or None,
        }

    def _is_undeclared(self, name: str) -> bool:
        return name.upper() not in self._columns and not name.upper().endswith("_ISMISSING")

    def read_values(self, column: Column, values: Sequence[Any]) -> tuple[AnyArray, list[int]]:
        """Read a column's values (text, JSON scalars, None) one at a time; return them and the unreadable indices."""
        read = reader(column.type)
        values_read, unreadable = [], []
        for position, value in enumerate(values):
            try:
                values_read.append(None if value is None else read(value if isinstance(value, str) else str(value)))
            except (ValueError, TypeError, InvalidOperation, OverflowError):
                values_read.append(None)
                unreadable.append(position)
        return pa.array(values_read, arrow_type(column.type)), unreadable

    def _image(self, image: dict[str, Raw] | None) -> dict[str, Any] | None:
        if image is None:
            return None
        flags = {
            name.upper() for name, raw in image.items() if name.upper().endswith("_ISMISSING") and bytes(raw) == b"true"
        }
        given = {name.upper() for name in image if f"{name.upper()}_ISMISSING" not in flags}
        values = {}
        for name, raw in image.items():
            column = self._columns.get(name.upper())
            if column is not None and name.upper() in given:
                if not self._newer[name.upper()] & given:
                    values[column.name] = self._readers[column.name](raw)
            elif self._quarantine and self._is_undeclared(name):
                raise Unreadable(f"{name}: not a declared column, and undeclared_columns is quarantine")
        return values


def _read(read: Callable[[Any], Any], column: Column, raw: Raw) -> Any:
    """Read one value; a JSON number is read from its digits, so that no decimal passes through a float."""
    text = bytes(raw)
    if text == b"null":
        return None
    nested = text[:1] in (b"{", b"[")
    value: Any = text.decode()
    try:
        value = msgspec.json.decode(text) if text[:1] == b'"' else value
        if nested and column.type.element is not None:
            value = json_elements(text)
        return read(value)
    except (ValueError, TypeError, InvalidOperation, OverflowError, RecursionError) as error:
        shown = MASK if any(map(is_secret, (column.name, *column.sources))) else value
        shown = shown if isinstance(shown, str) else text.decode()
        article = "an" if str(column.type)[0] in "aeiou" else "a"
        raise Unreadable(f"{column.source}: {shown[:MOST_SHOWN]!r} is not {article} {column.type}") from error


def json_elements(array: bytes | str) -> list[str | None]:
    """Return the elements of a JSON array as texts (`text_of`): numbers keep their digits, even inside elements.

    Raises:
        msgspec.DecodeError: the text is not a JSON array.
    """
    return [text_of(element) for element in msgspec.json.decode(array, type=list[Raw])]


def text_of(raw: Raw) -> str | None:
    """Return a JSON value as text: the content of a string, the JSON text of anything else, None for null."""
    text = bytes(raw)
    if text == b"null":
        return None
    return str(msgspec.json.decode(text)) if text[:1] == b'"' else text.decode()
