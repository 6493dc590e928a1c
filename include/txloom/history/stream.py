"""Typed row events of an aggregate's members -> its history: one row per transaction and root, changes nested."""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txloom.config.models import Aggregate, Table
from txloom.history.changes import image


def change(table: Table) -> Column:
    """Return one change as a struct; its position comes first, so that a sorted array is in the order of changes."""
    return F.struct(
        F.col("pos").alias("_txloom_pos"),
        F.col("op").alias("_txloom_op"),
        *[image(table, name) for name in table.column_names],
        F.col("unchanged").alias("_txloom_unchanged"),
        F.col("before").alias("_txloom_before"),
        F.col("before_known").alias("_txloom_before_known"),
        F.col("landing").alias("_txloom_landing"),
        F.col("row").alias("_txloom_row"),
    )


def root_key(parent_key: Sequence[str], names: Sequence[str]) -> list[Column]:
    """Return the root's key as an event tells it: by the new image, else the old one, else null (unknown)."""
    return [
        F.coalesce(F.col("after")[column], F.col("before")[column]).alias(name)
        for column, name in zip(parent_key, names, strict=True)
    ]


def stream(
    typed: Mapping[str, DataFrame], aggregate: Aggregate, tables: Mapping[str, Table], release: int
) -> DataFrame:
    """Return the rows of an aggregate's history: schema `storage.schemas.stream_ddl`.

    typed maps tables to typed events; a member without one had no event. A child's change whose event does not tell
    its root (a delete that knows only the key) stands in the row whose root key is null.
    """
    root = tables[aggregate.root]
    members = [(aggregate.root, aggregate.root, root.key)]
    members += [(child.table, child.as_, child.parent_key) for child in aggregate.children]
    fields = [field for _, field, _ in members]
    parts = [
        typed[name].select(
            *root_key(parent_key, root.key),
            F.col("xid").alias("_txloom_xid"),
            F.col("csn").alias("_txloom_csn"),
            "committed_at",
            change(tables[name]).alias(field),
        )
        for name, field, parent_key in members
        if name in typed
    ]
    together = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    present = [field for name, field, _ in members if name in typed]
    rows = together.groupBy(*root.key, "_txloom_xid", "_txloom_csn").agg(
        F.max("committed_at").alias("_txloom_committed_at"),
        *[F.sort_array(F.collect_list(field)).alias(field) for field in present],
    )
    for name, field, _ in members:
        if name not in typed:
            rows = rows.withColumn(field, F.array().cast(f"array<{change_ddl(tables[name])}>"))
    own = ("_txloom_xid", "_txloom_csn", "_txloom_committed_at")
    return rows.select(*root.key, *own, F.lit(release).cast("bigint").alias("_txloom_release"), *fields)


def change_ddl(table: Table) -> str:
    """Return the type of `change` as Spark DDL."""
    columns = ", ".join(f"`{column.name}`:{column.type.spark}" for column in table.columns)
    return (
        f"struct<_txloom_pos:bigint, _txloom_op:string, {columns}, _txloom_unchanged:array<string>,"
        f" _txloom_before:struct<{columns}>, _txloom_before_known:array<string>,"
        " _txloom_landing:bigint, _txloom_row:bigint>"
    )
