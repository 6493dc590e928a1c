"""Compute a large merge with Spark: fold groups of keys, compose documents by joins."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.current.folding.column_nulling import Columns, Gone
from txloom.steps.current.contradictions import MOST_CONTRADICTIONS
from txloom.steps.merge.merge_plan import Merge, Work
from txloom.storage.delta import spark_tables, table_metadata
from txloom.storage.delta.sql import spark_name
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader, schemas, spark_fold
from txloom.storage.targets.row_tables import RowTable, row_tables
from txloom.storage.targets.spark_documents import (
    Change,
    documents,
    several_children,
    touched_roots,
    without_counts,
)

Call = Callable[[], None]


def plan(merge: Merge) -> Work | None:
    """Compute all writes of a merge, without making them; return None where a table failed."""
    spark, pipeline, paths, target = merge.spark(), merge.pipeline, merge.paths, merge.target
    tables_by_name = {row_table.table.name: row_table for row_table in row_tables(pipeline)}
    with_session = inheritable_thread_target(spark)
    calls = {
        name: partial(prepare, spark, paths, row_table, target, merge.gone.get(name, {}))
        for name, row_table in tables_by_name.items()
    }
    prepared = merge.failures.attempt({name: with_session(call) for name, call in calls.items()})
    if len(prepared) < len(tables_by_name):
        return None
    changes = {name: change for name, (change, _, _) in prepared.items()}
    write = with_session(spark_fold.merge)
    documents, several = {}, {}
    for aggregate in pipeline.targets.aggregates:
        path, name = paths.table(aggregate.current), aggregate.current
        if watermark_of(path) >= target:
            continue
        if (composed_rows := composed(pipeline, aggregate, changes)) is not None:
            root = pipeline.table(aggregate.root)
            several[name] = several_children(pipeline, aggregate, composed_rows)
            composed_rows = without_counts(aggregate, composed_rows)
            about = {"prune": spark_fold.pruning(composed_rows, root.key), "metadata": json.dumps(merge.metadata(name))}
            documents[name] = partial(write, path, composed_rows, root.key, **about)
        elif any(changes[each].effects is not None for each, _ in schemas.members_of(aggregate)):
            documents[name] = partial(table_metadata.stamp, path, merge.metadata(name))
    rows = {
        name: partial(
            write,
            paths.table(row_table.current),
            composed_rows,
            row_table.key,
            prune=_pruning(composed_rows, row_table),
            metadata=json.dumps(merge.metadata(row_table.current)),
        )
        for name, row_table in tables_by_name.items()
        if (composed_rows := changes[name].effects) is not None
    }
    contradictions = {name: _contradictions(change.effects) for name, change in changes.items()}
    after = {name: columns for name, (_, _, columns) in prepared.items()}
    return Work(documents, rows, sum(count for _, count, _ in prepared.values()), contradictions, after, several)


def _pruning(effects: DataFrame, row_table: RowTable) -> str:
    """Return the conditions that let Delta skip files which the effects cannot change."""
    return spark_fold.pruning(effects, row_table.key) + spark_fold.pruning_partitions(effects, row_table)


def _contradictions(effects: DataFrame | None) -> list[str]:
    """Return up to MOST_CONTRADICTIONS contradictions among effects, as JSON texts; a recomputed table has none."""
    if effects is None:
        return []
    rows = effects.where("_txloom_evidence is not null").select("_txloom_evidence").limit(MOST_CONTRADICTIONS)
    return [row[0] for row in rows.collect()]


def prepare(
    spark: SparkSession, paths: TablePaths, row_table: RowTable, target: Watermark, gone: Mapping[str, Gone]
) -> tuple[Change, int, Columns | None]:
    """Compute, without writing, how one row table will change.

    Args:
        spark: the session.
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
        gone: columns that its source dropped before.

    Returns:
        The change; how many changes of history it results from; which columns are gone after it, None: as before.
    """
    path = paths.table(row_table.current)
    reached = watermark_of(path)
    everything = spark_fold.history(spark, paths, row_table)
    rows = spark_tables.read(spark, path)
    if reached == target:
        return Change(row_table.table, rows, None), 0, None
    changes = spark_tables.materialised(everything.where(history_reader.between(reached, target)))
    about = changes.agg(
        F.count("*").alias("changes"),
        F.coalesce(F.max(F.col("_txloom_op") == "T"), F.lit(False)).alias("truncated"),
        F.coalesce(F.max(F.col("_txloom_absent").isNotNull()), F.lit(False)).alias("lacking"),
        F.coalesce(F.max(F.expr(history_reader.late(reached))), F.lit(False)).alias("late"),
    ).first()
    assert about is not None
    if not about["changes"]:
        return Change(row_table.table, rows, None), 0, None
    if about["late"]:
        history = everything.where(history_reader.upto(target))
        columns = spark_fold.columns_of(history, {})
        touched = None if about["truncated"] or about["lacking"] else _touched(changes, row_table)
        effects = _recomputed(row_table, history, rows, touched, reached)
    else:
        columns = spark_fold.columns_of(changes, gone)
        cleaned = history_reader.cleaned(paths, row_table)
        effects = _applied(row_table, changes, rows, columns.clearing, cleaned, truncated=about["truncated"])
    return Change(row_table.table, rows, spark_tables.materialised(effects)), about["changes"], columns


def _applied(
    row_table: RowTable, changes: DataFrame, rows: DataFrame, clearing: Sequence[str], cleaned: int, *, truncated: bool
) -> DataFrame:
    """Fold new changes into the rows that they touch; cleaned: the csn up to which their history was cleaned.

    Touched are the rows with a key of a change; by a truncate all rows; by dropped columns (clearing) those with a
    value.
    """
    chains = _chains(changes, row_table)
    if clearing:
        changes = spark_fold.with_nullings(changes)
    if truncated:
        return spark_fold.folded(rows, changes, row_table, chains, cleaned)
    touched = F.lit(False)
    for name in clearing:
        touched |= F.col(spark_name(name)).isNotNull()
    if not row_table.table.insert_only:
        named = _touched(changes, row_table).withColumn("_txloom_named", F.lit(True))
        rows = rows.join(F.broadcast(named), list(row_table.key), "left")
        touched |= F.col("_txloom_named").isNotNull()
    return spark_fold.folded(rows.where(touched).drop("_txloom_named"), changes, row_table, chains, cleaned)


def _chains(changes: DataFrame, row_table: RowTable) -> dict[int, int]:
    """Return for every hash of a key that key changes connect with others one common representative."""
    if row_table.table.insert_only:
        return {}
    return spark_fold.tied([(row["old"], row["new"]) for row in spark_fold.key_edges(changes, row_table.key).collect()])


def _touched(changes: DataFrame, row_table: RowTable) -> DataFrame:
    """Return the keys of changes, old ones and new ones."""
    new = changes.select(*row_table.key)
    if row_table.table.insert_only:
        return new
    old = changes.select(*spark_fold.key_before(row_table.key))
    return new.union(old).dropna().distinct()


def _recomputed(
    row_table: RowTable, history: DataFrame, rows: DataFrame, touched: DataFrame | None, reached: Watermark
) -> DataFrame:
    """Fold keys anew because a change is late; touched: keys that new changes name; None: a change is of all rows.

    What has surely nothing to do with such a key is left out here; which keys are folded anew says
    `txloom.current.folding.recompute`.
    """
    chains = _chains(history, row_table)
    if touched is None:
        return spark_fold.recomputed(rows, spark_fold.with_nullings(history), row_table, chains, reached)
    component = spark_fold.component(row_table.key, chains)
    hashes = touched.select(component.alias("_txloom_component")).distinct()
    same, affected = (
        each.withColumn("_txloom_component", component)
        .join(F.broadcast(hashes), "_txloom_component", "left_semi")
        .drop("_txloom_component")
        for each in (history, rows)
    )
    return spark_fold.recomputed(
        affected, same.unionByName(spark_fold.of_all_rows(history)), row_table, chains, reached
    )


def composed(pipeline: Pipeline, aggregate: Aggregate, changes: dict[str, Change]) -> DataFrame | None:
    """Compose the documents that the changes touch, with `_txloom_deleted`; None if they touch none.

    Args:
        pipeline: the declaration.
        aggregate: the documents to compose.
        changes: by table, how the row tables of the aggregate will change.
    """
    touched = touched_roots(pipeline, aggregate, changes)
    if touched is None:
        return None
    documents_of = spark_tables.materialised(
        documents(pipeline, aggregate, changes, spark_tables.materialised(touched))
    )
    return None if documents_of.isEmpty() else documents_of
