"""Typed row events of one source table -> the rows of its history, `<table>_changes`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txloom.config.models import Table

TYPED_COLUMNS = ("tx", "xid", "csn", "pos", "op", "committed_at", "landing", "row")
"""Columns of a typed event beside its images: after, unchanged, before, before_known, problem."""


def image(table: Table, column: str) -> Column:
    """Return a declared column of the row after the change; for a delete, what is known of the row before it.

    An update may leave out a key that it does not change; the key then is the old one.
    """
    before, after = F.col("before")[column], F.col("after")[column]
    known = F.coalesce(after, before) if column in table.key else after
    return F.when(F.col("op") == "D", before).otherwise(known).alias(column)


def changes(typed: DataFrame, table: Table, release: int) -> DataFrame:
    """Return the rows of a mirror's history: design.md 2, schema `storage.schemas.changes_ddl`."""
    return typed.select(
        *[image(table, name) for name in table.column_names],
        F.col("op").alias("_txloom_op"),
        F.col("xid").alias("_txloom_xid"),
        F.col("csn").alias("_txloom_csn"),
        F.col("pos").alias("_txloom_pos"),
        F.col("committed_at").alias("_txloom_committed_at"),
        F.lit(release).cast("bigint").alias("_txloom_release"),
        F.col("landing").alias("_txloom_landing"),
        F.col("row").alias("_txloom_row"),
        F.col("unchanged").alias("_txloom_unchanged"),
        F.col("before").alias("_txloom_before"),
        F.col("before_known").alias("_txloom_before_known"),
    )
