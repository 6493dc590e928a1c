"""The input splits of a landing, each a file or a range of records, and the messages that are read from one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from txloom.events.formats import Headers
from txloom.storage.sources.file_positions import Name, Position

COMPRESSION = 10
"""Bytes of content that are estimated for a byte of a compressed file."""
MOST_COMPRESSED = 1032
"""The most bytes, and so lines, that one byte of a compressed file can hold."""
PLACE_BITS = 39
"""Bits of the position of a message within its landing."""
RECORD_BYTES = 600
"""Bytes that are estimated for a record."""


class Messages(NamedTuple):
    """A block of messages: their positions (lines or offsets), values, and headers where there are any.

    landed: an earlier landing took them: they are decoded for the transaction that they leave open, and not landed
    again. is_tail: the last line of a file that does not end in a newline. reached: how far the file was read with
    them.
    """

    positions: Sequence[int]
    values: Sequence[bytes | None]
    headers: Headers | None = None
    landed: bool = False
    is_tail: bool = False
    reached: Position | None = None


@dataclass(frozen=True)
class Range:
    """Records of one partition, from offset `first` to before `until`: what it holds, or what a landing takes of it."""

    topic: str
    topic_id: str
    partition: int
    first: int
    until: int

    def __str__(self) -> str:
        """Return the range as messages name it."""
        return f"{self.topic}[{self.partition}] from offset {self.first}"


class Piece(NamedTuple):
    """A part of an input split that a task decodes by itself.

    start, until: positions in the file's content, each the beginning of a line (until: or the end), or offsets. lines:
    how many lines or records of the split come before it.
    """

    start: int
    until: int
    lines: int


@dataclass(frozen=True)
class Task:
    """One input split: its number in the landing, its topic, and its path relative to the source, or its records.

    size: the bytes of the file that are taken, whatever it has when it is read. start, origin, follows: see
    `LANDED_FILES`; origin is how far that file was read. piece: the part that is read, where not all of it is.
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
    piece: Piece | None = None

    @property
    def is_begun(self) -> bool:
        """Return whether its first line or record is read."""
        return self.piece is None or not self.piece.lines

    @property
    def position(self) -> Position:
        """Return how far the file was read before, under its present name."""
        again = self.origin is not None and self.origin.file == self.file
        fresh = Position(self.topic, self.file, self.size, self.modified, read_again=again)
        if self.origin is None or not self.start:
            return fresh
        was = self.origin.was if again else self.origin.file
        position = replace(self.origin, file=self.file, size=self.size, modified=self.modified, was=was)
        return replace(position, problem=None, is_access=False, lost=None, read_again=False)

    @property
    def bytes(self) -> int:
        """Return about how many bytes there are to decode."""
        if self.part is not None:
            first, until = (self.piece.start, self.piece.until) if self.piece else (self.part.first, self.part.until)
            return (until - first) * RECORD_BYTES
        if self.piece is not None:
            return self.piece.until - self.piece.start
        return self.size * COMPRESSION if self.file.endswith(".gz") else self.size - self.start

    @property
    def most_lines(self) -> int:
        """Return the most messages that it can have."""
        if self.part is not None:
            return self.part.until - self.part.first
        return self.size if self.file.endswith(PLAIN) else self.size * MOST_COMPRESSED


PLAIN = (".json", ".jsonl", ".csv", ".txt")
"""Suffixes of files that hold no more lines than bytes."""


def line_bits(tasks: int) -> int:
    """Return the bits that are left for a line where so many splits are numbered from 1.

    >>> line_bits(1), line_bits(8191), line_bits(8192)
    (38, 26, 25)
    """
    return PLACE_BITS - tasks.bit_length()


def fitting(tasks: Sequence[Task]) -> list[Task]:
    """Return the first splits, at least one, whose messages all have a position in one landing.

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
    """Return the ranges of one landing, each cut to as many records as have a position there.

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
    new; a snapshot that is loaded, or a redrive, shows nothing of how far the source is. redecodes: it decodes
    undecided transactions again, by a changed declaration. lands_ahead: it lands rows again that may have been ahead of
    the stream.
    """

    number: int
    at: datetime
    splits: tuple[Task, ...] = ()
    followed: Mapping[Name, Position] = field(default_factory=dict)
    reads_source: bool = False
    redecodes: bool = False
    lands_ahead: bool = False

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return sum(split.bytes for split in self.splits)
