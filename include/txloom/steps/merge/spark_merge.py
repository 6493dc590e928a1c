"""Work out a large merge with Spark: fold per key in groups, compose documents by joins."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.current.folding.column_nulling import Columns, Gone
from txloom.steps.merge.plan import Merge, Work
from txloom.storage.delta import spark_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, mark
from txloom.storage.targets import history_reader, spark_fold
from txloom.storage.targets.partitioning import Within
from txloom.storage.targets.row_tables import Flat, flats
from txloom.storage.targets.schemas import quote
from txloom.storage.targets.spark_documents import Change, documents, touched_roots

Call = Callable[[], None]
EVIDENCE = 1_000
"""Contradictions of a table that are looked at: findings keep one for each kind and column."""


def plan(merge: Merge) -> Work | None:
    """Work out all writes of a merge, None where a table failed."""
    spark, pipeline, paths, want = merge.spark(), merge.pipeline, merge.paths, merge.want
    own = {flat.table.name: flat for flat in flats(pipeline)}
    with_session = inheritable_thread_target(spark)
    calls = {name: partial(prepare, spark, paths, flat, want, merge.gone.get(name, {})) for name, flat in own.items()}
    prepared = merge.failures.attempt({name: with_session(call) for name, call in calls.items()})
    if len(prepared) < len(own):
        return None
    changes = {name: change for name, (change, _, _) in prepared.items()}
    write = with_session(partial(spark_fold.merge, metadata=want.to_json()))
    documents = {}
    for aggregate in pipeline.targets.aggregates:
        path = paths.table(aggregate.current)
        if mark(path) < want and (found := composed(pipeline, aggregate, changes)) is not None:
            root = pipeline.table(aggregate.root)
            prune = spark_fold.pruning(found, root.key)
            documents[aggregate.current] = partial(write, path, found, root.key, prune=prune)
    rows = {
        name: partial(write, paths.table(flat.current), found, flat.key, prune=_pruning(found, flat))
        for name, flat in own.items()
        if (found := changes[name].effects) is not None
    }
    told = {name: _evidence(change.effects) for name, change in changes.items()}
    after = {name: columns for name, (_, _, columns) in prepared.items()}
    return Work(documents, rows, sum(count for _, count, _ in prepared.values()), told, after)


def _pruning(effects: DataFrame, flat: Flat) -> str:
    return spark_fold.pruning(effects, flat.key) + spark_fold.pruning_partitions(effects, flat)


def _evidence(effects: DataFrame | None) -> list[str]:
    """Return some of what changes tell of rows that is not so; a recomputed table tells none."""
    if effects is None:
        return []
    told = effects.where("_txloom_evidence is not null").select("_txloom_evidence").limit(EVIDENCE)
    return [row[0] for row in told.collect()]


def write_held(merge: Merge, path: str, effects: pa.Table, key: tuple[str, ...], within: Within | None = None) -> None:
    """Merge effects that the driver holds into a large table; within: the partitions that they concern."""
    prune = spark_fold.naming(key[0], effects.column(key[0]).unique().to_pylist()) + spark_fold.only_within(within)
    frame = spark_tables.frame_of(merge.spark(), effects)
    spark_fold.merge(path, frame, key, prune=prune, metadata=merge.want.to_json())


def prepare(
    spark: SparkSession, paths: TablePaths, flat: Flat, want: Watermark, gone: Mapping[str, Gone]
) -> tuple[Change, int, Columns | None]:
    """Work out, without writing, how one flat table will change, from how many changes, and which columns are gone.

    gone: columns that the source dropped before; returned None: as before.
    """
    path = paths.table(flat.current)
    have = mark(path)
    everything = spark_fold.history(spark, paths, flat)
    rows = spark_tables.read(spark, path)
    if have == want:
        return Change(flat.table, rows, None), 0, None
    changes = spark_tables.settled(spark_fold.new_changes(everything, have, want))
    about = changes.agg(
        F.count("*").alias("changes"),
        F.coalesce(F.max(F.col("_txloom_op") == "T"), F.lit(False)).alias("truncated"),
        F.coalesce(F.max(spark_fold.is_late(have)), F.lit(False)).alias("late"),
    ).first()
    assert about is not None
    if not about["changes"]:
        return Change(flat.table, rows, None), 0, None
    if about["late"]:
        columns = spark_fold.columns_of(everything.where(history_reader.upto(want)), {})
        effects = _recomputed(flat, everything, changes, rows, want)
    else:
        columns = spark_fold.columns_of(changes, gone)
        effects = _applied(flat, changes, rows, columns.clearing, truncated=about["truncated"])
    return Change(flat.table, rows, spark_tables.settled(effects)), about["changes"], columns


def _applied(flat: Flat, changes: DataFrame, rows: DataFrame, clearing: Sequence[str], *, truncated: bool) -> DataFrame:
    """Fold new changes into the rows that they touch; a truncate touches all, a clear those with a value."""
    chains = _chains(changes, flat)
    if clearing:
        changes = spark_fold.with_clears(changes)
    if truncated:
        return spark_fold.folded(rows, changes, flat, chains)
    touched = F.lit(False)
    for name in clearing:
        touched |= F.col(quote(name)).isNotNull()
    if not flat.table.insert_only:
        named = _touched(changes, flat).withColumn("_txloom_named", F.lit(True))
        rows = rows.join(F.broadcast(named), list(flat.key), "left")
        touched |= F.col("_txloom_named").isNotNull()
    return spark_fold.folded(rows.where(touched).drop("_txloom_named"), changes, flat, chains)


def _chains(changes: DataFrame, flat: Flat) -> dict[int, int]:
    """Return a representative for every key hash that key changes tie together."""
    if flat.table.insert_only:
        return {}
    return spark_fold.tied([(row["old"], row["new"]) for row in spark_fold.key_edges(changes, flat.key).collect()])


def _touched(changes: DataFrame, flat: Flat) -> DataFrame:
    """Return the keys that changes name, old ones and new ones."""
    new = changes.select(*flat.key)
    if flat.table.insert_only:
        return new
    old = changes.select(*spark_fold.key_before(flat.key))
    return new.union(old).dropna().distinct()


def _recomputed(flat: Flat, everything: DataFrame, changes: DataFrame, rows: DataFrame, want: Watermark) -> DataFrame:
    """Fold the whole history of every key that changes touch, because one is late; one of the table touches all.

    Rows of such keys are rebuilt from nothing, so that newer changes and deletes stand.
    """
    history = everything.where(history_reader.upto(want))
    chains = _chains(history, flat)
    whole = spark_fold.of_all_rows(history)
    if not spark_fold.of_all_rows(changes).isEmpty():
        return _rebuilt(flat, spark_fold.with_clears(history), rows, chains)
    component = spark_fold.component(flat.key, chains)
    hashes = _touched(changes, flat).select(component.alias("_txloom_component")).distinct()
    same = history.withColumn("_txloom_component", component).join(
        F.broadcast(hashes), "_txloom_component", "left_semi"
    )
    whole = whole.withColumn("_txloom_component", F.lit(0).cast("bigint"))
    affected = rows.withColumn("_txloom_component", component).join(
        F.broadcast(hashes), "_txloom_component", "left_semi"
    )
    return _rebuilt(flat, same.unionByName(whole).drop("_txloom_component"), affected.drop("_txloom_component"), chains)


def _rebuilt(flat: Flat, history: DataFrame, rows: DataFrame, chains: dict[int, int]) -> DataFrame:
    """Fold history from nothing; rows that it does not produce are deleted."""
    fresh = spark_fold.folded(rows.limit(0), history, flat, chains)
    fresh = fresh.withColumn("_txloom_evidence", F.lit(None).cast("string"))
    gone = rows.join(fresh.select(*flat.key), list(flat.key), "left_anti")
    for name, kind in spark_fold.VERDICT.items():
        gone = gone.withColumn(name, F.lit(True if name == "_txloom_deleted" else None).cast(kind))
    return fresh.unionByName(gone)


def composed(pipeline: Pipeline, aggregate: Aggregate, changes: dict[str, Change]) -> DataFrame | None:
    """Compose the documents that the changes touch, with `_txloom_deleted`; None if they touch none."""
    touched = touched_roots(pipeline, aggregate, changes)
    if touched is None:
        return None
    found = spark_tables.settled(documents(pipeline, aggregate, changes, spark_tables.settled(touched)))
    return None if found.isEmpty() else found
