"""Delta tables by path: read at a version, append once, ask a table what was written to it.

Small questions (does it exist, which version, which batch came last) are answered by `deltalake` from the log, in
milliseconds and without a Spark job.
"""

import json
from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from txloom.config import names
from txloom.errors import WriteConflict
from txloom.storage.delta import data_files, small_tables
from txloom.storage.delta.commit_metadata import newest_metadata
from txloom.storage.delta.commits import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import opened

PART_ROWS = 50_000
"""Rows of one file that a task writes, about."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""Setting of a session: what its commits are about."""
FENCED = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
"""Settings of a session: the application transaction of its next writes; Delta skips one whose number a table has."""


def exists(path: str) -> bool:
    """Say whether a Delta table lies at a path."""
    return bool(DeltaTable.is_deltatable(path))


def version(path: str) -> int | None:
    """Return a table's newest version, or None where there is no table."""
    try:
        return int(opened(path).version())
    except TableNotFoundError:
        return None


def read(spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
    """Read a table, at a version if one is given."""
    reader = spark.read.format("delta")
    if at is not None:
        reader = reader.option("versionAsOf", at)
    return reader.load(path)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow's rows as a frame of the same types: by itself Spark gives a zone to a timestamp without one."""
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def materialised(frame: DataFrame) -> DataFrame:
    """Work out a frame now, and return its rows without the plan that they came from.

    A frame that is only cached keeps its plan, and a merge whose source it is lets Delta look for the files of each of
    its scans again: measured, 156 such queries for three tables of some rows.
    """
    return frame.localCheckpoint(eager=True)


def fence(spark: SparkSession, path: str) -> None:
    """Let the session's next write carry the lease's epoch; raises LeaseTaken when a later run holds it.

    Threads that write other tables beside may set a larger number, which is as good.
    """
    FENCE.refuse_stale(path)
    number = FENCE.next_write()
    if number is not None:
        spark.conf.set(FENCED[0], names.LEASES)
        spark.conf.set(FENCED[1], str(number))


def unfence(spark: SparkSession) -> None:
    """Take back what writes were told, by `fence` too: it would hold for any other write of the session."""
    for setting in (USER_METADATA, *FENCED):
        spark.conf.unset(setting)


def note_unchanged(path: str, metadata: str) -> None:
    """Let a table say what it is about though a write changed no row: Delta commits nothing then.

    With a lease it does, for the lease's epoch; what it leaves out then is stale.
    """
    if not FENCE.is_held and newest_metadata(path) != json.loads(metadata):
        commit_no_row(DeltaTable(path), commit_properties(metadata=json.loads(metadata)))


def refuse_unwritten(path: str, metadata: str) -> None:
    """Raise WriteConflict unless a table's newest commit is about what was just written: Delta skips a stale one."""
    if FENCE.is_held and newest_metadata(path) != json.loads(metadata):
        raise WriteConflict(f"{path}: the merge was left out, because another run wrote there; run the step again")


def append_once(frame: DataFrame, path: str, write_id: str, number: int) -> bool:
    """Append a frame unless this txnVersion was written before; return whether it was written now; no rows never are.

    Tasks write the files, and a commit that carries the lease's epoch names them: a commit by Spark has one application
    transaction only. Asking first spares the work of computing the frame.
    """
    if small_tables.last_written(path, write_id) >= number:
        return False

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _gathered(batches):
            part = data_files.write_file(rows, path, path)
            yield pa.RecordBatch.from_pylist([{"path": part.path, "size": part.size, "stats": part.stats}])

    made = frame.mapInArrow(write, "path string, size bigint, stats string").collect()
    return bool(made) and data_files.append_files(
        [data_files.DataFile(path, *row) for row in made], path, write_id, number
    )


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches into tables of about PART_ROWS rows."""
    held = list[pa.RecordBatch]()
    for batch in batches:
        held += [batch] if batch.num_rows else []
        if sum(each.num_rows for each in held) >= PART_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
