"""What earlier generations of the buffer wrote: a rebuild decides all of it once more, and adds nothing to it.

Released transactions are left out where they are released (`txloom.steps.buffer.release`); these are the dead ones.
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
"""What tells how often a transaction died: one that is redriven and dies again has events of later landings."""


def without_written_dead_letters(
    spark: SparkSession, paths: TablePaths, dead_letters: DataFrame, epoch: int
) -> DataFrame:
    """Leave out dead letters that an earlier generation wrote of the same landed event."""
    if epoch <= checkpoints.FIRST:
        return dead_letters
    written = spark_tables.read(spark, paths.dead_letters).where(F.col("release") < checkpoints.first_release(epoch))
    return dead_letters.join(written, ["landing", "row"], "left_anti").select(dead_letters.columns)


def without_written_deaths(paths: TablePaths, finished: pa.Table, epoch: int) -> pa.Table:
    """Leave out dead transactions that an earlier generation entered with the same cause and events."""
    dead = pc.equal(finished.column("status"), pa.scalar("dead"))
    if epoch <= checkpoints.FIRST or not pc.any(dead).as_py():
        return finished
    ids = cast("list[str]", finished.filter(dead).column("transaction_id").unique().to_pylist())
    where = f"status = 'dead' and release < {checkpoints.first_release(epoch)}"
    sql = f"select distinct {', '.join(DEATH)} from t where {where}"
    entered = arrow_tables.select(paths.table(names.TRANSACTIONS), f"{sql} and transaction_id in ({text_list(ids)})")
    new = finished.filter(dead).join(entered, DEATH, join_type="left anti").select(finished.column_names)
    return pa.concat_tables([finished.filter(pc.invert(dead)), new.cast(finished.schema)])
