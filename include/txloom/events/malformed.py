"""Malformed messages of any format: poison with a cause, and a detail of what exactly is wrong."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from txloom.events import rejections
from txloom.events.diagnosis import diagnosed

LARGEST = 2**63 - 1
MOST_SHOWN = 80
"""The most characters of a value that a detail quotes."""
LONGEST = 300
"""The most characters of a detail."""
KEPT = 1 << 16
"""How many bytes are kept of a message that is too large."""


class Poison(Exception):
    """A message that cannot be taken as an event; args: cause, detail.

    fields: what is known of its transaction, as columns of the envelope.
    """

    fields: Mapping[str, Any] = MappingProxyType({})


class Refused(bytes):
    """The kept bytes of a message that its reader refused; no decoder parses it."""

    cause: str
    detail: str

    def __new__(cls, value: bytes, cause: str, detail: str) -> "Refused":
        """Make a refused message with its cause and detail."""
        refused = super().__new__(cls, value)
        refused.cause, refused.detail = cause, detail
        return refused

    def poison(self) -> dict[str, Any]:
        """Return the message's row of the envelope."""
        return poison(self, self.cause, self.detail)


def cut(value: bytes, size: int) -> Refused:
    """Return a refused message for one that is too large; value: at least its first bytes, size: its bytes."""
    kept = value[:KEPT]
    return Refused(kept, rejections.TOO_LARGE, f"the message has {size} bytes; its first {len(kept)} are kept")


def without_blank_lines(lines: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """Return the lines of a file with None, a tombstone that landing counts, for each blank one.

    >>> without_blank_lines([b"{}", b"\\r", b"", None])
    [b'{}', None, None, None]
    """
    if all(line is None or line.strip() for line in lines):
        return lines
    return [line if line and line.strip() else None for line in lines]


def within_limit(values: Sequence[bytes | None], limit: int) -> Sequence[bytes | None]:
    """Return messages, with those of more bytes than the limit refused.

    >>> [type(value).__name__ for value in within_limit([b"four", None, b"fives"], 4)]
    ['bytes', 'NoneType', 'Refused']
    """
    if max(map(len, filter(None, values)), default=0) <= limit:
        return values
    return [cut(value, len(value)) if value is not None and len(value) > limit else value for value in values]


def read_message(read: Callable[[bytes], dict[str, Any]], value: bytes | None) -> dict[str, Any]:
    """Read one message into a row of the envelope; None is a tombstone, a malformed message is poison.

    read: returns the columns of a message, or raises Poison or an error of msgspec.
    """
    if value is None:
        return {"kind": "tombstone"}
    if isinstance(value, Refused):
        return value.poison()
    fields: Mapping[str, Any] = {}
    try:
        text = value.decode()
        return {**read(value), "value": text}
    except Poison as refusal:
        cause, detail = refusal.args
        fields = refusal.fields
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        cause, detail = diagnosed(value, error)
    return {**fields, **poison(value, cause, detail)}


def poison(value: bytes, cause: str, detail: str) -> dict[str, Any]:
    """Return the envelope's row of a malformed message."""
    text = value.decode("utf-8", "backslashreplace")
    return {"kind": "poison", "cause": cause, "detail": shortened(detail), "value": text}


def shortened(detail: str) -> str:
    """Return a detail cut to the length that tables and the page show."""
    return detail if len(detail) <= LONGEST else f"{detail[:LONGEST]}…"


def shown(value: object) -> str:
    """Return a value of a message, cut to the length that a detail quotes."""
    return str(value)[:MOST_SHOWN]


def unsigned(text: str | int | None) -> int | None:
    """Return an unsigned number of at most 63 bits, None for anything else.

    >>> unsigned("00000000110009047521"), unsigned("1e3"), unsigned(2**63)
    (110009047521, None, None)
    """
    if isinstance(text, str):
        if not (text.isascii() and text.isdigit() and len(text) <= 40):
            return None
        text = int(text)
    return text if text is not None and 0 <= text <= LARGEST else None
