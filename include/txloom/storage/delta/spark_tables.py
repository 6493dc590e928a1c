"""Delta tables through Spark: read at a version, append once, fence the session's writes.

Whether a table exists, its version and what was written last are read by `deltalake` from the log, which takes
milliseconds and no Spark job.
"""

import json
from collections.abc import Iterator

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from txloom.config import names
from txloom.errors import WriteConflict
from txloom.storage.delta import arrow_tables, data_files, small_tables
from txloom.storage.delta.committing import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.stores.delta_tables import is_table, table_at

PART_ROWS = 50_000
"""Rows from which on a task writes a file."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""The setting of a session with the userMetadata of its commits."""
FENCED = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
"""The settings of a session with the application transaction of its next writes.

Delta skips a write whose number the table has already.
"""


def exists(path: str) -> bool:
    """Return whether there is a Delta table at a path."""
    return is_table(path)


def version(path: str) -> int | None:
    """Return a table's newest version; None where there is no table."""
    try:
        return int(opened(path).version())
    except TableNotFoundError:
        return None


def read(spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
    """Return a table as a frame; at: a version, None: the newest."""
    reader = spark.read.format("delta")
    if at is not None:
        reader = reader.option("versionAsOf", at)
    return reader.load(path)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow's rows as a frame of the same types; Spark by default gives a zone to a timestamp without one."""
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def materialised(frame: DataFrame) -> DataFrame:
    """Compute a frame now, and return its rows as a frame without the plan that computed them.

    A frame that is only cached keeps its plan, and Delta lists the files of each of its scans again for a merge whose
    source it is: measured, 156 such queries for three small tables. On a cluster the rows lie in the lake, because
    those on an executor are gone with it.
    """
    if frame.sparkSession.sparkContext.getCheckpointDir() is None:
        return frame.localCheckpoint(eager=True)
    computed = frame.persist()  # a checkpoint computes its rows twice
    lasting = computed.checkpoint(eager=True)
    computed.unpersist()
    return lasting


def cloned_session(spark: SparkSession) -> SparkSession:
    """Return a new session with the current settings of a session.

    `newSession` returns a session with the settings that the process was started with. A session that another program
    started, or that of a stream, may have other settings. Spark clones the session of each stream in the same way.
    """
    return type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())


def new_write_session(spark: SparkSession, path: str, metadata: str) -> SparkSession:
    """Return a new session for one write to a table, whose commit carries userMetadata and the lease's epoch.

    Both are settings of a session, and other threads write other tables at the same time.

    Args:
        spark: the session of this process.
        path: the table's path.
        metadata: the userMetadata, as JSON.

    Raises:
        LeaseTaken: a later run stamped the table.
    """
    session = cloned_session(spark)
    session.conf.set(USER_METADATA, metadata)
    fence(session, path)
    return session


def fence(spark: SparkSession, path: str) -> None:
    """Let the session's next write to a table carry the lease's epoch; without a lease nothing is set.

    Raises LeaseTaken where a later run stamped the table.
    """
    FENCE.refuse_stale(path)
    number = FENCE.next_write()
    if number is not None:
        spark.conf.set(FENCED[0], names.LEASES)
        spark.conf.set(FENCED[1], str(number))


def note_unchanged(path: str, metadata: str) -> None:
    """Commit userMetadata where a write by Spark changed no row: without a lease Delta makes no commit then.

    With a lease nothing is done: Spark's write has made a commit for the lease's epoch, or Delta skipped a stale one
    (`refuse_unwritten`).

    Args:
        path: the table's path.
        metadata: the userMetadata of the write, as JSON.
    """
    if not FENCE.is_held and newest_metadata(path) != json.loads(metadata):
        commit_no_row(table_at(path), commit_properties(metadata=json.loads(metadata)))


def refuse_unwritten(path: str, metadata: str) -> None:
    """Raise WriteConflict where a lease is held and a table lacks the write's userMetadata: Delta skipped the write.

    Args:
        path: the table's path.
        metadata: the userMetadata of the write, as JSON.
    """
    if FENCE.is_held and newest_metadata(path) != json.loads(metadata):
        raise WriteConflict(f"{path}: the merge was left out, because another run wrote there; run the step again")


def append_once(frame: DataFrame, path: str, write_id: str, number: int) -> bool:
    """Append a frame to a Delta table unless it has this number or a higher one for the write id.

    Tasks write the files, and a commit by delta-rs adds them: it carries the lease's epoch beside the write id, where a
    commit by Spark has one application transaction only.

    Args:
        frame: the rows; it is not computed where the table has the number.
        path: the table's path.
        write_id: Delta's txnAppId.
        number: Delta's txnVersion.

    Returns:
        whether rows were written now; without rows nothing is committed, and a repeated call returns False.

    Raises:
        LeaseTaken: another run holds the lease.
        WriteConflict: other commits came first in every attempt.
    """
    if small_tables.last_written(path, write_id) >= number:
        return False

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        for rows in arrow_tables.gathered(tables, PART_ROWS):
            part = data_files.write_file(rows, path, path)
            yield pa.RecordBatch.from_pylist([{"path": part.path, "size": part.size, "stats": part.stats}])

    made = frame.mapInArrow(write, "path string, size bigint, stats string").collect()
    files = [data_files.DataFile(path, *row) for row in made]
    return bool(files) and data_files.append_files(files, path, write_id, number) is not None
