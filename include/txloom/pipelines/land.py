"""land_events: take what is new and whole at the source into change_events, then tick the clock."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.events.goldengate import GoldenGateDecoder
from txloom.pipelines.doctor_landing import after_landing
from txloom.storage import books, files, landing
from txloom.storage.landing import Landing, Task
from txloom.storage.place import Place

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
    last = max((row["landing"] for row in plan), default=0)
    if last:
        _finish(spark, pipeline, landing.landing_of(plan, last), place, run_id)
    return last


def _plan(pipeline: Pipeline, plan: Sequence[dict[str, Any]], number: int, place: Place, run_id: str) -> Landing:
    """Write down which files a new landing takes."""
    root = files.root(pipeline)
    known = {(row["file"], row["size"], row["modified"]) for row in plan}
    now = time.time_ns()
    new = [
        file
        for file in files.list_files(root)
        if (file.file, file.size, file.modified) not in known
        and files.is_whole(root, file, now, pipeline.source.files.settle)
    ]
    at = datetime.fromtimestamp(now // 1000 / 1e6, UTC)
    base = {"landing": number, "run_id": run_id, "at": at}
    rows = [{**base, "file_number": i, **vars(file)} for i, file in enumerate(new, 1)]
    landing.write_plan(place, number, rows or [base])
    return Landing(number, at, tuple(Task(i, f.topic, f.file, f.size) for i, f in enumerate(new, 1)))


def _finish(
    spark: "Callable[[], SparkSession]", pipeline: Pipeline, planned: Landing, place: Place, run_id: str
) -> dict[str, int]:
    """Write a planned landing: its events, its poison as dead letters, its clock, its line in the ledger."""
    ledger = names.write_id(place.pipeline, "land_events", 0)
    if books.last_written(place.table(names.LEDGER), ledger) >= planned.number:
        return {}
    if planned.tasks:
        new = decoder_of(pipeline)
        landing.write_events(spark, new, files.root(pipeline), planned, place)
        after_landing(pipeline, place, planned.number, run_id)
    return close(planned, place, run_id)


def decoder_of(pipeline: Pipeline) -> Callable[[], GoldenGateDecoder]:
    """Return what makes a decoder of the pipeline's source."""
    source = pipeline.source
    ignored = source.ignored_tables if source.unknown_tables == "dead_letter" else None
    return partial(GoldenGateDecoder, pipeline.tables, source.transaction_topic, source.run_token, ignored)


def close(planned: Landing, place: Place, run_id: str) -> dict[str, int]:
    """End a landing whose events are written: its poison as dead letters, its clock, its line in the ledger."""
    landing.write_poison(planned, place)
    landing.write_clock(planned, place)
    counts = landing.count(planned, place)
    entry = books.Entry(run_id, "land_events", planned.at, counts, batch=planned.number)
    books.write_ledger(place.warehouse, place.pipeline, entry)
    return {"landing": planned.number, **counts}
