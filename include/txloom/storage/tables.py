"""Delta tables by path: read at a version, append once, ask a table what was written to it.

Small questions (does it exist, which version, which batch came last) are answered by `deltalake` from the log, in
milliseconds and without a Spark job.
"""

import json

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from txloom.config import names
from txloom.errors import WriteConflict
from txloom.storage import books
from txloom.storage.fence import FENCE
from txloom.storage.progress import newest_metadata

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
        return int(DeltaTable(path).version())
    except TableNotFoundError:
        return None


def read(spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
    """Read a table, at a version if one is given."""
    reader = spark.read.format("delta")
    if at is not None:
        reader = reader.option("versionAsOf", at)
    return reader.load(path)


def settled(frame: DataFrame) -> DataFrame:
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


def refuse_unwritten(path: str, metadata: str) -> None:
    """Raise WriteConflict unless a table's newest commit is about what was just written: Delta skips a stale one."""
    if FENCE.is_held and newest_metadata(path) != json.loads(metadata):
        raise WriteConflict(f"{path}: the merge was left out, because another run wrote there; run the step again")


def append_once(frame: DataFrame, path: str, write_id: str, number: int) -> bool:
    """Append a frame unless this txnVersion was written before; return whether it was written now.

    Delta itself skips a repeated (txnAppId, txnVersion); asking first spares the work of computing the frame.
    """
    if books.last_written(path, write_id) >= number:
        return False
    (frame.write.format("delta").mode("append").option("txnAppId", write_id).option("txnVersion", number).save(path))
    return True
