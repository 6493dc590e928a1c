"""What a landing takes, piece by piece: a file, or a range of records; and the messages that come out of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from txloom.events.formats import Headers
from txloom.storage.sources.file_positions import Name, Position

COMPRESSION = 10
"""What a byte of a compressed file is taken for."""
MOST_COMPRESSED = 1032
"""How many bytes, and so lines, one byte of a compressed file can stand for."""
PLACE_BITS = 39
"""Bits that the place of a message in its landing has."""
RECORD_BYTES = 600
"""What a record is taken for."""


class Messages(NamedTuple):
    """A block of messages: their places (lines or offsets), values, and headers where there are any.

    landed: whether an earlier landing took them: they are decoded for what they leave open, and not landed again.
    is_tail: the last line of a file that does not end in a newline. reached: how far the file was read with them.
    """

    positions: Sequence[int]
    values: Sequence[bytes | None]
    headers: Headers | None = None
    landed: bool = False
    is_tail: bool = False
    reached: Position | None = None


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
    """One piece of a landing: its number there, its topic, and its path relative to the source, or its records.

    size: of a file, the bytes that are taken of it, whatever it has when it is read. start, origin, follows: see
    `LANDED_FILES`; origin is how far that file was read.
    """

    number: int
    topic: str
    file: str
    size: int
    part: Range | None = None
    modified: int = 0
    start: int = 0
    origin: Position | None = None
    follows: str | None = None

    @property
    def position(self) -> Position:
        """Return how far the file was read before, under the name that it has now."""
        again = self.origin is not None and self.origin.file == self.file
        fresh = Position(self.topic, self.file, self.size, self.modified, read_again=again)
        if self.origin is None or not self.start:
            return fresh
        was = self.origin.was if again else self.origin.file
        position = replace(self.origin, file=self.file, size=self.size, modified=self.modified, was=was)
        return replace(position, problem=None, is_access=False, lost=None, read_again=False)

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        if self.part is not None:
            return (self.part.until - self.part.first) * RECORD_BYTES
        return self.size * COMPRESSION if self.file.endswith(".gz") else self.size - self.start

    @property
    def most_lines(self) -> int:
        """Return how many messages there can be at most."""
        if self.part is not None:
            return self.part.until - self.part.first
        return self.size if self.file.endswith(PLAIN) else self.size * MOST_COMPRESSED


PLAIN = (".json", ".jsonl", ".csv", ".txt")
"""How the names of files end that hold no more lines than bytes."""


def line_bits(tasks: int) -> int:
    """Return the bits that are left for a line where so many tasks are numbered from 1.

    >>> line_bits(1), line_bits(8191), line_bits(8192)
    (38, 26, 25)
    """
    return PLACE_BITS - tasks.bit_length()


def fitting(tasks: Sequence[Task]) -> list[Task]:
    """Return the first tasks, one at least, all messages of which have a position in one landing.

    >>> small = [Task(n, "t", f"{n}.jsonl", 1 << 20) for n in range(1, 600_000)]
    >>> len(fitting(small)), len(fitting([Task(1, "t", "1.jsonl", 1 << 50), *small]))
    (262143, 1)
    """
    largest = 0
    for number, task in enumerate(tasks, 1):
        largest = max(largest, task.most_lines)
        if number > 1 and largest >> line_bits(number):
            return list(tasks[: number - 1])
    return list(tasks)


def capped(parts: Sequence[Range]) -> list[Range]:
    """Return ranges of one landing cut to as many records as have a position there.

    >>> capped([Range("t", "id", 0, 5, 1 << 60)])[0].until - 5 == 2**38 - 1
    True
    """
    most = (1 << line_bits(len(parts))) - 1
    return [replace(part, until=min(part.until, part.first + most)) for part in parts]


@dataclass(frozen=True)
class LandingPlan:
    """One landing: its number, when it was planned, what it takes, and what was known before it.

    splits: pieces of files or of partitions, none for a landing of what txloom writes itself. followed: how far the
    files were read that files of the plan follow. reads_source: it takes what the source has, so that what it shows is
    new; a snapshot that is loaded, or a redrive, shows nothing of how far the source is.
    """

    number: int
    at: datetime
    splits: tuple[Task, ...] = ()
    followed: Mapping[Name, Position] = field(default_factory=dict)
    reads_source: bool = False

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return sum(split.bytes for split in self.splits)
