"""Compare a large table with its extract in Spark's tasks, by buckets of the key's hash, so that memory is bounded.

Each task holds one bucket of both sides at a time, writes its row events as data files of change_events, and returns
these files and the result of the comparison.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models.pipeline import Table
from txloom.current.row_diff import KEY, VALUES, with_hashes
from txloom.current.row_hashes import BITS
from txloom.errors import ConfigurationError
from txloom.steps.snapshots.extract_diff import FILE, LINE, Compared, Comparison, compared, declared, empty, read
from txloom.storage.delta import data_files, spark_tables
from txloom.storage.delta.data_files import DataFile
from txloom.storage.delta.sql import spark_name
from txloom.storage.landing import change_events, decoding
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.spark import spread
from txloom.storage.targets import schemas

SUMMARY = "_txloom_summary"
HASHES = f"{KEY} binary, {VALUES} binary, {spread.BUCKET} int"
FILES = "number int, path string, size bigint"
Batches = Iterator[pa.RecordBatch]


def in_tasks(
    spark: SparkSession,
    comparison: Comparison,
    paths: TablePaths,
    current: str,
    numbers: range,
    result: Compared,
) -> list[DataFile]:
    """Compare a table bucket by bucket; return the data files of row events, which no commit names yet.

    Args:
        spark: the session.
        comparison: what to compare.
        paths: the tables of the pipeline.
        current: the name of its current table, which may not exist yet.
        numbers: the number of each bucket.
        result: counts, columns and problems are added to it.
    """
    extract, rows = (
        _extract(spark, comparison, len(numbers)),
        _current(spark, comparison.table, paths.table(current), len(numbers)),
    )
    write = _comparing(comparison, paths, numbers.start)
    written = []
    for row in spread.in_buckets(write, "results binary", (extract, None), (rows, None)).collect():
        of_bucket, made = pickle.loads(row["results"])
        result.add(of_bucket)
        written += made
    return written


def _extract(spark: SparkSession, comparison: Comparison, buckets: int) -> DataFrame:
    """Return the extract's rows, typed and hashed, and for each file a row with the columns and problems of `read`."""
    table = comparison.table
    rows = [(number, file.path, file.size) for number, file in enumerate(comparison.files)]
    files = spark.createDataFrame(spark.sparkContext.parallelize(rows, max(len(rows), 1)), FILES)
    schema = f"{schemas.columns_ddl(table)}, {FILE} int, {LINE} bigint, {HASHES}, {SUMMARY} string"
    return files.mapInArrow(_reading(table, buckets), schema)


def _reading(table: Table, buckets: int) -> Callable[[Batches], Batches]:
    def apply(batches: Batches) -> Batches:
        for batch in batches:
            for file in batch.to_pylist():
                result = Compared()
                try:
                    for rows in read(
                        table, file["number"], SnapshotFile(table.name, file["path"], file["size"]), result
                    ):
                        yield from _with_summary(_bucketed(rows, table, buckets), None)
                except ConfigurationError as error:
                    result.problems.append(str(error))
                summary = {name: sorted(getattr(result, name)) for name in ("columns", "undeclared", "problems")}
                yield from _with_summary(_bucketed(_nothing(table), table, buckets), json.dumps(summary))

    return apply


def _nothing(table: Table) -> pa.Table:
    """Return a row without values, which carries a file's summary to the bucket of such rows."""
    schema = empty(table).schema
    return pa.Table.from_pylist([dict.fromkeys(schema.names)], schema)


def _with_summary(rows: pa.Table, summary: str | None) -> Batches:
    yield from rows.append_column(SUMMARY, pa.repeat(pa.scalar(summary, pa.string()), rows.num_rows)).to_batches()


def _current(spark: SparkSession, table: Table, path: str, buckets: int) -> DataFrame:
    """Return the current rows, hashed; a column that the table does not have yet is null."""
    there = spark_tables.exists(path)
    rows = spark_tables.read(spark, path) if there else spark.createDataFrame([], schemas.current_ddl(table))
    missing = set(table.column_names) - set(rows.columns)
    for column in table.columns:
        if column.name in missing:
            rows = rows.withColumn(column.name, F.lit(None).cast(column.type.spark))
    chosen = rows.select(*[spark_name(name) for name in table.column_names])

    def hashed(batches: Batches) -> Batches:
        for batch in batches:
            yield from _bucketed(declared(pa.table(batch), table), table, buckets).to_batches()

    return chosen.mapInArrow(hashed, f"{schemas.columns_ddl(table)}, {HASHES}")


def _bucketed(rows: pa.Table, table: Table, buckets: int) -> pa.Table:
    """Add hashes, and the bucket of the key's hash."""
    hashed = with_hashes(rows, table.key, table.column_names)
    keys = cast("list[bytes]", hashed.column(KEY).to_pylist())
    numbers = np.frombuffer(b"".join(keys), np.uint64)[:: BITS // 64] % buckets
    return hashed.append_column(spread.BUCKET, pa.array(numbers.astype(np.int32)))


def _comparing(comparison: Comparison, paths: TablePaths, first: int) -> Callable[..., pa.Table]:
    at = comparison.transaction.at

    def apply(bucket: int, left: pa.Table, right: pa.Table) -> pa.Table:
        result, written = Compared(), list[DataFile]()
        for text in cast("list[str]", left.column(SUMMARY).drop_null().to_pylist()):
            summary = json.loads(text)
            result.add(Compared(columns=set(summary["columns"]), undeclared=set(summary["undeclared"])))
            result.problems += summary["problems"]
        rows = left.filter(pc.is_null(left.column(SUMMARY)))
        number = first + bucket
        for events in decoding.gathered(compared(comparison, rows, right, number, result)):
            written.append(
                data_files.write_file(
                    change_events.with_compact_events(events, at), names.CHANGE_EVENTS, paths.change_events
                )
            )
        return pa.table({"results": pa.array([pickle.dumps((result, written))], pa.binary())})

    return apply
