"""Decode the messages of a landing, in this process where they are few, else in tasks."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.events.formats import Headers
from txloom.events.wal2json import decoder as wal2json_decoder
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.delta import arrow_tables, data_files
from txloom.storage.landing import name_spellings
from txloom.storage.landing.change_events import with_compact_events, with_position
from txloom.storage.landing.open_transactions import OpenBefore
from txloom.storage.paths import TablePaths
from txloom.storage.sources.divided_splits import in_pieces, joined, piece_bytes
from txloom.storage.sources.file_positions import Position, to_json
from txloom.storage.sources.files import FileUnreadable
from txloom.storage.sources.splits import LandingPlan, Messages, Task
from txloom.storage.spark.tasks import in_tasks
from txloom.storage.system_tables import CHANGE_EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from txloom.events.wal2json.decoder import Open

CHUNK = 20_000
"""The most messages that a decoder gets in one call."""
LOCAL_BYTES = int(os.environ.get("TXLOOM_LANDING_BYTES", str(16 << 20)))
"""The most bytes of a landing that are decoded in this process, without a JVM."""
PART_BYTES = 128 << 20
"""Bytes of decoded events from which on a Spark task writes a file."""


class Decoder(Protocol):
    """The decoder of a source format: one row of the envelope for each message, in order."""

    def decode(
        self, topic: str, values: Sequence[bytes | None], headers: Headers | None = None, first: int = 1
    ) -> pa.Table:
        """Return rows of the envelope for messages of one topic; see `txloom.events`.

        first: the position of the first message in its file.
        """
        ...

    @property
    def declared(self) -> Sequence[str]:
        """Return the names of source tables as they are declared."""
        ...

    @property
    def counts_places(self) -> bool:
        """Return whether equal rows of a file are numbered, and the number is part of their identity."""
        ...

    @property
    def spellings(self) -> dict[str, str]:
        """Return the spelling of each source name that was decoded so far."""
        ...

    def resume(self, topic: str, left: "Open | None") -> None:
        """Go on in an ordered topic; left: the transaction that an earlier landing left open there, or None."""
        ...

    def open(self, topic: str) -> "Open | None":
        """Return the transaction that is open behind the last decoded message of an ordered topic, or None."""
        ...


class Reader(Protocol):
    """The reader of a transport: it yields the messages of each input split, in order, in blocks."""

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield the messages of an input split, or of its piece; raises SourceUnavailable where they cannot be read."""
        ...

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Raise SourceLost where input splits that were just read are not those that were planned."""
        ...


NewDecoder = Callable[..., Decoder]
"""Makes a decoder of the spellings so far; Spark's tasks call it, because a compiled decoder cannot be pickled."""


@dataclass(frozen=True)
class Decoded:
    """The decoded messages of a landing."""

    events: pa.Table | None
    """Rows of change_events, where this process decoded them; else None."""
    written: "Sequence[data_files.DataFile]"
    """The files with rows of change_events that Spark's tasks wrote; no commit names them yet."""
    positions: Sequence[Position]
    """How far each file was read, or why it could not be."""
    spellings: dict[str, str]
    """The spelling of each source name that was decoded."""


@dataclass(frozen=True)
class Decoding:
    """What is needed to decode a landing."""

    landing: LandingPlan
    source: Reader
    new: NewDecoder
    open_before: OpenBefore
    """The transactions that are open in front of its input splits."""
    ordered: bool = False
    """Whether the input splits of one topic are decoded one after the other; else large ones are decoded in pieces."""


def decode(
    spark: "Callable[[], SparkSession]", how: Decoding, queues: Sequence[Sequence[Task]], paths: TablePaths
) -> Decoded:
    """Decode the input splits of a landing, in this process or in Spark's tasks; nothing is committed.

    Args:
        spark: opens the Spark session; called only where there are more than LOCAL_BYTES to decode.
        how: the landing, its reader and its decoder.
        queues: the input splits; those of one queue are decoded in order by one decoder.
        paths: where the tables are.

    Returns:
        the decoded rows. Where a file cannot be read they hold only some of it, and its position has the problem.

    Raises:
        SourceUnavailable: the source cannot be read now, or a message has no position left.
    """
    if how.landing.bytes > LOCAL_BYTES:
        return decode_files(spark, how, queues, paths)
    decoder, chunks = how.new(spellings=name_spellings.known(paths)), [CHANGE_EVENTS.empty_table()]
    reached = list[Position]()
    for queue in queues:
        chunks += decode_queue(decoder, how, queue, reached)
    return Decoded(pa.concat_tables(chunks), (), reached, decoder.spellings)


def decode_files(
    spark: "Callable[[], SparkSession]", how: Decoding, queues: Sequence[Sequence[Task]], paths: TablePaths
) -> Decoded:
    """Decode a landing into files of change_events, in one task for each queue or piece, the largest first.

    Where tasks decoded a name in several spellings, all decode once more with one of them; the files of the first pass
    are named by no commit. Arguments and result are those of `decode`.
    """
    if not how.ordered:
        tasks = [task for queue in queues for task in queue]
        pieces = in_pieces(spark, tasks, how.source, piece_bytes(how.landing.bytes))
        queues = [[piece] for piece in pieces]
    queues = sorted(queues, key=lambda queue: sum(task.bytes for task in queue), reverse=True)
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
        made = in_tasks(spark, queues, read)
        spellings, is_one = name_spellings.agreed([each for each in made if isinstance(each, dict)], how.new().declared)
        if is_one:
            positions = [each for each in made if isinstance(each, Position)]
            positions = joined(spark, [task for queue in queues for task in queue], positions, how.source)
            return Decoded(None, [each for each in made if isinstance(each, data_files.DataFile)], positions, spellings)
    return Decoded(None, (), (), spellings)


def gathered(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield decoded chunks as tables of at least PART_BYTES, the last one apart, sorted by the hash of the transaction.

    A release then reads few row groups of a file for a transaction.
    """
    for events in arrow_tables.gathered(chunks, PART_BYTES, size=lambda chunk: chunk.nbytes):
        yield _by_transaction(events.combine_chunks())


def _by_transaction(events: pa.Table) -> pa.Table:
    extent = pc.min_max(events.column("tx"))
    is_one = extent["min"].equals(extent["max"]) and not events.column("tx").null_count
    return events if is_one else events.take(pc.sort_indices(events.column("tx")))


def decode_queue(
    decoder: Decoder, how: Decoding, queue: Sequence[Task], reached: "list[Position]"
) -> Iterator[pa.Table]:
    """Yield the messages of input splits as rows of change_events, in chunks.

    Args:
        decoder: goes on from each input split to the next.
        how: the landing and its reader.
        queue: the input splits, in order.
        reached: a list to which is appended how far each file was read, or why it could not be.
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
            first = 1 if is_first and task.part is None and task.is_begun else block.positions[start]
            events = decoder.decode(task.topic, block.values[chunk], headers, first)
            inside, is_first = inside or (is_first and _begins_inside(events)), False
            if not block.landed:
                yield with_position(events, task, block.positions[chunk], how.landing)
        if block.reached is not None:
            left = decoder.open(task.topic)
            end = replace(block.reached, open=to_json([*tail, left][0]), left=to_json(left))
            reached.append(end if task.start else replace(end, before=to_json(before), begins_inside=inside))


def _begins_inside(events: pa.Table) -> bool:
    """Return whether some message belongs to a transaction whose BEGIN was not decoded."""
    causes = pa.array([wal2json_decoder.OUTSIDE, wal2json_decoder.ANOTHER])
    return bool(pc.any(pc.is_in(events.column("cause"), causes)).as_py())


def decode_by_topic(
    decoder: Decoder, events: pa.Table, *, by_file: bool = False
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield landed messages with what they are decoded to now, topic by topic, each in their order.

    Args:
        decoder: of the present declaration.
        events: topic, file, line, value and, of a source that has them, headers, in the order in which they are
            decoded. landing: may be there too.
        by_file: decode the messages of each delivery of a file by themselves.
    """
    for topic, messages in _by_topic(events, by_file=by_file):
        headers = None
        if "headers" in messages.column_names:
            headers = [None if pairs is None else dict(pairs) for pairs in messages.column("headers").to_pylist()]
        values = [value.encode() for value in cast("list[str]", messages.column("value").to_pylist())]
        yield messages, decoder.decode(topic, values, headers)


def _by_topic(events: pa.Table, *, by_file: bool) -> Iterator[tuple[str, pa.Table]]:
    """Yield the messages of each topic, in order; by_file: those of each delivery of a file by themselves."""
    group = _deliveries(events) if by_file else events.column("topic")
    for each in group.unique():
        messages = events.filter(pc.equal(group, each))
        yield messages.column("topic")[0].as_py(), messages


def _deliveries(events: pa.Table) -> "pa.Array[Any]":
    """Return the number of the delivery that each message is of; messages without a file are of one for each topic.

    A file is delivered again where a line of it comes again, and in each landing, of events that have one.
    """
    keys = [name for name in ("topic", "file", "line", "landing") if name in events.column_names]
    seen, numbers, numbered = Counter[tuple[Any, ...]](), dict[tuple[Any, ...], int](), list[int]()
    for topic, file, line, *landing in zip(*(events.column(name).to_pylist() for name in keys), strict=True):
        place = (topic, file, *landing)
        delivery = (topic,) if file is None else (*place, seen[*place, line])
        seen[*place, line] += 1
        numbered.append(numbers.setdefault(delivery, len(numbers)))
    return pa.array(numbered, pa.int64())
