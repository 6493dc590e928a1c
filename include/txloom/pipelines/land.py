"""land_events: take what is new and whole at the source into change_events, then tick the clock."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.events.goldengate import GoldenGateDecoder
from txloom.storage import books, files, landing, schemas, tables
from txloom.storage.landing import Landing, Place


def land_events(spark: SparkSession, pipeline: Pipeline, *, warehouse: str, run_id: str) -> dict[str, int]:
    """Land every new whole file of the source, and a clock row even where there is none.

    A landing is planned first (in landed_files) and then written; one that an earlier run planned but did not finish is
    finished before a new one is planned.
    """
    place = Place(warehouse, pipeline.name)
    create_tables(spark, place)
    root = source_root(pipeline)
    plan = landing.planned(place.landed_files)
    last = max((int(str(row["landing"])) for row in plan), default=0)
    if last:
        _finish(spark, pipeline, root, landing.landing_of(plan, last), place, run_id)
    planned = _plan(pipeline, root, plan, last + 1, place, run_id)
    return _finish(spark, pipeline, root, planned, place, run_id)


def source_root(pipeline: Pipeline) -> str:
    """Return the folder of a files source; a relative one is relative to the project."""
    from txloom.storage.session import PROJECT_ROOT

    return str(PROJECT_ROOT / pipeline.source.files.path)


def create_tables(spark: SparkSession, place: Place) -> None:
    """Create the tables that landing and buffering write."""
    tables.ensure(
        spark, place.change_events, schemas.CHANGE_EVENTS, properties=landing.CHANGE_EVENTS_PROPERTIES
    )
    tables.ensure(spark, place.dead_letters, schemas.DEAD_LETTERS)


def _plan(
    pipeline: Pipeline, root: str, plan: Sequence[dict[str, object]], number: int, place: Place, run_id: str
) -> Landing:
    known = {(row["file"], row["size"], row["modified"]) for row in plan}
    now = time.time_ns()
    new = [
        file
        for file in files.list_files(root)
        if (file.file, file.size, file.modified) not in known
        and files.is_whole(root, file, now, pipeline.source.files.settle)
    ]
    at = datetime.fromtimestamp(now / 1e9, UTC)
    rows = [
        {"landing": number, "run_id": run_id, "at": at, "file_number": i, **vars(file)} for i, file in enumerate(new, 1)
    ]
    empty = {"landing": number, "run_id": run_id, "at": at}
    books.append(
        place.landed_files,
        rows or [empty],
        books.LANDED_FILES,
        once=(names.write_id(place.pipeline, names.LANDED_FILES, 0), number),
    )
    return Landing(number, at, tuple((i, file.topic, file.file) for i, file in enumerate(new, 1)))


def _finish(
    spark: SparkSession, pipeline: Pipeline, root: str, planned: Landing, place: Place, run_id: str
) -> dict[str, int]:
    decoder = GoldenGateDecoder(pipeline.tables, pipeline.source.transaction_topic)
    ledger = names.write_id(place.pipeline, "land_events", 0)
    if tables.last_written(place.table(names.LEDGER), ledger) >= planned.number:
        return {}
    landing.write_landing(spark, decoder, root, planned, place)
    counts = _counts(spark, planned, place)
    entry = books.Entry(run_id, "land_events", planned.at, counts, batch=planned.number)
    books.write_ledger(place.warehouse, place.pipeline, entry)
    return {"landing": planned.number, **counts}


def _counts(spark: SparkSession, planned: Landing, place: Place) -> dict[str, int]:
    """Count what a landing took in, by what becomes of it."""
    counts = dict.fromkeys(("files", "landed", "rows", "metadata", "unwatched", "poison", "tombstones"), 0)
    counts["files"] = len(planned.files)
    if not planned.files:
        return counts
    events = tables.read(spark, place.change_events).where((F.col("landing") == planned.number) & (F.col("row") >= 0))
    groups = events.groupBy("kind", F.col("table").isNotNull().alias("watched")).count().collect()
    for kind, watched, number in groups:
        name = {"metadata": "metadata", "poison": "poison", "tombstone": "tombstones"}.get(kind) or ("rows" if watched else "unwatched")
        counts[name] += number
        counts["landed"] += number
    return counts
