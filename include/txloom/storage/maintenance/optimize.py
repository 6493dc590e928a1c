"""Maintenance of Delta tables: join small files, remove files that no version within the retention needs, measure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
from delta.tables import DeltaTable as SparkTable
from pyarrow import fs
from pyspark.sql import SparkSession

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.spark_tables import USER_METADATA
from txloom.storage.delta.sql import sql_name
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.stores.file_systems import filesystem_of


@dataclass(frozen=True)
class Files:
    """The data files of a table's newest version: files, their bytes, small ones, and rows in deletion vectors."""

    files: int
    bytes: int
    small: int
    deleted: int


def measure(path: str, small: int) -> Files:
    """Return the files of a table's newest version; small ones have fewer bytes than `small`."""
    actions = pa.table(table_at(path).get_add_actions(flatten=True))
    sizes = cast("list[int]", actions.column("size_bytes").to_pylist())
    names = actions.column_names
    deleted: list[int | None] = next(
        (actions.column(name).to_pylist() for name in names if name.endswith("deletionVector.cardinality")), []
    )
    return Files(len(sizes), sum(sizes), sum(size < small for size in sizes), sum(count or 0 for count in deleted))


ZORDER_CHECK = "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled"
"""Files have no bounds of wide decimals (`storage.delta.sql.has_exact_bounds`), but can be ordered by them all the
same.
"""


def optimize(spark: SparkSession, path: str, zorder: Sequence[str]) -> None:
    """Join a table's small files, ordered by columns if any are given; the commit carries the watermark forward."""
    spark.conf.set(USER_METADATA, _mark(path))
    spark.conf.set(ZORDER_CHECK, "false")
    try:
        builder = SparkTable.forPath(spark, path).optimize()
        if zorder:
            builder.executeZOrderBy(*zorder)
        else:
            builder.executeCompaction()
    finally:
        spark.conf.unset(USER_METADATA)
        spark.conf.unset(ZORDER_CHECK)


def _mark(path: str) -> str:
    return json.dumps(newest_metadata(path))


def vacuum(spark: SparkSession, path: str, retain: timedelta) -> None:
    """Remove files that no version younger than `retain` needs; the commits carry the watermark forward."""
    hours = retain.total_seconds() / 3600
    spark.conf.set(USER_METADATA, _mark(path))
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        SparkTable.forPath(spark, path).vacuum(hours)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
        spark.conf.unset(USER_METADATA)


def removable(path: str, retain: timedelta) -> int:
    """Return how many files a vacuum might remove: old enough, and not in the newest version.

    A deletion vector that is needed counts like one that is not; Spark's vacuum decides that.
    """
    filesystem, folder = filesystem_of(path)
    infos = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    oldest = datetime.now(UTC) - retain
    needed = {uri.rsplit("/", 1)[-1] for uri in table_at(path).file_uris()}
    return sum(
        file.is_file
        and "/_delta_log/" not in file.path
        and file.mtime is not None
        and file.mtime <= oldest
        and file.base_name not in needed
        for file in infos
    )


def figures(path: str, columns: Sequence[str]) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """Return a table's row count and, by column: nulls, distinct values (approximate), minimum and maximum as text."""
    parts = ["count(*) as _rows"]
    for i, name in enumerate(columns):
        quoted = sql_name(name)
        parts.append(f"count(*) - count({quoted}) as n{i}, approx_distinct(cast({quoted} as varchar)) as d{i}")
        parts.append(f"cast(min({quoted}) as varchar) as a{i}, cast(max({quoted}) as varchar) as z{i}")
    (row,) = arrow_tables.select(path, f"select {', '.join(parts)} from t").to_pylist()
    column_figures = [
        (name, {"nulls": row[f"n{i}"], "distinct": row[f"d{i}"], "minimum": row[f"a{i}"], "maximum": row[f"z{i}"]})
        for i, name in enumerate(columns)
    ]
    return row["_rows"], column_figures


def plain_columns(path: str) -> list[str]:
    """Return the columns whose type has an order: no lists, structs, maps, binary or booleans."""
    schema = arrow_tables.schema_of(table_at(path))
    nested = (
        pa.types.is_nested,
        pa.types.is_binary,
        pa.types.is_binary_view,
        pa.types.is_large_binary,
        pa.types.is_boolean,
    )
    return [field.name for field in schema if not any(test(field.type) for test in nested)]


def recompute_skipping(spark: SparkSession, path: str) -> bool:
    """Compute data-skipping statistics for files that lack them; return whether any did.

    ANALYZE TABLE does not run on Delta here, so this calls what `ANALYZE ... COMPUTE DELTA STATISTICS` would.
    """
    actions = pa.table(table_at(path).get_add_actions(flatten=True))
    lacking = "num_records" not in actions.column_names or None in actions.column("num_records").to_pylist()
    if not actions.num_rows or not lacking:
        return False
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    collection = getattr(getattr(jvm.org.apache.spark.sql.delta.stats, "StatisticsCollection$"), "MODULE$")
    defaults = [getattr(collection, f"recompute$default${number}")() for number in (4, 5)]
    collection.recompute(spark._jsparkSession, log, jvm.scala.Option.apply(None), *defaults)
    return True
