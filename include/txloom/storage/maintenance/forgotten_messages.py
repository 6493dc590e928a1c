"""Remove the messages of rows that were released, or that nobody watches.

Of an event only the message is removed. Its identity, fingerprint, coordinates and numbers stay: they identify a
duplicate years later, and a lost buffer is rebuilt from them (ADR 19). A run looks only at what was landed or released
since the one before it, however much waits or is dead behind that.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable as SparkTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.storage.delta import arrow_tables, small_tables, spark_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import instant_literal, text_literal
from txloom.storage.paths import TablePaths

STEP = names.maintenance_step("expire")
"""The step in whose row of the ledger it says how far messages were removed."""
HAS_MESSAGE = "kind = 'row' and value is not null"


@dataclass(frozen=True)
class Forgotten:
    """How far messages were removed: of rows up to a landing, what was released up to a release, or is unwatched."""

    landing: int = 0
    release: int = 0


def forgotten(paths: TablePaths) -> Forgotten:
    """Return how far the newest run that ended removed messages."""
    of_step = f"step = {text_literal(STEP)} and detail is null"
    row = small_tables.newest(paths.table(names.LEDGER), "counts", of_step)
    counts = row["counts"] if row is not None else {}
    return Forgotten(counts["landing"], counts["release"]) if "release" in counts else Forgotten()


def forget_messages(
    session: Callable[[], SparkSession], paths: TablePaths, landing: int, before: datetime, since: Forgotten
) -> int:
    """Remove value and headers of rows up to a landing that were released or are unwatched; return how many.

    What waits or is dead keeps its message: it may still be released. A repeated call removes nothing.

    Args:
        session: opens a Spark session; it is not called where there is nothing to remove.
        paths: the tables of the pipeline.
        landing: the last landing whose messages are old enough.
        before: the time before which all rows up to that landing were landed.
        since: how far messages were removed before.
    """
    path = paths.change_events
    fresh = f"{HAS_MESSAGE} and landing <= {landing} and landing > {since.landing}"
    older = _older(paths, since, before)
    if not older.num_rows and not small_tables.query(path, f"select 1 from t where {fresh} limit 1"):
        return 0
    spark = session()
    old = spark_tables.read(spark, path).where(fresh).select("landing", "row", "transaction_id", "table")
    released = _released(spark, paths)
    expired = old.where("`table` is null").unionByName(
        old.where("`table` is not null").join(released, "transaction_id", "left_semi")
    )
    chosen = expired.select("landing", "row")
    if older.num_rows:
        chosen = chosen.unionByName(spark.createDataFrame(older))
    return _removed(spark, path, chosen, (0 if older.num_rows else since.landing, landing))


def _older(paths: TablePaths, since: Forgotten, before: datetime) -> pa.Table:
    """Return the rows of landings of before whose transactions were released since: landing, row.

    Those transactions waited since then, or were given up.
    """
    none = pa.table({name: pa.array([], pa.int64()) for name in ("landing", "row")})
    if not since.landing or not exists(paths.table(names.TRANSACTIONS)):
        return none
    tables = {"t": opened(paths.table(names.TRANSACTIONS))}
    released = f"t.status = 'released' and t.release > {since.release}"
    waited = (
        f"select transaction_id, 0 as landing from t where {released} and first_landed_at < {instant_literal(before)}"
    )
    if exists(paths.dead_letters):
        tables["d"] = opened(paths.dead_letters)
        joined = f"t join d on t.transaction_id = d.transaction_id where {released} and d.landing <= {since.landing}"
        waited += f" union all select t.transaction_id, d.landing from {joined}"
    again = arrow_tables.ask(tables, waited)
    if not again.num_rows:
        return none
    within = f"landing between {pc.min(again.column('landing')).as_py()} and {since.landing}"
    sql = f'select landing, "row", transaction_id from t where {HAS_MESSAGE} and "table" is not null and {within}'
    ids = again.column("transaction_id").combine_chunks()
    rows = arrow_tables.matching(paths.change_events, sql, "transaction_id", ids)
    return rows.select(["landing", "row"]) if rows.num_rows else none


def _released(spark: SparkSession, paths: TablePaths) -> DataFrame:
    finished = spark_tables.read(spark, paths.table(names.TRANSACTIONS))
    return finished.where("status = 'released'").select("transaction_id").distinct()


def _removed(spark: SparkSession, path: str, rows: DataFrame, landings: tuple[int, int]) -> int:
    """Remove the messages of rows, which lie behind the first landing and up to the second; return how many."""
    after, until = landings
    expired = spark_tables.materialised(rows)
    try:
        count = expired.count()
        if count:
            spark_tables.fence(spark, path)
            about = json.dumps({"expired": until, "rows": count})
            spark.conf.set(spark_tables.USER_METADATA, about)
            same = f"t.landing = s.landing and t.row = s.row and t.landing > {after} and t.landing <= {until}"
            target = SparkTable.forPath(spark, path).alias("t")
            nothing = {name: F.lit(None) for name in ("value", "headers")}
            target.merge(expired.alias("s"), same).whenMatchedUpdate(set=nothing).execute()
            spark_tables.refuse_unwritten(path, about)
        return count
    finally:
        spark_tables.unfence(spark)
