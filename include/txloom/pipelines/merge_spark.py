"""Work out a large merge with Spark: fold per key in groups, compose documents by joins."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config.models import Aggregate, Pipeline
from txloom.storage import current, tables
from txloom.storage.current import Flat
from txloom.storage.documents import Change, documents, touched_roots
from txloom.storage.place import Place
from txloom.storage.progress import Mark, mark


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
