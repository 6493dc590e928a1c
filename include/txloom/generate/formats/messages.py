"""What writers make of transactions, and how they write JSON."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from txloom.generate.workload.changes import Cut, Transaction
from txloom.generate.workload.tables import SourceTable, Text

Headers = tuple[tuple[str, str], ...]
Value = str | int | None
encode = msgspec.json.Encoder().encode

ROW, METADATA, MARKER = "row", "metadata", "marker"
NUMERIC = ("bigint", "integer", "numeric(", "double precision")
"""How the names of numeric types begin."""


class Message(NamedTuple):
    """One message of a topic; a value of None is a tombstone. kind: a row, metadata, or a marker that says little."""

    topic: str
    value: bytes | None
    kind: str
    csn: int
    key: bytes | None = None
    headers: Headers = ()


class Writer(ABC):
    """Writes transactions in one format."""

    metadata_topic: str | None = None
    """The topic that says what a transaction holds, if the format has one."""
    in_one_stream = False
    """All messages come in one topic, in commit order."""

    @abstractmethod
    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction's messages in the order in which the format's producer sends them."""

    def csn_of(self, cut: Cut) -> int:
        """Return the csn by which a reader of the format knows a state."""
        return cut.csn

    def heading(self, topic: str) -> bytes | None:  # noqa: ARG002
        """Return the line that each of a topic's files begins with, if there is one."""
        return None

    def garbled(self, value: bytes) -> list[bytes]:
        """Return what may come of a message that is damaged: cut off, wrapped, doubled, emptied, not even text."""
        return [
            *(value[: len(value) // 2], b"[%b]" % value, value + value, b"", b'"%d messages"' % len(value)),
            *(value[:-1] + b"\x00}", value[:20].rstrip(b"\\") + b"\xff\xfe"),
        ]


def is_number(type_: str) -> bool:
    """Say whether a type's values are numbers in JSON.

    >>> is_number("numeric(20,4)"), is_number("numeric(20,4)[]"), is_number("text")
    (True, False, False)
    """
    return type_.startswith(NUMERIC) and not type_.endswith("[]")


def literals(table: SourceTable) -> tuple[bool, ...]:
    """Say of each column whether its text is JSON as it stands: numbers with all their digits, and booleans."""
    return tuple(is_number(type_) or type_ == "boolean" for type_ in table.types)


def json_value(text: Text, *, literal: bool) -> bytes:
    """Write a value as JSON."""
    if text is None:
        return b"null"
    return text.encode() if literal else encode(text)


def json_object(names: Sequence[str], values: Iterable[bytes]) -> bytes:
    """Write an object of values that are JSON already.

    >>> json_object(["a", "b"], [b"1.50", b"null"])
    b'{"a":1.50,"b":null}'
    """
    parts = [b'"%b":%b' % (name.encode(), value) for name, value in zip(names, values, strict=True)]
    return b"{%b}" % b",".join(parts)
