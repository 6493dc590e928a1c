"""The Spark side of landing: decode planned files into change_events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.errors import SourceUnavailable
from txloom.storage import books, files, schemas, tables
from txloom.storage.books import INSTANT

LINES_PER_FILE = 1 << 32
"""`row` is file number times this plus the line: unique in a landing, and the same when a landing is repeated."""
CHUNK = 20_000
"""Messages that the decoder gets at once."""

CHANGE_EVENTS_PROPERTIES = {"delta.dataSkippingStatsColumns": "landing,row,kind,table,csn"}


class Decoder(Protocol):
    """What a source format offers: one row out for each message in, in order."""

    def decode(self, topic: str, values: Sequence[bytes | None]) -> pa.Table:
        """Decode messages of one topic; see `txloom.events`."""
        ...


@dataclass(frozen=True)
class Landing:
    """One landing: its number, the run's clock, and the files it takes."""

    number: int
    at: datetime
    files: tuple[tuple[int, str, str], ...]
    """(number, topic, path relative to the source) of each file."""


def planned(path: str) -> list[dict[str, object]]:
    """Return every planned file: landing, file, size, modified; landings without files have a null file."""
    return books.query(path, "select landing, at, file_number, topic, file, size, modified from t order by landing, file_number")


def landing_of(plan: Sequence[dict[str, object]], number: int) -> Landing:
    """Pick one landing out of the plan."""
    rows = [row for row in plan if row["landing"] == number]
    at = rows[0]["at"]
    assert isinstance(at, datetime)
    taken = tuple((int(str(row["file_number"])), str(row["topic"]), str(row["file"])) for row in rows if row["file"] is not None)
    return Landing(number, at.astimezone(UTC), taken)


def write_landing(spark: SparkSession, decoder: Decoder, root: str, landing: Landing, place: "Place") -> None:
    """Write one landing: its events, then its poison as dead letters, then its clock; what was written stays."""
    if landing.files:
        write_id = names.write_id(place.pipeline, names.CHANGE_EVENTS, 0)
        tables.append_once(decode_files(spark, decoder, root, landing), place.change_events, write_id, landing.number)
        poison = names.write_id(place.pipeline, f"{names.DEAD_LETTERS}.land", 0)
        tables.append_once(dead_letters(spark, place, landing), place.dead_letters, poison, landing.number)
    clock = names.write_id(place.pipeline, f"{names.CHANGE_EVENTS}.clock", 0)
    write_clock(place.change_events, landing, clock)


@dataclass(frozen=True)
class Place:
    """Where a pipeline's own tables lie."""

    warehouse: str
    pipeline: str

    def table(self, name: str) -> str:
        """Return the path of one table."""
        return names.table_path(self.warehouse, self.pipeline, name)

    @property
    def change_events(self) -> str:
        """Return the path of change_events."""
        return self.table(names.CHANGE_EVENTS)

    @property
    def dead_letters(self) -> str:
        """Return the path of dead_letters."""
        return self.table(names.DEAD_LETTERS)

    @property
    def landed_files(self) -> str:
        """Return the path of the plan of landings."""
        return self.table(names.LANDED_FILES)


def decode_files(spark: SparkSession, decoder: Decoder, root: str, landing: Landing) -> DataFrame:
    """Read and decode a landing's files, one task a file, into the schema of change_events."""
    tasks = spark.createDataFrame(list(landing.files), "number bigint, topic string, file string")
    spread = tasks.repartition(min(len(landing.files), 64), F.col("number")) if len(landing.files) > 1 else tasks
    return spread.mapInArrow(_reader(decoder, root, landing), schemas.CHANGE_EVENTS)


def _reader(decoder: Decoder, root: str, landing: Landing) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.to_pylist():
                for first, lines in _lines(root, task["file"]):
                    for start in range(0, len(lines), CHUNK):
                        values = lines[start : start + CHUNK]
                        events = decoder.decode(task["topic"], values)
                        yield from _placed(events, task, first + start, landing).to_batches()

    return read


def _lines(root: str, file: str) -> Iterator[tuple[int, list[bytes]]]:
    try:
        yield from files.read_lines(root, file)
    except (OSError, EOFError) as error:
        raise SourceUnavailable(f"{root}/{file}: planned for landing but cannot be read now: {error}") from error


def _placed(events: pa.Table, task: dict[str, object], first_line: int, landing: Landing) -> pa.Table:
    """Add the coordinates to decoded events and bring them into the order of change_events."""
    size = events.num_rows
    line = pa.array(range(first_line, first_line + size), pa.int64())
    row = pa.array(range(int(str(task["number"])) * LINES_PER_FILE + first_line, int(str(task["number"])) * LINES_PER_FILE + first_line + size), pa.int64())
    own = {
        "landing": pa.repeat(pa.scalar(landing.number, pa.int64()), size),
        "row": row,
        "topic": pa.repeat(pa.scalar(task["topic"], pa.string()), size),
        "partition": pa.nulls(size, pa.int32()),
        "offset": pa.nulls(size, pa.int64()),
        "file": pa.repeat(pa.scalar(task["file"], pa.string()), size),
        "line": line,
        "landed_at": pa.repeat(pa.scalar(landing.at, INSTANT), size),
    }
    order = [part.split()[0].strip("`") for part in _split_ddl(schemas.CHANGE_EVENTS)]
    return pa.table({name: own[name] if name in own else events.column(name) for name in order})


def _split_ddl(ddl: str) -> list[str]:
    """Split top-level fields of a DDL; map types hold a comma of their own."""
    return [part.strip() for part in ddl.replace("map<string,bigint>", "map").split(",")]


def dead_letters(spark: SparkSession, place: Place, landing: Landing) -> DataFrame:
    """Return a landing's poison as dead letters."""
    poison = tables.read(spark, place.change_events).where((F.col("landing") == landing.number) & (F.col("kind") == "poison"))
    return as_dead_letters(poison, landing.at, release=None)


def as_dead_letters(events: DataFrame, at: datetime, release: int | None) -> DataFrame:
    """Bring rows of change_events, with cause and detail, into the schema of dead_letters."""
    plain = [
        "transaction_id", "xid", "csn", "pos", "table", "source_table", "op", "kind", "cause", "detail", "topic", "partition",
        "offset", "file", "line", "landing", "row", "value", "landed_at",
    ]
    return events.select(*plain, F.lit(at).alias("dead_at"), F.lit(release).cast("bigint").alias("release"))


def write_clock(path: str, landing: Landing, write_id: str) -> None:
    """Append the landing's clock row: a commit of its own, so that it follows all events of its landing."""
    row = {"landing": landing.number, "row": -1, "kind": "clock", "landed_at": landing.at}
    schema = pa.schema([("landing", pa.int64()), ("row", pa.int64()), ("kind", pa.string()), ("landed_at", INSTANT)])
    books.append(path, [row], schema, once=(write_id, landing.number))
