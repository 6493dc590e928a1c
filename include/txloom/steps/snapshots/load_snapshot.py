"""load_snapshot: rows of whole tables as of a csn, as one transaction of the stream (docs/architecture.md, promise 15).

The transaction truncates its tables and inserts the rows, behind everything of that csn. From there the rules of all
transactions follow: changes at or below the csn, whenever they come, leave the rows alone, later ones apply.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.errors import ConfigurationError
from txloom.events.formats import SourceDecoder
from txloom.events.images.reader import ImageReader
from txloom.steps.landing.internal_transaction import BEHIND, InternalTransaction
from txloom.steps.landing.land_events import close, finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.delta import data_files
from txloom.storage.landing import change_events, decoding, loaded_snapshots, plan
from txloom.storage.landing import tables as landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import files as snapshots_files
from txloom.storage.snapshots.files import SnapshotFile
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.storage.targets.undeclared_columns import effective_pipeline

LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_FILE = 1 << 40
FAR = 9
"""A snapshot this many times above the stream's csn is taken for a slip of the hand."""


@dataclass(frozen=True)
class Snapshot:
    """What load_snapshot loads: `<path>/<table>/` holds the rows of each table that it has, as of a csn.

    time: when that was, for reads as of a moment. tables: only those; none named: all that have a folder. ahead: the
    csn is meant, though it is far above the stream's.
    """

    path: str
    csn: int
    time: datetime | None = None
    tables: Sequence[str] = ()
    ahead: bool = False


def load_snapshot(step: Step, snapshot: Snapshot) -> Counts:
    """Land a snapshot as one transaction; the next buffer_transactions and merge_current apply it.

    Nothing is landed unless every row can be read: raises ConfigurationError with file and row, and for a csn far above
    the stream's unless it is meant so. A snapshot that is no newer than what was landed is skipped. Only large
    snapshots need a Spark session.
    """
    pipeline, paths, run_id, csn = step.pipeline, step.paths, step.run_id, snapshot.csn
    landing_tables.create_tables(paths)
    _refuse(csn, loaded_snapshots.newest(paths), ahead=snapshot.ahead)
    files_by_table = _chosen(snapshots_files.tables_of(pipeline, snapshot.path), snapshot.tables, snapshot.path)
    done, waiting = (
        loaded_snapshots.loaded(paths, loaded_snapshots.ANY, loaded_snapshots.ANY),
        loaded_snapshots.waiting(paths, files_by_table),
    )
    newer = [max(done.get(table, -1), waiting.get(table, -1)) for table in files_by_table]
    if min(newer) >= csn:
        LOG.info(f"skipped: {', '.join(files_by_table)} was loaded as of csn {min(newer)} already")
        return {"skipped": 1, "csn": csn}
    number = finish_last(step, plan.planned(paths.landed_files)) + 1
    at = LandingPlan(number, datetime.now(UTC), ())
    whole = set(files_by_table) == {table.name for table in pipeline.tables}
    time = snapshot.time
    timestamp = time.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if time is not None else None
    load = InternalTransaction(
        effective_pipeline(pipeline, paths), at, loaded_snapshots.xid(number, whole=whole), csn, timestamp
    )
    files = list(enumerate((file for of_table in files_by_table.values() for file in of_table), 1))
    if sum(Task(number_, names.LOAD, file.path, file.size).bytes for number_, file in files) <= decoding.LOCAL_BYTES:
        rows = [events for each in files for events in _decoded(load, *each)]
        _plan(load, files_by_table, paths, run_id)
        head = load.truncates(files_by_table, BEHIND, _counted(rows))
        landing_tables.append(change_events.with_compact_events(pa.concat_tables([head, *rows]), at), at, paths)
    else:
        _land_large(step.spark, load, files_by_table, files, paths, run_id)
    close(step, at)
    return {"tables": len(files_by_table), "files": len(files), "csn": csn, "landing": number}


def _chosen(
    files_by_table: dict[str, list[SnapshotFile]], tables: Sequence[str], path: str
) -> dict[str, list[SnapshotFile]]:
    """Return the files of some tables; none named: of all."""
    missing = sorted(set(tables) - files_by_table.keys())
    if missing:
        raise ConfigurationError(f"{path}: no folder {missing[0]}; it has {', '.join(files_by_table)}")
    return {table: of_table for table, of_table in files_by_table.items() if not tables or table in tables}


def _refuse(csn: int, newest: int | None, *, ahead: bool) -> None:
    """Refuse a csn that cannot be; whatever comes at or below a snapshot's csn counts as contained in it."""
    if csn < 0:
        raise ConfigurationError(f"csn {csn}: expected a number of 0 or more, the csn as of which the rows are")
    if newest and csn > newest * FAR and not ahead:
        raise ConfigurationError(
            f"csn {csn}: the newest that the source sent is {newest}; every change up to the snapshot's csn would "
            "count as contained in it. Is there a digit too many? If not, say --ahead"
        )


def _plan(load: InternalTransaction, tables: Iterable[str], paths: TablePaths, run_id: str) -> None:
    """Write down that a landing is a snapshot of some tables; from here on it goes through or stays empty."""
    base = {"landing": load.at.number, "run_id": run_id, "at": load.at.at}
    rows = [{**base, "file_number": 0, "topic": loaded_snapshots.topic(table)} for table in tables]
    plan.write_plan(paths, load.at.number, rows)


def _land_large(
    spark: "SparkSession",
    load: InternalTransaction,
    tables: Mapping[str, Sequence[SnapshotFile]],
    files: Sequence[tuple[int, SnapshotFile]],
    paths: TablePaths,
    run_id: str,
) -> None:
    """Decode the files in Spark's tasks, which write files of change_events; the driver commits them."""
    path = paths.change_events

    def write(some: Iterable[tuple[int, SnapshotFile]]) -> Iterator[tuple[list[data_files.DataFile], dict[str, int]]]:
        for number, file in some:
            for events in decoding.gathered(_decoded(load, number, file)):
                rows = change_events.with_compact_events(events, load.at)
                yield [data_files.write_file(rows, names.CHANGE_EVENTS, path)], _counted([events])

    results = spark.sparkContext.parallelize(files, max(len(files), 1)).mapPartitions(write).collect()
    counts: dict[str, int] = {}
    for _, counted in results:
        for table, count in counted.items():
            counts[table] = counts.get(table, 0) + count
    _plan(load, tables, paths, run_id)
    head = change_events.with_compact_events(load.truncates(tables, BEHIND, counts), load.at)
    written = [part for counted, _ in results for part in counted] + [
        data_files.write_file(head, names.CHANGE_EVENTS, path)
    ]
    landing_tables.append_files(written, load.at, paths)


def _decoded(load: InternalTransaction, number: int, file: SnapshotFile) -> Iterator[pa.Table]:
    """Yield a file's rows as landed events; refuses the first one that cannot be read."""
    table = load.pipeline.table(file.table)
    decoder, reader = SourceDecoder(load.pipeline), ImageReader(table)
    for first, images in snapshots_files.images(file, table):
        start = BEHIND + number * PER_FILE + first
        messages = [load.message(file.table, "r", start + i, after=image) for i, image in enumerate(images)]
        task = Task(number, names.LOAD, file.path, 0)
        events = load.landed(decoder, messages, task, range(first, first + len(messages)))
        bad = events.filter(pc.equal(events.column("kind"), "poison")).slice(0, 1).to_pylist()
        problems = [(row["line"], f"{row['cause']}: {row['detail']}") for row in bad]
        if not problems:
            problem_texts = reader.read(messages).column("problem")
            problems = [(first + i, text) for i, text in enumerate(problem_texts.to_pylist()) if text is not None]
        if problems:
            raise ConfigurationError(f"{file.path}: row {problems[0][0]}: {problems[0][1]}; nothing was loaded")
        yield events


def _counted(events: Sequence[pa.Table]) -> dict[str, int]:
    """Count rows by table."""
    rows_by_table = (
        pa.concat_tables([CHANGE_EVENTS.empty_table(), *events]).group_by("table").aggregate([([], "count_all")])
    )
    return dict(
        zip(rows_by_table.column("table").to_pylist(), rows_by_table.column("count_all").to_pylist(), strict=True)
    )
