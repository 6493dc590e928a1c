"""merge_current: apply released transactions, in commit order, up to valid-through, to every current table."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from txloom.config.models import Pipeline, Table
from txloom.pipelines import merge_local, merge_spark
from txloom.storage import books, current, local
from txloom.storage.place import Place
from txloom.storage.progress import Mark, mark, snapshot, valid_through

T = TypeVar("T")
WRITERS = 4
"""Tables merged at once: a merge of a few rows mostly waits for its own small jobs."""
MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
"""Rows that this process holds need no copy before Delta reads them twice; what Spark computes does."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class Write:
    """One commit: net effects, with `_txloom_deleted`, for one current table. prune: a condition that skips files."""

    path: str
    effects: DataFrame
    key: tuple[str, ...]
    prune: str


@dataclass(frozen=True)
class Work:
    """What a merge writes: documents first, then the flat rows that they are composed of, and from how many changes."""

    documents: list[Write]
    rows: list[Write]
    changes: int


def merge_current(spark: SparkSession, pipeline: Pipeline, *, warehouse: str, run_id: str) -> dict[str, int]:
    """Bring every current table to the pipeline's valid-through; each commit is a state that the source had.

    After a crash between documents and flat rows, the flat tables still say which documents have to be composed again.
    """
    place = Place(warehouse, pipeline.name)
    current.create(pipeline, place)
    want = target(pipeline, place)
    if want is None:
        return {"valid_through": 0, "merged": 0, "changes": 0}
    work = plan(spark, pipeline, place, want)
    spark.conf.set(USER_METADATA, want.to_json())
    try:
        together(spark, [partial(_write, write) for write in work.documents])
        together(spark, [partial(_write, write) for write in work.rows])
    finally:
        spark.conf.unset(USER_METADATA)
        spark.catalog.clearCache()
    counts = {"merged": len(work.documents) + len(work.rows), "changes": work.changes, "release": want.release}
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


def plan(spark: SparkSession, pipeline: Pipeline, place: Place, want: Mark) -> Work:
    """Work out all writes of a merge, in this process when they are few, else with Spark."""
    flats = current.flats(pipeline)
    if all(flat.mirror is not None for flat in flats):
        size = merge_local.size(place, flats, want)
        if size is not None and size <= local.LOCAL_ROWS:
            return _plan_locally(spark, pipeline, place, want)
    return _plan_with_spark(spark, pipeline, place, want)


def _plan_locally(spark: SparkSession, pipeline: Pipeline, place: Place, want: Mark) -> Work:
    spark.conf.set(MATERIALIZE, "none")
    changes = {flat.table.name: merge_local.prepare(place, flat, want) for flat in current.flats(pipeline)}
    documents = []
    for aggregate in pipeline.targets.aggregates:
        path = place.table(aggregate.current)
        if mark(path) < want and (found := merge_local.documents(pipeline, aggregate, changes)) is not None:
            root = pipeline.table(aggregate.root)
            documents.append(
                Write(path, spark.createDataFrame(found), root.key, _naming(root, found.column(root.key[0])))
            )
    rows = []
    for change in changes.values():
        if (effects := change.effects) is not None:
            table = change.flat.table
            naming = _naming(table, effects.column(table.key[0]))
            rows.append(Write(change.path, spark.createDataFrame(effects), table.key, naming))
    return Work(documents, rows, sum(change.changes for change in changes.values()))


def _naming(table: Table, values: object) -> str:
    return current.naming(table, sorted(set(values.to_pylist())))  # type: ignore[attr-defined]


def _plan_with_spark(spark: SparkSession, pipeline: Pipeline, place: Place, want: Mark) -> Work:
    spark.conf.set(MATERIALIZE, "auto")
    flats = current.flats(pipeline)
    prepared = together(spark, [partial(merge_spark.prepare, spark, place, flat, want) for flat in flats])
    changes = {flat.table.name: change for flat, (change, _) in zip(flats, prepared, strict=True)}
    documents = []
    for aggregate in pipeline.targets.aggregates:
        path = place.table(aggregate.current)
        if mark(path) < want and (found := merge_spark.composed(pipeline, aggregate, changes)) is not None:
            root = pipeline.table(aggregate.root)
            documents.append(Write(path, found, root.key, current.pruning(found, root)))
    rows = [
        Write(place.table(flat.current), effects, flat.key, current.pruning(effects, flat.table))
        for flat in flats
        if (effects := changes[flat.table.name].effects) is not None
    ]
    return Work(documents, rows, sum(count for _, count in prepared))


def _write(write: Write) -> None:
    current.merge(write.path, write.effects, write.key, prune=write.prune)


def together(spark: SparkSession, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls beside each other in a session and return their results in order."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(inheritable_thread_target(spark)(lambda call: call()), calls))
