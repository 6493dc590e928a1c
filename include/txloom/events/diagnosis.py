"""Diagnose a message that does not parse."""

import codecs
import re
from collections.abc import Iterator

import msgspec

from txloom.events import rejections

Diagnosis = tuple[str, str]
"""Cause and detail."""
MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"PK\x03\x04": "zip", b"PAR1": "Parquet"}
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def diagnosed(value: bytes, error: Exception) -> Diagnosis:
    """Return cause and detail of a message that cannot be parsed; error: what parsing it raised."""
    if not value.strip():
        return rejections.EMPTY, "the message has no content"
    return _binary(value) or _encoding(value) or _text(value, error)


def _binary(value: bytes) -> Diagnosis | None:
    """Return the diagnosis of a message that begins with a byte order mark or as a binary format; else None."""
    if value.startswith(codecs.BOM_UTF8):
        return rejections.BOM, "the message begins with the byte order mark of UTF-8"
    for mark, name in MARKS.items():
        if value.startswith(mark):
            return rejections.ENCODING, f"the message begins with the byte order mark of {name}"
    for mark, name in PACKED.items():
        if value.startswith(mark):
            return rejections.BINARY, f"the message begins as {name} does"
    schema = int.from_bytes(value[1:5], "big")
    if value[:2] == b"\x00\x00" and schema:
        return (
            rejections.BINARY,
            f"the message begins as a schema registry's do (Avro, Protobuf), with the schema {schema}",
        )
    return None


def _encoding(value: bytes) -> Diagnosis | None:
    """Return the diagnosis of a message with bytes that are not UTF-8 or not text; else None."""
    if (value[0:4:2] == b"\x00\x00") != (value[1:4:2] == b"\x00\x00"):
        return rejections.ENCODING, "every other byte is zero, as in UTF-16"
    if b"\x00" in value:
        return rejections.NUL, f"a NUL byte stands at offset {value.index(0)}"
    try:
        value.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return rejections.BROKEN, f"the message was cut off inside a character, at offset {error.start}"
        return rejections.ENCODING, f"the byte 0x{value[error.start]:02x} at offset {error.start} is no UTF-8"
    return None


def _text(value: bytes, error: Exception) -> Diagnosis:
    """Return the diagnosis of a message that is UTF-8."""
    text = value.strip()
    try:
        parsed = msgspec.json.decode(value)
    except RecursionError:
        return rejections.DEEP, "arrays or objects lie within each other some hundred times"
    except msgspec.MsgspecError:
        half = next(_halves(value), None)
        if half is not None:
            return (
                rejections.SURROGATE,
                f"{value[half : half + 6].decode()} at offset {half} is one half of a character",
            )
        several = text.startswith(b"{") and text.endswith(b"}") and b"}" in text[:-1] and "trailing" in str(error)
        return (rejections.SEVERAL if several else rejections.BROKEN), str(error)
    if not isinstance(parsed, dict):
        return rejections.NOT_AN_OBJECT, f"the message is a JSON {type(parsed).__name__}"
    return (rejections.DEEP if isinstance(error, RecursionError) else rejections.BROKEN), str(error)


def _halves(value: bytes) -> Iterator[int]:
    r"""Yield the offsets at which a message escapes one half of a surrogate pair without the other.

    >>> [list(_halves(text)) for text in (rb'"\ud83d\ude00"', rb'"\ud83d!"', rb'"\\ud83d"', rb'"\ude00"')]
    [[], [1], [], [1]]
    >>> list(_halves(rb'"\ud83d\n"'))
    [1]
    """
    high = None
    for escape in _ESCAPE.finditer(value):
        unit = int(escape[1], 16) >> 10 if escape[1] else 0
        if high is not None and not (unit == 0b110111 and escape.start() == high + 6):
            yield high
        elif high is None and unit == 0b110111:
            yield escape.start()
        high = escape.start() if unit == 0b110110 else None
    if high is not None:
        yield high
