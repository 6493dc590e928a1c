"""What identifies an event, a row of a history and a row of a table without a key: one rule, the same in every step.

An event is known within its transaction by (table, identity): what its source guarantees, and keeps in a redelivery.
Whether two events of one identity are one event, delivered twice, is told by what they say: by the 128 bits of
`digest`. Events that were landed before there was a digest have `payload` alone, two CRC32, which is then what both
sides are compared by.

A Debezium row of a table without a key is known by what it says and by its number in the transaction; one of a
snapshot, which has neither key nor number, by the place that it was sent at. A row of a history, and of a current table
without a key, is known by its transaction and its place in there (`txloom.config.names.POSITION`).
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import xxhash

SENT_AT = "@"
"""Stands between what a row says and the place that it was sent at."""
NUMBERED = r"/[0-9a-f]{32}\.[0-9]+$"
"""How the identity of a row ends that is known by what it says: what comes before was all of it once."""
AT_POSITION = r"^([0-9]{1,18}):"
"""How the identity of a row begins that knows no csn, Debezium's of PostgreSQL: its place in the log, which lies before
the csn of its transaction. By it a row is told from those of an earlier transaction that had the same id."""
GTID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:(?:\w+:)?[0-9]+|[0-9]+-[0-9]+-[0-9]+")
"""Ids of transactions that never come back, MySQL's and MariaDB's."""
Image = bytes
"""The JSON of a row before or after a change."""


def digest(op: str, before: Image, after: Image) -> bytes:
    """Return 128 bits of what an event says: its operation and both images, each told apart from the other.

    >>> digest("U", b"1", b"23") == digest("U", b"12", b"3")
    False
    """
    return xxhash.xxh3_128_digest(b"%b%d:%b%b" % (op.encode(), len(before), before, after))


def payload(op: str, before: Image, after: Image) -> int:
    """Return the checksum by which an event is compared with those that were landed before there was a digest."""
    seed = ord(op)
    return zlib.crc32(before, seed) << 31 ^ zlib.crc32(after, seed)


def by_content(checksum: int, digest: bytes) -> str:
    """Return what stands for the key of a row that has none: all that it says.

    >>> by_content(255, bytes(16))
    'ff/00000000000000000000000000000000'
    """
    return f"{checksum:x}/{digest.hex()}"


def numbered(known: str, number: int) -> str:
    """Return the identity of a row without a key in its transaction: equal rows differ by their number there."""
    return f"{known}.{number}"


def same_content(one: str, other: str) -> str:
    """Return the SQL condition that two events say the same; one, other: the names of their rows.

    >>> same_content("a", "b")
    'case when a.digest is null or b.digest is null then a.payload = b.payload else a.digest = b.digest end'
    """
    known = f"{one}.digest is null or {other}.digest is null"
    return f"case when {known} then {one}.payload = {other}.payload else {one}.digest = {other}.digest end"


def is_one(events: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether events of one identity all say the same.

    >>> old, new, other = ({"payload": 7, "digest": digest} for digest in (None, b"1", b"2"))
    >>> is_one([old, new, new]), is_one([old, new, other])
    (True, False)
    """
    return len({each["payload"] for each in events}) == 1 and len({each["digest"] for each in events} - {None}) <= 1
