"""What a landing takes, piece by piece: a file, or a range of records; and the messages that come out of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from txloom.events.formats import Headers

COMPRESSION = 10
"""What a byte of a compressed file is taken for."""
RECORD_BYTES = 600
"""What a record is taken for."""


class Messages(NamedTuple):
    """A block of messages: their places (lines or offsets), values, and headers where there are any."""

    places: Sequence[int]
    values: Sequence[bytes | None]
    headers: Headers | None = None


@dataclass(frozen=True)
class Range:
    """Records of one partition, from an offset to before another: what it holds, or what a landing takes of it."""

    topic: str
    topic_id: str
    partition: int
    first: int
    until: int

    def __str__(self) -> str:
        """Name the range as messages do."""
        return f"{self.topic}[{self.partition}] from offset {self.first}"


@dataclass(frozen=True)
class Task:
    """One piece of a landing: its number there, its topic, and its path relative to the source, or its records."""

    number: int
    topic: str
    file: str
    size: int
    part: Range | None = None

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        if self.part is not None:
            return (self.part.until - self.part.first) * RECORD_BYTES
        return self.size * (COMPRESSION if self.file.endswith(".gz") else 1)
