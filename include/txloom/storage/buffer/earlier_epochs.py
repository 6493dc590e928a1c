"""Leave out what earlier checkpoint epochs wrote: a rebuilt buffer decides it again, and must not write it again.

This is for dead transactions and dead letters; released transactions are left out by `txloom.steps.buffer.release`.
"""

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.storage.buffer import checkpoints
from txloom.storage.delta import arrow_tables, spark_tables
from txloom.storage.delta.sql import text_list
from txloom.storage.paths import TablePaths

DEATH = ["transaction_id", "cause", "first_landed_at"]
"""The columns that identify a death: a transaction that is redriven and dies again has events of later landings."""


def without_written_dead_letters(
    spark: SparkSession, paths: TablePaths, dead_letters: DataFrame, epoch: int
) -> DataFrame:
    """Return dead letters without those that an earlier checkpoint epoch wrote of the same landed event.

    Args:
        spark: the session.
        paths: where the tables are.
        dead_letters: rows in the schema DEAD_LETTERS.
        epoch: the checkpoint epoch that runs; for the first one all rows are returned.
    """
    if epoch <= checkpoints.FIRST:
        return dead_letters
    written = spark_tables.read(spark, paths.dead_letters).where(F.col("release") < checkpoints.first_release(epoch))
    return dead_letters.join(written, ["landing", "row"], "left_anti").select(dead_letters.columns)


def without_written_deaths(paths: TablePaths, finished: pa.Table, epoch: int) -> pa.Table:
    """Return finished transactions without dead ones that an earlier checkpoint epoch wrote with same cause and events.

    Args:
        paths: where the tables are.
        finished: rows in the schema TRANSACTIONS.
        epoch: the checkpoint epoch that runs; for the first one all rows are returned.
    """
    dead = pc.equal(finished.column("status"), pa.scalar("dead"))
    if epoch <= checkpoints.FIRST or not pc.any(dead).as_py():
        return finished
    ids = cast("list[str]", finished.filter(dead).column("transaction_id").unique().to_pylist())
    where = f"status = 'dead' and release < {checkpoints.first_release(epoch)}"
    sql = f"select distinct {', '.join(DEATH)} from t where {where}"
    entered = arrow_tables.select(paths.table(names.TRANSACTIONS), f"{sql} and transaction_id in ({text_list(ids)})")
    new = finished.filter(dead).join(entered, DEATH, join_type="left anti").select(finished.column_names)
    return pa.concat_tables([finished.filter(pc.invert(dead)), new.cast(finished.schema)])
