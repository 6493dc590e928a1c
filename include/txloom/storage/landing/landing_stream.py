"""Stream the landings of change_events to the buffer: a micro-batch reads the next ones from the newest version.

The streaming source is a plan (`txloom.storage.buffer.batch_plan`), with a row for each micro-batch; Spark's tasks read
the landings that it names. So maintenance of change_events does not affect the stream: Delta's streaming source goes by
files, and maintenance removes files that were not read yet and writes old rows into new files (docs/adr/0034).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.storage.buffer.buffer_stream import NO_CLOCK
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.system_tables import arrow_schema
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS, split

if TYPE_CHECKING:
    from pyarrow.lib import Int64Type

ARRIVALS = arrow_schema(
    [
        ("bucket", pa.int32()),
        ("landing", pa.int64()),
        ("at", pa.int64()),
        ("reached", pa.int64()),
        ("numbers", pa.binary()),
    ]
)
"""The compact events (`numbers`) of a bucket in one landing, or the landing's clock: `at` in microseconds, `reached`,
the low watermark (a csn), and in `numbers` its unreadable ranges."""
WHERE = ("bucket", "numbers")
SPARK_ARRIVALS = "bucket int, landing bigint, at bigint, reached bigint, numbers binary"


def stream(spark: SparkSession, paths: TablePaths, plan: str, tasks: int, parts: int = 1) -> DataFrame:
    """Return a streaming frame in the schema ARRIVALS, with a micro-batch for each row of a plan.

    Args:
        spark: the session.
        paths: where the tables are.
        plan: the path of the plan's table.
        tasks: the most tasks that read a micro-batch; with one there is no shuffle.
        parts: into how many parts each bucket of a landing is split, which are groups of their own.
    """
    planned = spark.readStream.format("delta").options(startingVersion=0, maxFilesPerTrigger=1).load(plan)
    pieces = planned.select("after", "until", "tasks", F.explode(F.expr("sequence(0, tasks - 1)")).alias("task"))
    if tasks > 1:
        pieces = pieces.repartition(tasks, "task")
    return pieces.mapInArrow(_reader(paths.change_events, parts), SPARK_ARRIVALS)


def _reader(path: str, parts: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in (row for some in pieces for row in some.to_pylist()):
            buckets = range(piece["task"], BUCKETS, piece["tasks"])
            for rows in arrivals(path, piece["after"], piece["until"], buckets, parts):
                yield from rows.to_batches()

    return read


def arrivals(
    path: str, after: int, until: int, buckets: Sequence[int] = range(BUCKETS), parts: int = 1
) -> Iterator[pa.Table]:
    """Yield the compact events and clocks of landings in the schema ARRIVALS.

    Args:
        path: the path of change_events.
        after: the landing behind which to begin.
        until: the last landing.
        buckets: those whose events are yielded; each of them, or each of its parts, gets every clock.
        parts: into how many parts each bucket is split (`compact_events.split`).
    """
    chosen = f"kind = 'clock' or (kind = 'numbers' and bucket in ({int_list(buckets)}))"
    columns = "kind, bucket, landing, landed_at, csn, numbers"
    sql = f"select {columns} from t where landing > {after} and landing <= {until} and ({chosen})"
    for rows in arrow_tables.batches({"t": table_at(path)}, sql):
        is_clock = pc.equal(rows.column("kind"), pa.scalar("clock"))
        yield _split(_compact_events(rows.filter(pc.invert(is_clock))), parts)
        yield _clocks(rows.filter(is_clock), [bucket + BUCKETS * part for part in range(parts) for bucket in buckets])


def _compact_events(rows: pa.Table) -> pa.Table:
    no_clock = pa.repeat(pa.scalar(NO_CLOCK, pa.int64()), rows.num_rows)
    columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = [rows.column("bucket"), rows.column("landing")]
    columns += [_micros(rows), no_clock, rows.column("numbers")]
    return pa.Table.from_arrays(columns, names=ARRIVALS.names).cast(ARRIVALS)


def _split(rows: pa.Table, parts: int) -> pa.Table:
    """Return the compact events of buckets as those of their parts."""
    if parts == 1 or not rows.num_rows:
        return rows
    pieces = list[tuple[int, int, bytes]]()
    for number, (bucket, packed) in enumerate(zip(*(rows.column(name).to_pylist() for name in WHERE), strict=True)):
        pieces += [(number, *piece) for piece in split(bucket, packed, parts)]
    numbers, buckets, packed_parts = (list(column) for column in zip(*pieces, strict=True))
    of_parts = rows.take(pa.array(numbers, pa.int64()))
    for name, values in zip(WHERE, (buckets, packed_parts), strict=True):
        field = ARRIVALS.field(name)
        of_parts = of_parts.set_column(ARRIVALS.names.index(name), field, pa.array(values, field.type))
    return of_parts


def _clocks(rows: pa.Table, buckets: Sequence[int]) -> pa.Table:
    """Return each clock, with its unreadable ranges, once for every bucket."""
    again = np.repeat(np.arange(rows.num_rows), len(buckets))
    reached = rows.column("csn").combine_chunks().fill_null(ev.ANYWHERE)
    columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = [
        pa.array(np.tile(np.array(buckets, np.int32), rows.num_rows)),
        *(each.take(again) for each in (rows.column("landing"), _micros(rows), reached, rows.column("numbers"))),
    ]
    return pa.Table.from_arrays(columns, names=ARRIVALS.names).cast(ARRIVALS)


def _micros(rows: pa.Table) -> "pa.ChunkedArray[pa.Scalar[Int64Type]]":
    """Return when rows were landed, in microseconds since 1970."""
    return rows.column("landed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
