"""Delta tables by path: read at a version, append once, ask a table what was written to it.

Small questions (does it exist, which version, which batch came last) are answered by `deltalake` from the log, in
milliseconds and without a Spark job.
"""

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from txloom.storage import books

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""Setting of a session: what its commits are about."""


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


def append_once(frame: DataFrame, path: str, write_id: str, number: int) -> bool:
    """Append a frame unless this txnVersion was written before; return whether it was written now.

    Delta itself skips a repeated (txnAppId, txnVersion); asking first spares the work of computing the frame.
    """
    if books.last_written(path, write_id) >= number:
        return False
    (frame.write.format("delta").mode("append").option("txnAppId", write_id).option("txnVersion", number).save(path))
    return True
