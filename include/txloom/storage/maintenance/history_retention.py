"""History that no reader needs any more: up to which csn it is cleaned, and the one commit that removes the rows.

The commit carries the csn as Delta's txnVersion: a reader who requests an earlier state gets an error, and a run that
died before or after the commit is repeated.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable as SparkTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.current.superseded import COLUMNS, superseded
from txloom.storage.delta import arrow_tables, small_tables, spark_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.sql import instant_literal
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.spark import spread
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable
from txloom.storage.targets.spark_fold import key_before, key_hash

EVENT = ("_txloom_landing", "_txloom_row")
"""The columns that identify a row of a history: where its event was landed."""
PART_ROWS = 200_000
"""Rows of a history that Spark processes in one bucket, by hash of their key."""


def horizon(paths: TablePaths, keep: timedelta, retain: timedelta, now: datetime) -> int:
    """Return the csn up to which history may be cleaned; 0: nowhere.

    All that the source committed up to it is older than `keep` (a transaction without a commit time counts from its
    landing), and every cut that vacuum keeps readable is at or above it.
    """
    when = "coalesce(committed_at, first_landed_at)"
    old = f"{when} <= {instant_literal(now - keep)}"
    finished = paths.table(names.TRANSACTIONS)
    rows = small_tables.query(
        finished, f"select min(csn) as csn from t where csn is not null and not coalesce({old}, false)"
    )
    younger = f" and csn < {rows[0]['csn']}" if rows and rows[0]["csn"] is not None else ""
    rows = small_tables.query(finished, f"select max(csn) as csn from t where {old}{younger}")
    newest = int((rows[0]["csn"] if rows else 0) or 0)
    return min(newest, _oldest_readable(paths, now - retain))


def _oldest_readable(paths: TablePaths, since: datetime) -> int:
    """Return the valid-through of the oldest cut that is readable: no later one replaced its tables before a time."""
    sql = "select valid_through, versions, published_at from t order by cut_id"
    cuts: list[dict[str, Any]] = small_tables.query(paths.table(names.CUTS), sql)
    if not cuts:
        return 0
    first = max((number for number, cut in enumerate(cuts) if cut["published_at"] <= since), default=0)
    while first and cuts[first - 1]["versions"] == cuts[first]["versions"]:
        first -= 1
    return int(cuts[first]["valid_through"])


def rows(paths: TablePaths, row_table: RowTable) -> int:
    """Count the rows of a mirror's history."""
    assert row_table.mirror is not None
    counted = arrow_tables.select(paths.table(row_table.mirror.history), "select count(*) as n from t").to_pylist()
    return int(counted[0]["n"]) if counted else 0


def clean_here(paths: TablePaths, row_table: RowTable, upto: Watermark) -> int:
    """Remove superseded rows from a small history, in this process; return how many."""
    assert row_table.mirror is not None
    path = paths.table(row_table.mirror.history)
    rows_read = arrow_tables.select(path, f"select {', '.join(_columns(row_table))} from t")
    removed = _superseded(rows_read, row_table, upto)
    if not removed.num_rows:
        return 0
    same = " and ".join(f"t.{name} = s.{name}" for name in EVENT)
    table = FENCE.opened(path)
    once = commit_properties(once=(history_reader.CLEANED, upto.valid_through))
    condition = f"{same} and t._txloom_csn <= {upto.valid_through}"
    merge = table.merge(removed, condition, source_alias="s", target_alias="t", commit_properties=once)
    merge.when_matched_delete().execute()
    return int(removed.num_rows)


def clean_with_spark(spark: SparkSession, paths: TablePaths, row_table: RowTable, upto: Watermark, size: int) -> int:
    """Remove superseded rows from a large history, with Spark; return how many. size: the rows that it has."""
    assert row_table.mirror is not None
    path = paths.table(row_table.mirror.history)
    removed = spark_tables.materialised(_spread(spark_tables.read(spark, path), row_table, upto, size // PART_ROWS + 1))
    try:
        count = removed.count()
        if count:
            same = " AND ".join(f"t.{name} = s.{name}" for name in EVENT)
            FENCE.refuse_stale(path)
            for setting, value in zip(
                spark_tables.FENCED, (history_reader.CLEANED, str(upto.valid_through)), strict=True
            ):
                spark.conf.set(setting, value)
            target = SparkTable.forPath(spark, path).alias("t")
            condition = f"{same} AND t._txloom_csn <= {upto.valid_through}"
            target.merge(removed.alias("s"), condition).whenMatchedDelete().execute()
        return count
    finally:
        spark_tables.unfence(spark)


def _spread(history: DataFrame, row_table: RowTable, upto: Watermark, parts: int) -> DataFrame:
    """Return the superseded rows of a history, computed in buckets by key hash.

    A change of a key goes to the buckets of both keys, a truncate to all.
    """
    with_old = history.withColumn("_old", F.struct(*key_before(row_table.key)))
    new, old = key_hash(row_table.key), key_hash(row_table.key, "_old.")
    is_truncate = F.col("_txloom_op") == "T"
    bucketed = with_old.select(
        *[F.col(name) for name in _columns(row_table, "`")],
        F.explode(spread.buckets_of([new, old], parts, is_truncate)).alias(spread.BUCKET),
    )

    def chosen(_bucket: int, rows_of_bucket: pa.Table) -> pa.Table:
        return _superseded(rows_of_bucket, row_table, upto)

    return spread.in_buckets(chosen, ", ".join(f"{name} bigint" for name in EVENT), (bucketed, None))


def _columns(row_table: RowTable, mark: str = '"') -> Iterator[str]:
    yield from (f"{mark}{name}{mark}" for name in row_table.key)
    yield from (f"_txloom_{name}" for name in COLUMNS)
    yield from EVENT


def _superseded(rows_read: pa.Table, row_table: RowTable, upto: Watermark) -> pa.Table:
    is_superseded = superseded(rows_read, key=row_table.key, horizon=upto.valid_through, release=upto.release)
    return rows_read.filter(is_superseded).select(list(EVENT))
