"""Messages that cannot be taken as events, whatever their format: named by cause, with what exactly is wrong."""

from collections.abc import Callable
from typing import Any

import msgspec

from txloom.events import causes

LARGEST = 2**63 - 1


class Poison(Exception):
    """A message that cannot be taken as an event; args: cause, detail."""


def read_message(read: Callable[[bytes], dict[str, Any]], value: bytes | None) -> dict[str, Any]:
    """Read one message into a row of the envelope; read raises Poison, or what msgspec does, where it is no event."""
    if value is None:
        return {"kind": "tombstone"}
    try:
        text = value.decode()
        return {**read(value), "value": text}
    except Poison as poison:
        cause, detail = poison.args
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        cause, detail = diagnosed(value, error)
    return {"kind": "poison", "cause": cause, "detail": detail, "value": value.decode("utf-8", "backslashreplace")}


def diagnosed(value: bytes, error: Exception) -> tuple[str, str]:
    """Name what is wrong with a message that does not parse as what it should be."""
    text = value.strip()
    if not text:
        return causes.EMPTY, "the message has no content"
    if b"\x00" in value:
        return causes.NUL, f"a NUL byte stands at offset {value.index(0)}"
    try:
        parsed = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        several = text.startswith(b"{") and text.endswith(b"}") and b"}" in text[:-1] and "trailing" in str(error)
        return (causes.SEVERAL if several else causes.BROKEN), str(error)
    if not isinstance(parsed, dict):
        return causes.NOT_AN_OBJECT, f"the message is a JSON {type(parsed).__name__}"
    return causes.BROKEN, str(error)


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
