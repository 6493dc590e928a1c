"""merge_current: apply released transactions, in commit order, up to valid-through, to every current table."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config.models import Aggregate, Pipeline
from txloom.storage import books, current, tables
from txloom.storage.current import Flat
from txloom.storage.documents import Change, documents, touched_roots
from txloom.storage.landing import Place
from txloom.storage.progress import Mark, mark, snapshot, valid_through

T = TypeVar("T")
WRITERS = 3
"""Tables merged at once on a small driver."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def merge_current(spark: SparkSession, pipeline: Pipeline, *, warehouse: str, run_id: str) -> dict[str, int]:
    """Bring every current table to the pipeline's valid-through; each commit is a state that the source had.

    Documents are written before the flat rows that they are composed of: after a crash in between, the flat tables
    still say which documents have to be composed again.
    """
    place = Place(warehouse, pipeline.name)
    current.create(spark, pipeline, place)
    want = target(pipeline, place)
    if want is None:
        return {"valid_through": 0, "merged": 0, "changes": 0}
    spark.conf.set(USER_METADATA, want.to_json())
    try:
        changes, merged, count = _merge(spark, pipeline, place, want)
    finally:
        spark.conf.unset(USER_METADATA)
    for change in changes.values():
        if change.effects is not None:
            change.effects.unpersist()
    counts = {"merged": merged, "changes": count, "release": want.release}
    entry = books.Entry(run_id, "merge_current", datetime.now(UTC), counts, valid_through=want.valid_through)
    books.write_ledger(warehouse, pipeline.name, entry)
    return {"valid_through": want.valid_through, **counts}


def target(pipeline: Pipeline, place: Place) -> Mark | None:
    """Return the mark to bring every table to; None before the buffer's first batch. Never below what a table shows."""
    seen = snapshot(place)
    if seen is None:
        return None
    shown = [mark(place.table(flat.current)) for flat in current.flats(pipeline)]
    shown += [mark(place.table(aggregate.current)) for aggregate in pipeline.targets.aggregates]
    highest = max((each.valid_through for each in shown), default=0)
    newest = max((each.release for each in shown), default=0)
    if seen.release < newest:
        return Mark(highest, newest)
    return Mark(max(highest, valid_through(place, seen)), seen.release)


def _merge(
    spark: SparkSession, pipeline: Pipeline, place: Place, want: Mark
) -> tuple[dict[str, Change], int, int]:
    flats = current.flats(pipeline)
    prepared = _together([partial(_prepare, spark, place, flat, want) for flat in flats])
    changes = {flat.table.name: change for flat, (change, _) in zip(flats, prepared, strict=True)}
    writes: list[Callable[[], object]] = []
    for aggregate in pipeline.targets.aggregates:
        if mark(place.table(aggregate.current)) < want:
            writes.append(partial(_merge_documents, pipeline, aggregate, place, changes))
    _together(writes)
    moved = [flat for flat in flats if changes[flat.table.name].effects is not None]
    _together([partial(_merge_rows, place, flat, changes[flat.table.name]) for flat in moved])
    return changes, len(moved), sum(count for _, count in prepared)


def _together(calls: Sequence[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(inheritable_thread_target(lambda call: call()), calls))


def _prepare(spark: SparkSession, place: Place, flat: Flat, want: Mark) -> tuple[Change, int]:
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
    history = everything.where((F.col("_txloom_release") <= want.release) & (F.col("_txloom_csn") <= want.valid_through))
    chains = current.tied([(row["old"], row["new"]) for row in current.key_edges(history, flat.key).collect()])
    late = changes.where(current.is_late(have))
    if not late.where("_txloom_op = 'T'").isEmpty():
        return _rebuilt(flat, history, rows, chains)
    component = current.component(flat.key, chains)
    hashes = _touched(changes, flat).select(component.alias("_component")).distinct()
    same = history.withColumn("_component", component).join(F.broadcast(hashes), "_component", "left_semi")
    truncates = history.where("_txloom_op = 'T'").withColumn("_component", F.lit(0).cast("bigint"))
    affected = rows.withColumn("_component", component).join(F.broadcast(hashes), "_component", "left_semi")
    return _rebuilt(flat, same.union(truncates).drop("_component"), affected.drop("_component"), chains)


def _rebuilt(flat: Flat, history: DataFrame, rows: DataFrame, chains: dict[int, int]) -> DataFrame:
    """Fold history from nothing; rows that it does not produce are deleted."""
    fresh = current.folded(rows.limit(0), history, flat.table, chains)
    gone = rows.join(fresh.select(*flat.key), list(flat.key), "left_anti")
    deleted = gone.withColumn("_txloom_deleted", F.lit(True)).withColumn("_txloom_missing", F.lit(None).cast("array<string>"))
    return fresh.unionByName(deleted)


def _merge_documents(pipeline: Pipeline, aggregate: Aggregate, place: Place, changes: dict[str, Change]) -> None:
    touched = touched_roots(pipeline, aggregate, changes)
    if touched is None:
        return
    composed = documents(pipeline, aggregate, changes, touched.persist()).persist()
    if not composed.isEmpty():
        root = pipeline.table(aggregate.root)
        current.merge(place.table(aggregate.current), composed, root.key, prune=current.pruning(composed, root))
    composed.unpersist()
    touched.unpersist()


def _merge_rows(place: Place, flat: Flat, change: Change) -> None:
    assert change.effects is not None
    prune = current.pruning(change.effects, flat.table)
    current.merge(place.table(flat.current), change.effects, flat.key, prune=prune)
