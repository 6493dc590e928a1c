"""Work out a large merge with Spark: fold per key in groups, compose documents by joins."""

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config.models import Aggregate, Pipeline
from txloom.pipelines.together import together
from txloom.storage import current, tables
from txloom.storage.documents import Change, documents, touched_roots
from txloom.storage.flats import Flat, flats
from txloom.storage.place import Place
from txloom.storage.progress import Mark, mark

Call = Callable[[], None]


def plan(
    spark: SparkSession, pipeline: Pipeline, place: Place, want: Mark
) -> tuple[Sequence[Call], Sequence[Call], int]:
    """Work out all writes of a merge: those of documents, those of flat rows, and from how many changes."""
    own = flats(pipeline)
    with_session = inheritable_thread_target(spark)
    prepared = together([with_session(partial(prepare, spark, place, flat, want)) for flat in own])
    changes = {flat.table.name: change for flat, (change, _) in zip(own, prepared, strict=True)}
    write = with_session(partial(current.merge, metadata=want.to_json()))
    documents = []
    for aggregate in pipeline.targets.aggregates:
        path = place.table(aggregate.current)
        if mark(path) < want and (found := composed(pipeline, aggregate, changes)) is not None:
            root = pipeline.table(aggregate.root)
            documents.append(partial(write, path, found, root.key, prune=current.pruning(found, root)))
    rows = [
        partial(write, place.table(flat.current), found, flat.key, prune=current.pruning(found, flat.table))
        for flat in own
        if (found := changes[flat.table.name].effects) is not None
    ]
    return documents, rows, sum(count for _, count in prepared)


def write_held(spark: SparkSession, path: str, effects: pa.Table, key: tuple[str, ...], want: Mark) -> None:
    """Merge effects that the driver holds into a large table."""
    current.merge(path, spark.createDataFrame(effects), key, metadata=want.to_json())


def finish(spark: SparkSession) -> None:
    """Leave nothing behind in the session."""
    spark.conf.unset(tables.USER_METADATA)
    spark.catalog.clearCache()


def prepare(spark: SparkSession, place: Place, flat: Flat, want: Mark) -> tuple[Change, int]:
    """Work out, without writing, how one flat table will change, and from how many changes."""
    path = place.table(flat.current)
    have = mark(path)
    everything = current.history(spark, place, flat)
    rows = tables.read(spark, path)
    if have == want:
        return Change(flat.table, rows, None), 0
    changes = current.new_changes(everything, have, want).persist()
    about = changes.agg(
        F.count("*").alias("changes"),
        F.coalesce(F.max(F.col("_txloom_op") == "T"), F.lit(False)).alias("truncated"),
        F.coalesce(F.max(current.is_late(have)), F.lit(False)).alias("late"),
    ).first()
    assert about is not None
    if not about["changes"]:
        changes.unpersist()
        return Change(flat.table, rows, None), 0
    if about["late"]:
        effects = _recomputed(flat, everything, changes, rows, have, want)
    else:
        effects = _applied(flat, changes, rows, truncated=about["truncated"])
    effects = effects.persist()
    effects.count()
    changes.unpersist()
    return Change(flat.table, rows, effects), about["changes"]


def _applied(flat: Flat, changes: DataFrame, rows: DataFrame, *, truncated: bool) -> DataFrame:
    """Fold new changes into the rows that they touch; a truncate touches all."""
    chains = current.tied([(row["old"], row["new"]) for row in current.key_edges(changes, flat.key).collect()])
    affected = rows if truncated else rows.join(F.broadcast(_touched(changes, flat)), list(flat.key), "left_semi")
    return current.folded(affected, changes, flat.table, chains)


def _touched(changes: DataFrame, flat: Flat) -> DataFrame:
    """Return the keys that changes name, old ones and new ones."""
    new = changes.select(*flat.key)
    old = changes.select(*[F.col("_txloom_before")[name].alias(name) for name in flat.key])
    return new.union(old).dropna().distinct()


def _recomputed(
    flat: Flat, everything: DataFrame, changes: DataFrame, rows: DataFrame, have: Mark, want: Mark
) -> DataFrame:
    """Fold the whole history of every key that a late change touches; a late truncate touches all (design.md 2.5).

    Rows of such keys are rebuilt from nothing, so that newer changes and deletes stand.
    """
    history = everything.where(
        (F.col("_txloom_release") <= want.release) & (F.col("_txloom_csn") <= want.valid_through)
    )
    chains = current.tied([(row["old"], row["new"]) for row in current.key_edges(history, flat.key).collect()])
    late = changes.where(current.is_late(have))
    if not late.where("_txloom_op = 'T'").isEmpty():
        return _rebuilt(flat, history, rows, chains)
    component = current.component(flat.key, chains)
    hashes = _touched(changes, flat).select(component.alias("_txloom_component")).distinct()
    same = history.withColumn("_txloom_component", component).join(
        F.broadcast(hashes), "_txloom_component", "left_semi"
    )
    truncates = history.where("_txloom_op = 'T'").withColumn("_txloom_component", F.lit(0).cast("bigint"))
    affected = rows.withColumn("_txloom_component", component).join(
        F.broadcast(hashes), "_txloom_component", "left_semi"
    )
    return _rebuilt(
        flat, same.unionByName(truncates).drop("_txloom_component"), affected.drop("_txloom_component"), chains
    )


def _rebuilt(flat: Flat, history: DataFrame, rows: DataFrame, chains: dict[int, int]) -> DataFrame:
    """Fold history from nothing; rows that it does not produce are deleted."""
    fresh = current.folded(rows.limit(0), history, flat.table, chains)
    gone = rows.join(fresh.select(*flat.key), list(flat.key), "left_anti")
    deleted = gone.withColumn("_txloom_deleted", F.lit(True)).withColumn(
        "_txloom_missing", F.lit(None).cast("array<string>")
    )
    return fresh.unionByName(deleted)


def composed(pipeline: Pipeline, aggregate: Aggregate, changes: dict[str, Change]) -> DataFrame | None:
    """Compose the documents that the changes touch, with `_txloom_deleted`; None if they touch none."""
    touched = touched_roots(pipeline, aggregate, changes)
    if touched is None:
        return None
    found = documents(pipeline, aggregate, changes, touched.persist()).persist()
    return None if found.isEmpty() else found
