"""The messages that writers make from transactions, and functions for writing JSON."""

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
"""The beginnings of the names of numeric types."""


class Message(NamedTuple):
    """One message of a topic; a value of None is a tombstone. kind: ROW, METADATA, or MARKER for any other message."""

    topic: str
    value: bytes | None
    kind: str
    csn: int
    key: bytes | None = None
    headers: Headers = ()


class Writer(ABC):
    """Writes transactions in one format."""

    metadata_topic: str | None = None
    """The topic of the transaction metadata, if the format has one."""
    in_one_stream = False
    """Whether all messages come in one topic, in commit order."""

    @abstractmethod
    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield a transaction's messages in the order in which the format's producer sends them."""

    def csn_of(self, cut: Cut) -> int:
        """Return the csn that a reader of the format has for a state."""
        return cut.csn

    def heading(self, topic: str) -> bytes | None:  # noqa: ARG002
        """Return the first line of each of a topic's files; None for formats without a header."""
        return None

    def garbled(self, value: bytes) -> list[bytes]:
        """Return damaged variants of a message: cut off, wrapped, doubled, emptied, another type, or not text."""
        return [
            *(value[: len(value) // 2], b"[%b]" % value, value + value, b"", b'"%d messages"' % len(value)),
            *(value[:-1] + b"\x00}", value[:20].rstrip(b"\\") + b"\xff\xfe"),
        ]


def is_number(type_: str) -> bool:
    """Return whether a type's values are numbers in JSON.

    >>> is_number("numeric(20,4)"), is_number("numeric(20,4)[]"), is_number("text")
    (True, False, False)
    """
    return type_.startswith(NUMERIC) and not type_.endswith("[]")


def literals(table: SourceTable) -> tuple[bool, ...]:
    """Return for each column whether its text is already JSON: numbers with all their digits, and booleans."""
    return tuple(is_number(type_) or type_ == "boolean" for type_ in table.types)


def json_value(text: Text, *, literal: bool) -> bytes:
    """Return a value as JSON; literal: its text is already JSON."""
    if text is None:
        return b"null"
    return text.encode() if literal else encode(text)


def json_object(names: Sequence[str], values: Iterable[bytes]) -> bytes:
    """Return a JSON object of values that are already JSON.

    >>> json_object(["a", "b"], [b"1.50", b"null"])
    b'{"a":1.50,"b":null}'
    """
    parts = [b'"%b":%b' % (name.encode(), value) for name, value in zip(names, values, strict=True)]
    return b"{%b}" % b",".join(parts)
