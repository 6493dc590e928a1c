"""Write values as Debezium does, with decimals as text and times in the precision of their types."""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from functools import lru_cache

from txloom.generate.formats.messages import encode
from txloom.generate.workload.changes import EPOCH, micros_of
from txloom.generate.workload.tables import SourceTable, Text
from txloom.generate.workload.values import ARRAYS, DOUBLES

UNAVAILABLE = b'"__debezium_unavailable_value"'
"""The placeholder for a large value that an update did not change."""
Write = Callable[[Text], bytes]


def json_values(table: SourceTable) -> list[Write]:
    """Return for each column the function that writes its values as JSON."""
    writers = []
    for name, type_ in zip(table.columns, table.types, strict=True):
        base = type_.partition("(")[0]
        write = _array(name) if type_.endswith("[]") else _BY_TYPE.get(base, encode)
        writers.append(_or_null(write))
    return writers


def _or_null(write: Callable[[str], bytes]) -> Write:
    return lambda text: b"null" if text is None else write(text)


def _array(name: str) -> Callable[[str], bytes]:
    written = {text: encode(elements) for text, elements in ARRAYS[name].items()}
    return written.__getitem__


@lru_cache(4096)
def _date(text: str) -> bytes:
    return b"%d" % (date.fromisoformat(text) - EPOCH.date()).days


def _timestamp(text: str) -> bytes:
    return b"%d" % micros_of(datetime.fromisoformat(text).replace(tzinfo=UTC))


def _instant(text: str) -> bytes:
    return f'"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"'.encode()


def _time(text: str) -> bytes:
    value = time.fromisoformat(text)
    return b"%d" % (((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)


def _binary(text: str) -> bytes:
    return b'"%b"' % b64encode(bytes.fromhex(text))


def _double(text: str) -> bytes:
    return (DOUBLES[text] or "null").encode()


_BY_TYPE: dict[str, Callable[[str], bytes]] = {
    "bigint": str.encode,
    "integer": str.encode,
    "boolean": str.encode,
    "double precision": _double,
    "date": _date,
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _instant,
    "time without time zone": _time,
    "bytea": _binary,
}
"""By the type's name without its digits; any other type is text."""
