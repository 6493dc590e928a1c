"""Cut a large input split into pieces that tasks decode beside each other; its rows and its position stay the same.

A piece is some whole lines of a file, or some records of a range. How many lines come before a piece of a file is
counted first, and what the pieces read is compared with the whole file at last: both take a fraction of what decoding
takes. A file that was replaced in between is left out, as one that cannot be read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from txloom.storage.sources.file_positions import Name, Position
from txloom.storage.sources.splits import RECORD_BYTES, Piece, Range, Task
from txloom.storage.spark.tasks import cores, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST, MOST = 32 << 20, 256 << 20
"""Bytes of a piece: below, a task costs more than it saves; above, too few share the work."""
FOR_EACH_CORE = 3
"""Pieces for each core of all that there is, so that all end at about the same time."""


@runtime_checkable
class Divided(Protocol):
    """A source whose files can be read in pieces."""

    def has_pieces(self, task: Task) -> bool:
        """Say whether a file can be read from the middle."""
        ...

    def count_lines(self, task: Task, start: int, until: int) -> tuple[int, int] | None:
        """Return how many lines end in some bytes of a file, and the position behind the last; None: unreadable."""
        ...

    def joined(self, task: Task, pieces: Sequence[Position]) -> Position:
        """Return how far a file was read, of how far its pieces were; with a problem where it changed meanwhile."""
        ...


def piece_bytes(total: int) -> int:
    """Return how many bytes a piece has, of so many in all."""
    return min(MOST, max(LEAST, total // (FOR_EACH_CORE * cores())))


def in_pieces(session: "Callable[[], SparkSession]", tasks: Sequence[Task], source: object, most: int) -> list[Task]:
    """Return input splits, those that have more than some bytes cut into pieces.

    Args:
        session: opens the Spark session; see `in_tasks`.
        tasks: the splits.
        source: reads them; one whose files cannot be divided leaves them whole.
        most: the bytes of a piece.
    """
    files = source if isinstance(source, Divided) else None
    large = [task for task in tasks if task.bytes > most and files and files.has_pieces(task)]
    windows = [(task, at, min(at + most, task.size)) for task in large for at in range(task.start, task.size, most)]

    def counted(some: Iterable[tuple[Task, int, int]]) -> Iterable[tuple[int, int] | None]:
        assert files is not None
        for task, start, until in some:
            yield files.count_lines(task, start, until)

    ends = dict[int, list[tuple[int, int] | None]]()
    for (task, _, _), end in zip(windows, in_tasks(session, windows, counted), strict=True):
        ends.setdefault(task.number, []).append(end)
    return [piece for task in tasks for piece in _pieces(task, ends.get(task.number, [None]), most)]


def _pieces(task: Task, ends: Sequence[tuple[int, int] | None], most: int) -> list[Task]:
    """Cut a split; one that cannot be read is left whole, so that reading it says why."""
    known = [end for end in ends if end is not None]
    pieces = of_lines(task, known) if len(known) == len(ends) else []
    if task.part is not None:
        pieces = of_records(task.part, max(1, most // RECORD_BYTES))
    return [replace(task, piece=piece) for piece in pieces] if len(pieces) > 1 else [task]


def of_records(part: Range, most: int) -> list[Piece]:
    """Return the pieces of a range, each of at most so many offsets.

    >>> of_records(Range("t", "id", 0, 10, 15), 3)
    [Piece(start=10, until=13, lines=0), Piece(start=13, until=15, lines=3)]
    """
    starts = range(part.first, part.until, most)
    return [Piece(start, min(start + most, part.until), start - part.first) for start in starts]


def of_lines(task: Task, ends: Sequence[tuple[int, int]]) -> list[Piece]:
    """Return the pieces of a file.

    >>> of_lines(Task(1, "t", "t/1.jsonl", 99), [(2, 20), (0, 0), (5, 95)])
    [Piece(start=0, until=20, lines=0), Piece(start=20, until=99, lines=2)]

    Args:
        task: the file.
        ends: of each window of its content, how many lines end there, and the position behind the last of them.
    """
    pieces, start, lines = list[Piece](), task.start, 0
    for count, end in ends:
        if count:
            pieces.append(Piece(start, end, lines))
            start, lines = end, lines + count
    return [*pieces[:-1], pieces[-1]._replace(until=task.size)] if pieces else []


def joined(
    session: "Callable[[], SparkSession]", tasks: Sequence[Task], read: Sequence[Position], source: object
) -> list[Position]:
    """Return how far each file was read, of how far its pieces were; those of other files as they are.

    Args:
        session: opens the Spark session; see `in_tasks`.
        tasks: the splits and pieces that were read.
        read: a position for each piece, or more than one.
        source: holds the files.
    """
    cut = {(task.topic, task.file): replace(task, piece=None) for task in tasks if task.piece and task.part is None}
    failed = {position.name: position for position in read if position.problem is not None}
    pieces = dict[Name, dict[int, Position]]()
    for position in read:
        if position.name in cut and position.name not in failed:
            pieces.setdefault(position.name, {})[position.start] = position

    def join(some: Iterable[tuple[Task, Sequence[Position]]]) -> Iterable[Position]:
        assert isinstance(source, Divided)
        for task, positions in some:
            yield source.joined(task, positions)

    items = [(cut[name], [each for _, each in sorted(positions.items())]) for name, positions in pieces.items()]
    whole = [position for position in read if position.name not in cut and position.name not in failed]
    return [*whole, *failed.values(), *in_tasks(session, items, join)]
