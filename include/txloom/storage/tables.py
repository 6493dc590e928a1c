"""Delta tables by path: create, read at a version, append once, ask a table what was written to it.

Small questions (does it exist, which version, which batch came last) are answered by `deltalake` from the log, in
milliseconds and without a Spark job.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from txloom.storage import books

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}


def ensure(
    path: str,
    ddl: str,
    *,
    properties: Mapping[str, str] | None = None,
    partition_by: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Create an empty Delta table unless the folder holds one already."""
    if exists(path):
        return
    schema = Schema.from_json(StructType.fromDDL(ddl).json())
    DeltaTable.create(
        path,
        schema,
        mode="ignore",
        partition_by=list(partition_by) or None,
        configuration={**DELETION_VECTORS, **(properties or {})},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(dict(metadata or {}))}),
    )


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


def overwrite(frame: DataFrame, path: str) -> None:
    """Replace a table's rows."""
    frame.write.format("delta").mode("overwrite").save(path)
