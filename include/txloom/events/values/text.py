"""Read values that sources write as text: dates, times, uuids, PostgreSQL's array literals."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray

TIMESTAMP = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
FIRST = pa.scalar(-62_135_596_800_000_000, pa.int64())
LAST = pa.scalar(253_402_300_799_999_999, pa.int64())
"""The first and the last instant of Python's datetime, in microseconds since the epoch."""
_MIDNIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T:]00:00:00(?:\.0+)?)?")
_TIME = re.compile(r"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]|24:00:00(?=$|\.0+$))(?:\.([0-9]+))?")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T:]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?"
    r"(Z|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?)?)?"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_BINARY = re.compile(r"(?:\\x|0[xX])?((?:[0-9a-fA-F]{2})*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', re.DOTALL)


def read_date(text: str) -> date:
    """Read a date; a time beside it must be midnight.

    >>> read_date("1994-09-30:00:00:00")
    datetime.date(1994, 9, 30)
    """
    match = _MIDNIGHT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return date.fromisoformat(match[1])


def read_timestamp(text: str) -> datetime:
    """Read a date with a time and an optional zone; Oracle's `YYYY-MM-DD:HH:MM:SS` too.

    Digits of a second after the sixth must be zeros: nothing is cut off.

    >>> read_timestamp("2026-11-21 10:11:12.120000000").isoformat()
    '2026-11-21T10:11:12.120000'
    >>> read_timestamp("2026-11-21T10:11-01:30").isoformat()
    '2026-11-21T10:11:00-01:30'
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, hour, minute, second, part, zone, sign, *offset = match.groups(default="")
    if part[6:].strip("0"):
        raise ValueError(text)
    hours, minutes, seconds, micros = (int(each or 0) for each in (hour, minute, second, part[:6].ljust(6, "0")))
    moment = datetime.combine(date.fromisoformat(day), time(hours, minutes, seconds, micros))
    return moment.replace(tzinfo=_zone(sign, offset)) if zone else moment


def _zone(sign: str, offset: Sequence[str]) -> timezone:
    hours, minutes, seconds = (int(each or 0) for each in offset)
    if minutes > 59 or seconds > 59:
        raise ValueError(offset)
    away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-away if sign == "-" else away)


def read_time(text: str) -> str:
    """Read a time of day in one canonical spelling: without trailing zeros of a second.

    >>> read_time("08:15:30.500000"), read_time("24:00:00")
    ('08:15:30.5', '24:00:00')
    """
    match = _TIME.fullmatch(text)
    part = match[2].rstrip("0") if match and match[2] else ""
    if match is None or len(part) > 6:
        raise ValueError(text)
    return f"{match[1]}.{part}" if part else match[1]


def read_uuid(text: str) -> str:
    """Read a uuid in one canonical spelling: lower case with dashes, as PostgreSQL prints it."""
    if _UUID.fullmatch(text) is None:
        raise ValueError(text)
    return str(UUID(text))


def read_binary(text: str) -> bytes:
    r"""Read hexadecimal digits, with or without `0x` or PostgreSQL's `\x` in front."""
    match = _BINARY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return bytes.fromhex(match[1])


def array_elements(text: str) -> list[str | None]:
    r"""Read a PostgreSQL array literal of one dimension.

    >>> array_elements('{a,"b,c",NULL,"q\\"uote",""}')
    ['a', 'b,c', None, 'q"uote', '']
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    body, offset, elements = text[1:-1], 0, list[str | None]()
    while body and offset <= len(body):
        element = _QUOTED.match(body, offset)
        if element is None:
            raise ValueError(text)
        quoted, bare = element.groups()
        if quoted is not None:
            elements.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            elements.append(None if bare == "NULL" else bare)
        offset = element.end()
        if offset < len(body) and body[offset] != ",":
            raise ValueError(text)
        offset += 1
    return elements


def read_instants(texts: pa.StringArray) -> AnyArray:
    """Read instants without a zone as UTC, all at once; raises ArrowInvalid if one has another form."""
    return read_timestamps(texts).cast(INSTANT)


def read_timestamps(texts: pa.StringArray, kind: pa.DataType = TIMESTAMP) -> AnyArray:
    """Read `YYYY-MM-DD HH:MM:SS.ffffff`, all at once; raises ArrowInvalid if one has another form."""
    times = texts.cast(kind)
    bounds = pc.min_max(times.cast(pa.int64()))
    if pc.or_(pc.less(bounds["min"], FIRST), pc.greater(bounds["max"], LAST)).as_py():
        raise pa.ArrowInvalid("an instant that Python cannot hold")
    return times
