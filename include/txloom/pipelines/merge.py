"""merge_current: apply released transactions, in commit order, up to valid-through, to every current table.

Few changes to small tables are worked out and written in this process; what is large goes to Spark, table by table.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.config.models import Pipeline
from txloom.current.clears import GoneColumns
from txloom.pipelines import merge_local
from txloom.pipelines.drift import close_loaded, gone_columns, note_back, note_gone
from txloom.pipelines.evidence import findings_of
from txloom.pipelines.together import together
from txloom.pipelines.work import Work
from txloom.storage import books, evolution, findings, loads, local, merging
from txloom.storage.flats import create, flats
from txloom.storage.place import Place
from txloom.storage.progress import Mark, mark, snapshot, valid_through

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge_current(
    spark: "Callable[[], SparkSession]", pipeline: Pipeline, *, warehouse: str, run_id: str
) -> dict[str, int]:
    """Bring every current table to the pipeline's valid-through; each commit is a state that the source had.

    spark opens a session, which only large merges need. After a crash between documents and flat rows, the flat tables
    still say which documents have to be composed again.
    """
    place = Place(warehouse, pipeline.name)
    pipeline = evolution.effective(pipeline, place)
    create(pipeline, place)
    want = target(pipeline, place)
    if want is None:
        return {"valid_through": 0, "merged": 0, "changes": 0}
    known = findings.open_findings(place)
    opened = cache(spark)
    try:
        work = plan(opened, pipeline, place, want, gone_columns(known))
        new = findings.record(place, findings_of(place, work.evidence), run_id)
        note_back(place, known, work.columns, run_id)
        for calls in (work.documents, work.rows):
            together(calls)
    finally:
        if opened.cache_info().currsize:
            _finish(opened())
    new += note_gone(pipeline, place, known, work.columns, run_id)
    watched = [table.name for table in pipeline.tables]
    close_loaded(place, watched, loads.loaded(place, want.valid_through, want.release), run_id)
    counts = {"merged": len(work.documents) + len(work.rows), "changes": work.changes, "release": want.release}
    counts["findings"] = len(new)
    entry = books.Entry(run_id, "merge_current", datetime.now(UTC), counts, valid_through=want.valid_through)
    books.write_ledger(warehouse, pipeline.name, entry)
    return {"valid_through": want.valid_through, **counts}


def _finish(spark: "SparkSession") -> None:
    from txloom.pipelines import merge_spark

    merge_spark.finish(spark)


def target(pipeline: Pipeline, place: Place) -> Mark | None:
    """Return the mark to bring every table to; None before the buffer's first batch. Never below what a table shows."""
    seen = snapshot(place)
    if seen is None:
        return None
    shown = [mark(place.table(flat.current)) for flat in flats(pipeline)]
    shown += [mark(place.table(aggregate.current)) for aggregate in pipeline.targets.aggregates]
    highest = max((each.valid_through for each in shown), default=0)
    newest = max((each.release for each in shown), default=0)
    if seen.release < newest:
        return Mark(highest, newest)
    return Mark(max(highest, valid_through(place, seen)), seen.release)


def plan(
    spark: "Callable[[], SparkSession]",
    pipeline: Pipeline,
    place: Place,
    want: Mark,
    gone: GoneColumns,
) -> Work:
    """Work out all writes of a merge, in this process when the changes are few, else with Spark.

    gone: by table, the columns that its source dropped before.
    """
    size = merge_local.size(place, flats(pipeline), want, gone)
    if size is not None and size <= local.LOCAL_ROWS:
        return _plan_locally(spark, pipeline, place, want, gone)
    from txloom.pipelines import merge_spark

    return merge_spark.plan(spark(), pipeline, place, want, gone)


def _plan_locally(
    spark: "Callable[[], SparkSession]",
    pipeline: Pipeline,
    place: Place,
    want: Mark,
    gone: GoneColumns,
) -> Work:
    own = {flat.table.name: flat for flat in flats(pipeline)}
    changes = {name: merge_local.prepare(place, flat, want, gone.get(name, {})) for name, flat in own.items()}
    documents = []
    for aggregate in pipeline.targets.aggregates:
        path = place.table(aggregate.current)
        if mark(path) < want and (found := merge_local.documents(pipeline, aggregate, changes)) is not None:
            documents.append(partial(_write, spark, path, found, pipeline.table(aggregate.root).key, want))
    rows = [
        partial(_write, spark, change.path, change.effects, change.flat.key, want)
        for change in changes.values()
        if change.effects is not None
    ]
    evidence = {name: change.evidence for name, change in changes.items()}
    after = {name: change.columns for name, change in changes.items()}
    return Work(documents, rows, sum(change.changes for change in changes.values()), evidence, after)


def _write(spark: "Callable[[], SparkSession]", path: str, effects: pa.Table, key: tuple[str, ...], want: Mark) -> None:
    """Merge effects that this process holds: into a small table by itself, into a large one by Spark."""
    if merging.is_small(path):
        merging.merge(path, effects, key, vars(want))
        return
    from txloom.pipelines import merge_spark

    merge_spark.write_held(spark(), path, effects, key, want)
