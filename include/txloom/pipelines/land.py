"""land_events: take what is new and whole at the source into change_events, then tick the clock."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from txloom.config.models import Pipeline
from txloom.config.source import Kafka
from txloom.events import formats
from txloom.pipelines.doctor_landing import after_landing
from txloom.storage import books, files, kafka, landing, offsets, partitions, source_snapshots
from txloom.storage.files import Inbox
from txloom.storage.landing import Landing
from txloom.storage.place import Place
from txloom.storage.tasks import Task, capped, fitting
from txloom.transactions.frontier import bounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def land_events(
    spark: "Callable[[], SparkSession]", pipeline: Pipeline, *, warehouse: str, run_id: str
) -> dict[str, int]:
    """Land every new whole file of the source, and a clock row even where there is none.

    spark opens a session, which only large landings need. A landing is planned first (in landed_files) and then
    written; one that an earlier run planned but did not finish is finished before a new one is planned.
    """
    place = Place(warehouse, pipeline.name)
    landing.create_tables(place)
    plan = landing.planned(place.landed_files)
    last = finish_last(spark, pipeline, plan, place, run_id)
    return _finish(spark, pipeline, _plan(pipeline, plan, last + 1, place, run_id), place, run_id)


def finish_last(
    spark: "Callable[[], SparkSession]", pipeline: Pipeline, plan: Sequence[dict[str, Any]], place: Place, run_id: str
) -> int:
    """Finish the landing that was planned last, should a run have died in it; return its number, 0 for none."""
    plan = _readable(pipeline, plan, place)
    last = max((row["landing"] for row in plan), default=0)
    if last:
        parts = offsets.planned(place, last) if pipeline.source.kafka else ()
        _finish(spark, pipeline, landing.landing_of(plan, last, parts), place, run_id)
    return last


def _readable(pipeline: Pipeline, plan: Sequence[dict[str, Any]], place: Place) -> Sequence[dict[str, Any]]:
    """Return the plan with a landing that a run died in between its two tables; refuses one that cannot be read."""
    if pipeline.source.kafka is None:
        offsets.refuse_unread(place)
        return plan
    newest = offsets.planned_last(place)
    if newest is not None and newest["landing"] > max((row["landing"] for row in plan), default=0):
        landing.write_plan(place, newest["landing"], [newest])
        plan = landing.planned(place.landed_files)
    if offsets.unread(place):
        kafka.refuse_losses(pipeline.name, offsets.losses(pipeline, place))
    return plan


def _plan(pipeline: Pipeline, plan: Sequence[dict[str, Any]], number: int, place: Place, run_id: str) -> Landing:
    """Write down what a new landing takes."""
    if pipeline.source.kafka is not None:
        return _plan_topics(pipeline, pipeline.source.kafka, number, place, run_id)
    assert pipeline.source.files is not None
    root = Inbox.of(pipeline).root
    folders = files.topics(root)
    known = {(row["file"], row["size"], row["modified"]) for row in plan}
    now = time.time_ns()
    there = [file for file in files.list_files(root) if (file.file, file.size, file.modified) not in known]
    new = [file for file in there if files.is_whole(root, file, now, pipeline.source.files.settle)]
    tasks = [Task(i, file.topic, file.file, file.size) for i, file in enumerate(new, 1)]
    tasks = fitting(tasks) if formats.is_placed(pipeline) else tasks
    new = new[: len(tasks)]
    at = datetime.fromtimestamp(now // 1000 / 1e6, UTC)
    if len(new) < len(there):
        source_snapshots.note_left_out(pipeline, place, number, at)
    partitions.announce(pipeline, place, number, at, [(folder, None) for folder in folders])
    base = {"landing": number, "run_id": run_id, "at": at}
    rows = [{**base, "file_number": i, **vars(file)} for i, file in enumerate(new, 1)]
    landing.write_plan(place, number, rows or [base])
    return Landing(number, at, tuple(tasks))


def _plan_topics(pipeline: Pipeline, source: Kafka, number: int, place: Place, run_id: str) -> Landing:
    """Write down which records a new landing takes; raises SourceLost where some that it should take are gone."""
    topics = kafka.topics_of(pipeline)
    found, reached = kafka.extents(source, topics), offsets.reached(place)
    kafka.refuse_losses(pipeline.name, kafka.losses(found, reached))
    at = datetime.now(UTC)
    partitions.announce(pipeline, place, number, at, [(each.topic, each.partition) for each in found])
    about = {"landing": number, "run_id": run_id, "at": at}
    taken = kafka.ranges(found, reached, source)
    taken = capped(taken) if formats.is_placed(pipeline) else taken
    if kafka.leaves_out(found, taken):
        source_snapshots.note_left_out(pipeline, place, number, at)
    parts = offsets.write_plan(place, about, taken)
    landing.write_plan(place, number, [about])
    return Landing(number, at, tuple(landing.tasks_of(parts)))


def _reader(pipeline: Pipeline) -> landing.Reader:
    source = pipeline.source.kafka
    return Inbox.of(pipeline) if source is None else kafka.Topics(source, pipeline.name)


def _finish(
    spark: "Callable[[], SparkSession]", pipeline: Pipeline, planned: Landing, place: Place, run_id: str
) -> dict[str, int]:
    """Write a planned landing: its events, its poison as dead letters, its clock, its line in the ledger."""
    if landing.last_finished(place) >= planned.number:
        return {}
    if planned.tasks:
        new = partial(formats.SourceDecoder, pipeline)
        ordered = formats.is_ordered(pipeline)
        landing.write_events(spark, new, _reader(pipeline), planned, place, ordered=ordered)
        after_landing(pipeline, place, planned.number, run_id)
    return close(pipeline, planned, place, run_id, took=True)


def close(pipeline: Pipeline, planned: Landing, place: Place, run_id: str, *, took: bool = False) -> dict[str, int]:
    """End a landing whose events are written: its poison as dead letters, its clock, its line in the ledger.

    took: it read the source, and what it shows is new.
    """
    landing.write_poison(planned, place)
    bound = source_snapshots.advance(pipeline, place, planned, took=took)
    landing.write_clock(planned, place, bounded(partitions.advance(pipeline, place, planned, took=took), bound))
    counts = landing.count(planned, place)
    entry = books.Entry(run_id, "land_events", planned.at, counts, batch=planned.number)
    books.write_ledger(place.warehouse, place.pipeline, entry)
    return {"landing": planned.number, **counts}
