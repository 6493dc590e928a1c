"""What identifies an event, a row of a history and a row of a table without a key: one rule for all steps.

An event is identified within its transaction by (table, identity), which its source keeps in a redelivery. Two events
of one identity are one event, delivered twice, if their content is equal: the 128 bits of `digest`. Events that were
landed before digests were stored have only `payload`, two CRC32; if either event has no digest, the payloads are
compared.

A row out of a binlog is identified by its place there and its content: a transaction that MySQL compressed has one
place. A Debezium row of a table without a key is identified by its content and its number in the transaction; a row of
a snapshot of such a table, which has no number either, by the partition and offset that it was sent at. A row of a
history, and of a current table without a key, is identified by its transaction and its position there
(`txloom.config.names.POSITION`).
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import xxhash

SENT_AT = "@"
"""The separator between a row's content and the position that it was sent at."""
BY_CONTENT = r"/[0-9a-f]{32}(\.[0-9]+)?$"
"""The end of the identity of a row that its content identifies; older versions wrote the identity without it."""
AT_POSITION = r"^([0-9]{1,18}):"
"""The beginning of the identity of a row without a csn (Debezium for PostgreSQL): its position in the log, which lies
before the csn of its transaction. It distinguishes the row from rows of an earlier transaction with the same id."""
GTID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:(?:\w+:)?[0-9]+|[0-9]+-[0-9]+-[0-9]+")
"""Transaction ids that are never reused: those of MySQL and MariaDB."""
Image = bytes
"""The JSON of a row before or after a change."""


def digest(op: str, before: Image, after: Image) -> bytes:
    """Return the 128-bit hash of an event's content: its operation and both images, with the border between them.

    >>> digest("U", b"1", b"23") == digest("U", b"12", b"3")
    False
    """
    return xxhash.xxh3_128_digest(b"%b%d:%b%b" % (op.encode(), len(before), before, after))


def payload(op: str, before: Image, after: Image) -> int:
    """Return the checksum of an event's content, for comparing it with events that were landed without a digest."""
    seed = ord(op)
    return zlib.crc32(before, seed) << 31 ^ zlib.crc32(after, seed)


def by_content(checksum: int, digest: bytes) -> str:
    """Return what replaces the key in the identity of a row without one: its content, as checksum and digest.

    >>> by_content(255, bytes(16))
    'ff/00000000000000000000000000000000'
    """
    return f"{checksum:x}/{digest.hex()}"


def numbered(known: str, number: int) -> str:
    """Return the identity of a row without a key; equal rows of a transaction differ by their number in it."""
    return f"{known}.{number}"


def same_content(one: str, other: str) -> str:
    """Return the SQL condition that two events have equal content; one, other: the aliases of their rows.

    >>> same_content("a", "b")
    'case when a.digest is null or b.digest is null then a.payload = b.payload else a.digest = b.digest end'
    """
    known = f"{one}.digest is null or {other}.digest is null"
    return f"case when {known} then {one}.payload = {other}.payload else {one}.digest = {other}.digest end"


def is_one(events: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether events of one identity (payload, digest) all have equal content.

    >>> old, new, other = ({"payload": 7, "digest": digest} for digest in (None, b"1", b"2"))
    >>> is_one([old, new, new]), is_one([old, new, other])
    (True, False)
    """
    return len({event["payload"] for event in events}) == 1 and len({event["digest"] for event in events} - {None}) <= 1
