"""Compose documents of aggregates from row tables with Spark: the documents that changes touch, and their contents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txloom.config.models.pipeline import Aggregate, Child, Pipeline, Table
from txloom.current.documents.child_counts import SeveralChildren, count_column, find_several
from txloom.storage.delta.sql import spark_name
from txloom.storage.targets.schemas import struct_ddl
from txloom.storage.targets.spark_fold import VERDICT


@dataclass(frozen=True)
class Change:
    """The change of one row table by a merge."""

    table: Table
    rows: DataFrame
    """Its rows before."""
    effects: DataFrame | None
    """The net effect of each touched key, with the columns of VERDICT; None: nothing changes."""

    def untouched(self) -> DataFrame:
        """Return the rows whose keys have no effect."""
        if self.effects is None:
            return self.rows
        return self.rows.join(F.broadcast(self.effects.select(*self.table.key)), list(self.table.key), "left_anti")

    def replaced(self) -> DataFrame | None:
        """Return the rows before, whose keys have an effect; None without effects."""
        if self.effects is None:
            return None
        return self.rows.join(F.broadcast(self.effects.select(*self.table.key)), list(self.table.key), "left_semi")

    def written(self) -> DataFrame | None:
        """Return the rows after, whose keys have an effect, without deleted ones; None without effects."""
        if self.effects is None:
            return None
        return self.effects.where("NOT _txloom_deleted").drop(*VERDICT)


def touched_roots(pipeline: Pipeline, aggregate: Aggregate, changes: Mapping[str, Change]) -> DataFrame | None:
    """Return the keys of documents that change: of changed roots, and of the old and new parents of changed children.

    changes: of each member of the aggregate, by table. None where no member changes.
    """
    root = pipeline.table(aggregate.root)
    frames = []
    if (effects := changes[root.name].effects) is not None:
        frames.append(effects.select(*root.key))
    for child in aggregate.children:
        change = changes[child.table]
        for rows in (change.replaced(), change.written()):
            if rows is not None:
                names = zip(child.parent_key, root.key, strict=True)
                frames.append(rows.select(*[F.col(spark_name(column)).alias(name) for column, name in names]))
    return reduce(DataFrame.unionByName, frames).dropna().distinct() if frames else None


def documents(pipeline: Pipeline, aggregate: Aggregate, changes: Mapping[str, Change], touched: DataFrame) -> DataFrame:
    """Compose documents after a merge.

    A document exists while its root row does; a child belongs to the document with its parent key.

    Args:
        pipeline: the declaration.
        aggregate: the aggregate.
        changes: of each of its members, by table.
        touched: the keys of the documents to compose.

    Returns:
        a row for each key, in the schema of the aggregate's current table, with `_txloom_deleted` and, of each child
        whose relation is `one`, the number of its rows (`count_column`).
    """
    root = pipeline.table(aggregate.root)
    keys = list(root.key)
    composed = _rows(changes[root.name], touched, keys, keys).withColumn("_txloom_exists", F.lit(True))
    composed = touched.join(composed, keys, "left")
    for child in aggregate.children:
        composed = composed.join(
            _children(pipeline.table(child.table), child, changes[child.table], touched, keys), keys, "left"
        )
        if child.relation == "many":
            empty = F.array().cast(f"array<{struct_ddl(pipeline.table(child.table))}>")
            composed = composed.withColumn(child.as_, F.coalesce(F.col(child.as_), empty))
    columns = [part for part in composed.columns if part.startswith("_txloom_at_")]
    stamps = [F.struct("_txloom_csn", "_txloom_pos", "_txloom_xid"), *[F.col(name) for name in columns]]
    latest = F.greatest(*stamps) if columns else stamps[0]
    fields = [*root.column_names] + [child.as_ for child in aggregate.children]
    return composed.withColumn("_txloom_latest", latest).select(
        *[spark_name(name) for name in fields],
        *[F.col("_txloom_latest")[name].alias(name) for name in ("_txloom_csn", "_txloom_pos", "_txloom_xid")],
        F.col("_txloom_exists").isNull().alias("_txloom_deleted"),
        *[spark_name(count_column(name)) for name in _fields_of_one(aggregate)],
    )


def several_children(pipeline: Pipeline, aggregate: Aggregate, composed: DataFrame) -> list[SeveralChildren]:
    """Return for each child whose relation is `one` a document that has several of its rows, see `find_several`.

    composed: what `documents` returns.
    """
    key = list(pipeline.table(aggregate.root).key)
    existing, firsts = composed.where("NOT _txloom_deleted"), list[SeveralChildren]()
    for field in _fields_of_one(aggregate):
        count = count_column(field)
        several = existing.where(F.col(spark_name(count)) > 1)
        columns = [spark_name(name) for name in (*key, "_txloom_csn", "_txloom_xid", count)]
        first = several.orderBy("_txloom_csn", *map(spark_name, key)).limit(1).select(*columns)
        firsts += find_several(first.toArrow(), [field], key)
    return firsts


def without_counts(aggregate: Aggregate, composed: DataFrame) -> DataFrame:
    """Return composed documents as they are written: without the numbers of their children."""
    return composed.drop(*[count_column(name) for name in _fields_of_one(aggregate)])


def _fields_of_one(aggregate: Aggregate) -> list[str]:
    return [child.as_ for child in aggregate.children if child.relation == "one"]


def _rows(change: Change, touched: DataFrame, columns: Sequence[str], keys: Sequence[str]) -> DataFrame:
    """Return a table's rows after the change that belong to touched documents.

    columns: the table's columns that hold a document's key. keys: the names of the same columns in `touched`.
    """
    parts = [change.untouched()]
    if (written := change.written()) is not None:
        parts.append(written)
    chosen = touched.select(
        *[F.col(spark_name(name)).alias(column) for name, column in zip(keys, columns, strict=True)]
    )
    return reduce(DataFrame.unionByName, [part.join(F.broadcast(chosen), list(columns), "left_semi") for part in parts])


def _children(table: Table, child: Child, change: Change, touched: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one row for each document: its children of one table, ordered by their key, and their newest change."""
    rows = _rows(change, touched, child.parent_key, keys)
    struct = F.struct(*[F.col(spark_name(name)) for name in table.column_names])
    order = F.struct(*[F.col(spark_name(name)) for name in table.key])
    nested = F.sort_array(F.collect_list(F.struct(order.alias("order"), struct.alias("row"))))
    field = (
        F.element_at(nested, -1)["row"] if child.relation == "one" else F.transform(nested, lambda entry: entry["row"])
    )
    at = F.max(F.struct("_txloom_csn", "_txloom_pos", "_txloom_xid")).alias(f"_txloom_at_{child.as_}")
    grouped = rows.groupBy(*[F.col(spark_name(c)).alias(k) for c, k in zip(child.parent_key, keys, strict=True)])
    counts = [F.count("*").alias(count_column(child.as_))] if child.relation == "one" else []
    return grouped.agg(field.alias(child.as_), at, *counts)
