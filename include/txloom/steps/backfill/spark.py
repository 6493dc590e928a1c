"""The large differences of a backfill, applied with Spark: one commit marks and writes rows of each table."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.steps.backfill.scope import Scope, Target
from txloom.storage.delta import spark_tables
from txloom.storage.targets import spark_fold
from txloom.storage.targets.shadow_tables import DIGEST, KIND, SURPLUS, WAS


def correct(spark: SparkSession, scope: Scope, target: Target, metadata: str) -> None:
    """Add the rows that a history lacks, and correct those that differ, in one commit; repeated it changes nothing.

    Args:
        spark: the session.
        scope: the backfill.
        target: the history.
        metadata: of the commit, as JSON.
    """
    rows = _differences(spark, scope, target).where(f"{KIND} <> '{SURPLUS}'").drop(KIND, WAS, DIGEST)
    spark_fold.correct(scope.paths.table(target.name), rows, target.key, metadata)


def merge(spark: SparkSession, scope: Scope, target: Target, metadata: str) -> None:
    """Bring a current table to its rebuilt rows, in one commit; repeated it changes nothing.

    Args:
        spark: the session.
        scope: the backfill.
        target: the current table.
        metadata: of the commit, as JSON.
    """
    rows = _differences(spark, scope, target).withColumn("_txloom_deleted", F.expr(f"{KIND} = '{SURPLUS}'"))
    effects = rows.drop(KIND, WAS, DIGEST)
    prune = spark_fold.pruning(effects, target.key)
    spark_fold.merge(scope.paths.table(target.name), effects, target.key, prune=prune, metadata=metadata)


def _differences(spark: SparkSession, scope: Scope, target: Target) -> DataFrame:
    return spark_tables.read(spark, scope.paths.table(names.difference_table(target.name)))
