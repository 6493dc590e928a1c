"""Landing: planned files become rows of change_events, in this process when they are small, else spread by Spark."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.errors import SourceUnavailable
from txloom.storage import books, files, local
from txloom.storage.own import CHANGE_EVENTS, DEAD_LETTERS, INSTANT
from txloom.storage.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES_PER_FILE = 1 << 32
"""`row` is file number times this plus the line: unique in a landing, and the same when a landing is repeated."""
CHUNK = 20_000
"""Messages that the decoder gets at once."""
LOCAL_BYTES = 16 << 20
"""Up to so many bytes of files are decoded in this process: no JVM is needed for them."""
COMPRESSION = 10
"""What a byte of a compressed file is taken for."""
PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,csn"}


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


@dataclass(frozen=True)
class Landing:
    """One landing: its number, the run's clock, and the files it takes."""

    number: int
    at: datetime
    tasks: tuple[Task, ...]

    @property
    def bytes(self) -> int:
        """Return about how much there is to decode."""
        return sum(task.size * (COMPRESSION if task.file.endswith(".gz") else 1) for task in self.tasks)


def planned(path: str) -> list[dict[str, Any]]:
    """Return every planned file of every landing."""
    return books.query(
        path, "select landing, at, file_number, topic, file, size, modified from t order by landing, file_number"
    )


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
    write_id = names.write_id(place.pipeline, names.CHANGE_EVENTS, 0)
    if books.last_written(place.change_events, write_id) >= landing.number:
        return
    if landing.bytes <= LOCAL_BYTES:
        decoder = new()
        parts = [part for task in landing.tasks for part in decode_file(decoder, root, task, landing)]
        local.append_once(
            pa.concat_tables(parts or [CHANGE_EVENTS.empty_table()]), place.change_events, write_id, landing.number
        )
        return
    from txloom.storage import tables

    tables.append_once(decode_files(spark(), new, root, landing), place.change_events, write_id, landing.number)


def decode_files(spark: "SparkSession", new: NewDecoder, root: str, landing: Landing) -> "DataFrame":
    """Read and decode a landing's files, one Spark task a file, into the schema of change_events."""
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = [(task.number, task.topic, task.file, task.size) for task in landing.tasks]
    spread = spark.createDataFrame(
        spark.sparkContext.parallelize(tasks, len(tasks)), "number bigint, topic string, file string, size bigint"
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = new()
        for batch in batches:
            for task in batch.to_pylist():
                for part in decode_file(decoder, root, Task(**task), landing):
                    yield from part.to_batches()

    return spread.mapInArrow(read, from_arrow_schema(CHANGE_EVENTS))


def decode_file(decoder: Decoder, root: str, task: Task, landing: Landing) -> Iterator[pa.Table]:
    """Yield a file's messages, decoded, with their coordinates, in chunks."""
    for first, lines in _lines(root, task.file):
        for start in range(0, len(lines), CHUNK):
            events = decoder.decode(task.topic, lines[start : start + CHUNK])
            yield _placed(events, task, first + start, landing)


def _lines(root: str, file: str) -> Iterator[tuple[int, list[bytes]]]:
    try:
        yield from files.read_lines(root, file)
    except (OSError, EOFError) as error:
        raise SourceUnavailable(f"{root}/{file}: planned for landing but cannot be read now: {error}") from error


def _placed(events: pa.Table, task: Task, first_line: int, landing: Landing) -> pa.Table:
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
    }
    return pa.table(
        {name: own[name] if name in own else events.column(name) for name in CHANGE_EVENTS.names}, CHANGE_EVENTS
    )


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
    row = {"landing": landing.number, "row": -1, "kind": "clock", "landed_at": landing.at}
    write_id = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    books.append(place.change_events, [row], CHANGE_EVENTS, once=(write_id, landing.number))


def count(landing: Landing, place: Place) -> dict[str, int]:
    """Count what a landing took in, by what becomes of it."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones"), 0)
    counts["files"] = len(landing.tasks)
    if not landing.tasks:
        return counts
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


def create_tables(place: Place) -> None:
    """Create the tables that landing writes."""
    books.ensure(place.change_events, CHANGE_EVENTS, PROPERTIES)
    books.ensure(place.dead_letters, DEAD_LETTERS)
