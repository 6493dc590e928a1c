"""History that no reader needs any more: up to which csn it is cleaned, and the one commit that takes rows away.

The commit carries the csn as Delta's txnVersion: whoever asks for an earlier state is told, and a run that died before
it, or after, is simply repeated.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable as SparkTable
from deltalake import CommitProperties, Transaction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.current.superseded import TOLD, superseded
from txloom.storage.delta import arrow_tables, small_tables, spark_tables
from txloom.storage.delta.fencing import FENCE
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import Flat
from txloom.storage.targets.spark_fold import key_before, key_hash

EVENT = ("_txloom_landing", "_txloom_row")
"""What tells the rows of a history apart: where their events were landed."""
PART_ROWS = 200_000
"""Rows of a history that Spark looks at together, by hash of their key."""


def horizon(paths: TablePaths, keep: timedelta, retain: timedelta, now: datetime) -> int:
    """Return the csn up to which history may be cleaned; 0: nowhere.

    All that the source committed up to it is older than keep (what has no time of its own counts from its landing), and
    every cut that vacuum still keeps readable lies at it or above.
    """
    when = "coalesce(committed_at, first_landed_at)"
    old = f"{when} <= {arrow_tables.moment(now - keep)}"
    finished = paths.table(names.TRANSACTIONS)
    found = small_tables.query(
        finished, f"select min(csn) as csn from t where csn is not null and not coalesce({old}, false)"
    )
    younger = f" and csn < {found[0]['csn']}" if found and found[0]["csn"] is not None else ""
    found = small_tables.query(finished, f"select max(csn) as csn from t where {old}{younger}")
    newest = int((found[0]["csn"] if found else 0) or 0)
    return min(newest, _oldest_readable(paths, now - retain))


def _oldest_readable(paths: TablePaths, since: datetime) -> int:
    """Return the valid-through of the oldest cut that can be read: no later one replaced its tables before a moment."""
    sql = "select valid_through, versions, published_at from t order by cut_id"
    cuts: list[dict[str, Any]] = small_tables.query(paths.table(names.CUTS), sql)
    if not cuts:
        return 0
    first = max((number for number, cut in enumerate(cuts) if cut["published_at"] <= since), default=0)
    while first and cuts[first - 1]["versions"] == cuts[first]["versions"]:
        first -= 1
    return int(cuts[first]["valid_through"])


def rows(paths: TablePaths, flat: Flat) -> int:
    """Count the rows of a mirror's history."""
    assert flat.mirror is not None
    found = arrow_tables.select(paths.table(flat.mirror.history), "select count(*) as n from t").to_pylist()
    return int(found[0]["n"]) if found else 0


def clean_here(paths: TablePaths, flat: Flat, upto: Watermark) -> int:
    """Take superseded rows away from a small history, in this process; return how many."""
    assert flat.mirror is not None
    path = paths.table(flat.mirror.history)
    told = arrow_tables.select(path, f"select {', '.join(_columns(flat))} from t")
    gone = _superseded(told, flat, upto)
    if not gone.num_rows:
        return 0
    same = " and ".join(f"t.{name} = s.{name}" for name in EVENT)
    table = FENCE.opened(path)
    cleaned = Transaction(history_reader.CLEANED, upto.valid_through)
    once = CommitProperties(app_transactions=[cleaned, *FENCE.transactions()])
    condition = f"{same} and t._txloom_csn <= {upto.valid_through}"
    merge = table.merge(gone, condition, source_alias="s", target_alias="t", commit_properties=once)
    merge.when_matched_delete().execute()
    return int(gone.num_rows)


def clean_with_spark(spark: SparkSession, paths: TablePaths, flat: Flat, upto: Watermark, size: int) -> int:
    """Take superseded rows away from a large history; return how many."""
    assert flat.mirror is not None
    path = paths.table(flat.mirror.history)
    gone = spark_tables.settled(_spread(spark_tables.read(spark, path), flat, upto, size // PART_ROWS + 1))
    try:
        count = gone.count()
        if count:
            same = " AND ".join(f"t.{name} = s.{name}" for name in EVENT)
            FENCE.refuse_stale(path)
            for setting, value in zip(
                spark_tables.FENCED, (history_reader.CLEANED, str(upto.valid_through)), strict=True
            ):
                spark.conf.set(setting, value)
            target = SparkTable.forPath(spark, path).alias("t")
            condition = f"{same} AND t._txloom_csn <= {upto.valid_through}"
            target.merge(gone.alias("s"), condition).whenMatchedDelete().execute()
        return count
    finally:
        spark_tables.unfence(spark)


def _spread(history: DataFrame, flat: Flat, upto: Watermark, parts: int) -> DataFrame:
    """Look at a history in parts: a change of a key goes to the parts of both, a truncate to all."""
    asked = history.withColumn("_old", F.struct(*key_before(flat.key)))
    both = [F.pmod(key_hash(flat.key, prefix), F.lit(parts)).cast("int") for prefix in ("", "_old.")]
    everywhere = F.when(F.col("_txloom_op") == "T", F.sequence(F.lit(0), F.lit(parts - 1)))
    part = F.explode(F.coalesce(everywhere, F.array_distinct(F.array(*both))))
    asked = asked.withColumn("_part", part).select("_part", *[F.col(name) for name in _columns(flat, "`")])

    def chosen(told: pa.Table) -> pa.Table:
        return _superseded(told, flat, upto)

    return asked.groupBy("_part").applyInArrow(chosen, ", ".join(f"{name} bigint" for name in EVENT))


def _columns(flat: Flat, mark: str = '"') -> Iterator[str]:
    yield from (f"{mark}{name}{mark}" for name in flat.key)
    yield from (f"_txloom_{name}" for name in TOLD)
    yield from EVENT


def _superseded(told: pa.Table, flat: Flat, upto: Watermark) -> pa.Table:
    goes = superseded(told, key=flat.key, horizon=upto.valid_through, release=upto.release)
    return told.filter(goes).select(list(EVENT))
