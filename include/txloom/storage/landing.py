"""Landing: planned files become rows of change_events, in this process when they are small, else spread by Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.errors import SourceUnavailable
from txloom.storage import books, evolution, files, local, parts
from txloom.storage.own import CHANGE_EVENTS, DEAD_LETTERS, INSTANT, LANDED_FILES
from txloom.storage.place import Place
from txloom.transactions.hashes import hashed
from txloom.transactions.numbers import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES_PER_FILE = 1 << 32
"""`row` is file number times this plus the line: unique in a landing, and the same when a landing is repeated."""
CLOCK_ROW, NUMBERS_ROW = -1, -2
"""`row` of what did not come from the source."""
CHUNK = 20_000
"""Messages that the decoder gets at once."""
LOCAL_BYTES = 16 << 20
"""Up to so many bytes of files are decoded in this process: no JVM is needed for them."""
COMPRESSION = 10
"""What a byte of a compressed file is taken for."""
PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,tx,csn"}
PART_BYTES = 128 << 20
"""Decoded events that a Spark task holds before it writes a file."""


class Decoder(Protocol):
    """What a source format offers: one row out for each message in, in order."""

    def decode(self, topic: str, values: Sequence[bytes | None]) -> pa.Table:
        """Decode messages of one topic; see `txloom.events`."""
        ...


NewDecoder = Callable[[], Decoder]
"""Makes a decoder on an executor: compiled decoders do not travel."""


@dataclass(frozen=True)
class Task:
    """One planned file: its number in the landing, its topic, and its path relative to the source."""

    number: int
    topic: str
    file: str
    size: int

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return self.size * (COMPRESSION if self.file.endswith(".gz") else 1)


@dataclass(frozen=True)
class Landing:
    """One landing: its number, the run's clock, and the files it takes."""

    number: int
    at: datetime
    tasks: tuple[Task, ...]

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return sum(task.bytes for task in self.tasks)


def planned(path: str) -> list[dict[str, Any]]:
    """Return every planned file of every landing."""
    return books.query(
        path, "select landing, at, file_number, topic, file, size, modified from t order by landing, file_number"
    )


def write_plan(place: Place, number: int, rows: Sequence[dict[str, Any]]) -> None:
    """Write down what a new landing takes, once: from here on it is finished, by this run or the next."""
    write_id = names.write_id(place.pipeline, names.LANDED_FILES, 0)
    books.append(place.landed_files, rows, LANDED_FILES, once=(write_id, number))


def landing_of(plan: Sequence[dict[str, Any]], number: int) -> Landing:
    """Pick one landing out of the plan."""
    rows = [row for row in plan if row["landing"] == number]
    tasks = [
        Task(row["file_number"], row["topic"], row["file"], row["size"]) for row in rows if row["file"] is not None
    ]
    return Landing(number, rows[0]["at"].astimezone(UTC), tuple(tasks))


def write_events(
    spark: "Callable[[], SparkSession]", new: NewDecoder, root: str, landing: Landing, place: Place
) -> None:
    """Decode a landing's files into change_events, once."""
    if books.last_written(place.change_events, _write_id(place)) >= landing.number:
        return
    if landing.bytes <= LOCAL_BYTES:
        decoder = new()
        chunks = [chunk for task in landing.tasks for chunk in decode_file(decoder, root, task, landing)]
        events = pa.concat_tables(chunks or [CHANGE_EVENTS.empty_table()])
        append(with_numbers(events, landing), landing, place)
        return
    append_parts(decode_files(spark(), new, root, landing, place), landing, place)


def append(events: pa.Table, landing: Landing, place: Place) -> None:
    """Append a landing's events, once."""
    local.append_once(events, place.change_events, _write_id(place), landing.number)


def append_parts(written: "Sequence[parts.Part]", landing: Landing, place: Place) -> None:
    """Commit files that tasks wrote as a landing's events, once."""
    parts.append_parts(written, place.change_events, _write_id(place), landing.number)


def _write_id(place: Place) -> str:
    return names.write_id(place.pipeline, names.CHANGE_EVENTS, 0)


def decode_files(
    spark: "SparkSession", new: NewDecoder, root: str, landing: Landing, place: Place
) -> "list[parts.Part]":
    """Decode a landing's files, one Spark task a file, the largest first, into files of change_events."""
    tasks = sorted(landing.tasks, key=lambda task: task.size, reverse=True)
    path = place.change_events

    def read(found: Iterable[Task]) -> Iterable[parts.Part]:
        decoder = new()
        for task in found:
            for events in gathered(decode_file(decoder, root, task, landing)):
                yield parts.write_part(with_numbers(events, landing), names.CHANGE_EVENTS, path)

    return spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(read).collect()


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


def decode_file(decoder: Decoder, root: str, task: Task, landing: Landing) -> Iterator[pa.Table]:
    """Yield a file's messages, decoded, with their coordinates, in chunks."""
    for first, lines in _lines(root, task.file):
        for start in range(0, len(lines), CHUNK):
            events = decoder.decode(task.topic, lines[start : start + CHUNK])
            yield placed(events, task, first + start, landing)


def _lines(root: str, file: str) -> Iterator[tuple[int, list[bytes]]]:
    try:
        yield from files.read_lines(root, file)
    except (OSError, EOFError) as error:
        raise SourceUnavailable(f"{root}/{file}: planned for landing but cannot be read now: {error}") from error


def placed(events: pa.Table, task: Task, first_line: int, landing: Landing) -> pa.Table:
    """Add the coordinates to decoded events and bring them into the order of change_events."""
    size = events.num_rows
    line = pa.array(range(first_line, first_line + size), pa.int64())
    own = {
        "landing": pa.repeat(pa.scalar(landing.number, pa.int64()), size),
        "row": pc.add(line, task.number * LINES_PER_FILE),
        "topic": pa.repeat(pa.scalar(task.topic, pa.string()), size),
        "partition": pa.nulls(size, pa.int32()),
        "offset": pa.nulls(size, pa.int64()),
        "file": pa.repeat(pa.scalar(task.file, pa.string()), size),
        "line": line,
        "landed_at": pa.repeat(pa.scalar(landing.at, INSTANT), size),
        "tx": hashed(events.column("transaction_id")),
        "bucket": pa.nulls(size, pa.int32()),
        "numbers": pa.nulls(size, pa.binary()),
    }
    return pa.table(
        {name: own[name] if name in own else events.column(name) for name in CHANGE_EVENTS.names}, CHANGE_EVENTS
    )


def with_numbers(events: pa.Table, landing: Landing, *, reopen: bool = False) -> pa.Table:
    """Add to landed events the rows that the buffer reads instead of them; reopen: to decide on them again."""
    rows = [
        {"landing": landing.number, "row": NUMBERS_ROW, "kind": "numbers", "bucket": bucket, "numbers": numbers}
        for bucket, numbers in packed(events, reopen=reopen)
    ]
    return pa.concat_tables([events, pa.Table.from_pylist(rows, CHANGE_EVENTS)])


def write_poison(landing: Landing, place: Place) -> None:
    """Append a landing's poison to the dead letters, once."""
    write_id = names.write_id(place.pipeline, f"{names.DEAD_LETTERS}.land", 0)
    poison = local.select(place.change_events, f"select * from t where landing = {landing.number} and kind = 'poison'")
    if poison.num_rows:
        dead = poison.append_column("dead_at", pa.repeat(pa.scalar(landing.at, INSTANT), poison.num_rows))
        local.append_once(
            dead.append_column("release", pa.nulls(dead.num_rows, pa.int64())),
            place.dead_letters,
            write_id,
            landing.number,
        )


def write_clock(landing: Landing, place: Place) -> None:
    """Append the landing's clock row: a commit of its own, so that it follows all events of its landing."""
    row = {"landing": landing.number, "row": CLOCK_ROW, "kind": "clock", "landed_at": landing.at}
    write_id = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    books.append(place.change_events, [row], CHANGE_EVENTS, once=(write_id, landing.number))


def count(landing: Landing, place: Place) -> dict[str, int]:
    """Count what a landing took in, by what becomes of it."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones"), 0)
    counts["files"] = len(landing.tasks)
    sql = (
        'select kind, "table" is not null as watched, count(*) as n from t '
        f'where landing = {landing.number} and "row" >= 0 group by 1, 2'
    )
    names_of = {"metadata": "metadata", "poison": "poison", "tombstone": "tombstones"}
    for group in books.query(place.change_events, sql):
        name = names_of.get(group["kind"]) or ("rows" if group["watched"] else "unwatched")
        counts[name] += group["n"]
        counts["landed"] += group["n"]
    return counts


def land_again(new: NewDecoder, events: pa.Table, landing: Landing, place: Place) -> None:
    """Decode events that were landed before once more, as they are declared now, and land them under a new landing.

    events: topic, file, line, value, in the order in which they are to be taken. Their transactions are decided again.
    """
    decoder, chunks, first = new(), [CHANGE_EVENTS.empty_table()], 0
    for topic in events.column("topic").unique().to_pylist():
        own = events.filter(pc.equal(events.column("topic"), topic))
        decoded = decoder.decode(topic, [value.encode() for value in own.column("value").to_pylist()])
        found = placed(decoded, Task(0, topic, "", 0), first, landing)
        for name in ("file", "line"):
            found = found.set_column(found.schema.get_field_index(name), CHANGE_EVENTS.field(name), own.column(name))
        chunks.append(found)
        first += own.num_rows
    append(with_numbers(pa.concat_tables(chunks), landing, reopen=True), landing, place)


def create_tables(place: Place) -> None:
    """Create the tables that landing writes."""
    evolution.ensure(place.change_events, CHANGE_EVENTS, PROPERTIES)
    books.ensure(place.dead_letters, DEAD_LETTERS)
