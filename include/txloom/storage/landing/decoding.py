"""What a landing takes is decoded, in this process when it is small, else spread by Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.events.formats import Headers
from txloom.events.wal2json import decoder as wal2json_decoder
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.delta import data_files
from txloom.storage.landing import name_spellings
from txloom.storage.landing.change_events import with_compact_events, with_position
from txloom.storage.landing.open_transactions import OpenBefore
from txloom.storage.paths import TablePaths
from txloom.storage.sources.file_positions import Position, to_json
from txloom.storage.sources.files import FileUnreadable
from txloom.storage.sources.splits import LandingPlan, Messages, Task
from txloom.storage.system_tables import CHANGE_EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from txloom.events.wal2json.decoder import Open

CHUNK = 20_000
"""Messages that the decoder gets at once."""
LOCAL_BYTES = 16 << 20
"""Up to so many bytes of files are decoded in this process: no JVM is needed for them."""
PART_BYTES = 128 << 20
"""Decoded events that a Spark task holds before it writes a file."""


class Decoder(Protocol):
    """What a source format offers: one row out for each message in, in order."""

    def decode(
        self, topic: str, values: Sequence[bytes | None], headers: Headers | None = None, first: int = 1
    ) -> pa.Table:
        """Decode messages of one topic; see `txloom.events`."""
        ...

    @property
    def declared(self) -> Sequence[str]:
        """Return the names of the source as they are declared."""
        ...

    @property
    def spellings(self) -> dict[str, str]:
        """Return how names of the source were spelled so far."""
        ...

    def resume(self, topic: str, left: "Open | None") -> None:
        """Go on in an ordered topic where an earlier landing left a transaction open."""
        ...

    def open(self, topic: str) -> "Open | None":
        """Return the transaction that is open behind what was decoded of an ordered topic."""
        ...


class Reader(Protocol):
    """What a transport offers: the messages of each task, in order, in blocks."""

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield what a task takes; raises SourceUnavailable where it cannot be read."""
        ...

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Raise SourceLost where what was just read is not what was planned."""
        ...


NewDecoder = Callable[..., Decoder]
"""Makes a decoder on an executor, out of the spellings so far: compiled decoders do not travel."""


@dataclass(frozen=True)
class Decoded:
    """What was decoded of a landing, in this process or in files that no commit names yet, and how far files came.

    spellings: of the names that were met.
    """

    events: pa.Table | None
    written: "Sequence[data_files.DataFile]"
    positions: Sequence[Position]
    spellings: dict[str, str]


@dataclass(frozen=True)
class Decoding:
    """How a landing becomes events: what it takes, what reads that, what decodes it, what is open in front of it."""

    landing: LandingPlan
    source: Reader
    new: NewDecoder
    open_before: OpenBefore


def decode(
    spark: "Callable[[], SparkSession]", how: Decoding, queues: Sequence[Sequence[Task]], paths: TablePaths
) -> Decoded:
    """Decode queues of tasks; where a file cannot be read, what was decoded is not whole, and its position says so."""
    if how.landing.bytes > LOCAL_BYTES:
        return decode_files(spark(), how, queues, paths)
    decoder, chunks = how.new(spellings=name_spellings.known(paths)), [CHANGE_EVENTS.empty_table()]
    reached = list[Position]()
    for queue in queues:
        chunks += decode_queue(decoder, how, queue, reached)
    return Decoded(pa.concat_tables(chunks), (), reached, decoder.spellings)


def decode_files(spark: "SparkSession", how: Decoding, queues: Sequence[Sequence[Task]], paths: TablePaths) -> Decoded:
    """Decode a landing's files into files of change_events, in one Spark task for each queue, the largest first.

    Where tasks met names in several spellings they decode once more, all with the same one.
    """
    queues = sorted(queues, key=lambda queue: sum(task.size for task in queue), reverse=True)
    path, spellings = paths.change_events, name_spellings.known(paths)

    def read(some: Iterable[Sequence[Task]]) -> "Iterable[data_files.DataFile | Position | dict[str, str]]":
        decoder, reached = how.new(spellings=spellings), list[Position]()
        for queue in some:
            for events in gathered(decode_queue(decoder, how, queue, reached)):
                numbered = with_compact_events(events, how.landing, known=finished_before(paths, events))
                yield data_files.write_file(numbered, names.CHANGE_EVENTS, path)
        yield from reached
        yield decoder.spellings

    while queues:
        made = spark.sparkContext.parallelize(queues, len(queues)).mapPartitions(read).collect()
        spellings, is_one = name_spellings.agreed([each for each in made if isinstance(each, dict)], how.new().declared)
        if is_one:
            positions = [each for each in made if isinstance(each, Position)]
            return Decoded(None, [each for each in made if isinstance(each, data_files.DataFile)], positions, spellings)
    return Decoded(None, (), (), spellings)


def gathered(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put decoded chunks together until they are worth a file, ordered so that a release finds a transaction's rows."""
    held: list[pa.Table] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += chunk.nbytes
        if size >= PART_BYTES:
            yield _by_transaction(held)
            held, size = [], 0
    if held:
        yield _by_transaction(held)


def _by_transaction(chunks: Sequence[pa.Table]) -> pa.Table:
    events = pa.concat_tables(chunks).combine_chunks()
    return events.take(pc.sort_indices(events.column("tx")))


def decode_queue(
    decoder: Decoder, how: Decoding, queue: Sequence[Task], reached: "list[Position]"
) -> Iterator[pa.Table]:
    """Yield the messages of tasks, decoded, with their coordinates, in chunks.

    reached: takes how far each file was read, or why it could not be.
    """
    for task in queue:
        how.open_before.enter(decoder, task)
        try:
            yield from _decode_task(decoder, how, task, reached)
        except FileUnreadable as error:
            reached.append(error.position)
            continue
        how.open_before.leave(decoder, task)


def _decode_task(decoder: Decoder, how: Decoding, task: Task, reached: "list[Position]") -> Iterator[pa.Table]:
    before, tail, inside, is_first = decoder.open(task.topic), list["Open | None"](), False, True
    for block in how.source.messages(task):
        if block.is_tail:
            tail.append(decoder.open(task.topic))
        for start in range(0, len(block.values), CHUNK):
            chunk = slice(start, start + CHUNK)
            headers = None if block.headers is None else block.headers[chunk]
            first = 1 if is_first and task.part is None else block.positions[start]
            events = decoder.decode(task.topic, block.values[chunk], headers, first)
            inside, is_first = inside or (is_first and _begins_inside(events)), False
            if not block.landed:
                yield with_position(events, task, block.positions[chunk], how.landing)
        if block.reached is not None:
            left = decoder.open(task.topic)
            end = replace(block.reached, open=to_json([*tail, left][0]), left=to_json(left))
            reached.append(end if task.start else replace(end, before=to_json(before), begins_inside=inside))


def _begins_inside(events: pa.Table) -> bool:
    """Tell whether messages begin in a transaction that is not open."""
    causes = pa.array([wal2json_decoder.OUTSIDE, wal2json_decoder.ANOTHER])
    return bool(pc.any(pc.is_in(events.column("cause"), causes)).as_py())
