"""load_snapshot: land the rows of whole tables as of a csn, as one transaction (docs/architecture.md, promise 15).

The transaction truncates its tables and inserts the rows, behind everything of that csn. Then the rules of all
transactions apply: changes at or below the csn, whenever they come, do not change these rows, later ones do.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.events.envelope import BEHIND
from txloom.events.formats import SourceDecoder
from txloom.events.images.reader import ImageReader
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.landing.land_events import finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.declarations import records
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import data_files
from txloom.storage.landing import change_events, decoding, landing_plan, landing_tables, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.snapshots import snapshot_files as snapshots_files
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.spark import tasks
from txloom.storage.system_tables import CHANGE_EVENTS

LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_FILE = 1 << 40
FAR = 9
"""A csn more than so many times the newest of the stream is taken for a typing error."""


@dataclass(frozen=True)
class Snapshot:
    """The snapshot to load.

    Args:
        path: `<path>/<table>/` has the rows of each table.
        csn: the position in the commit order as of which they are.
        time: the commit time of that csn, for reads as of a time; None: unknown.
        tables: only these; empty: all that have a folder.
        ahead: accept a csn far above the newest of the stream.
    """

    path: str
    csn: int
    time: datetime | None = None
    tables: Sequence[str] = ()
    ahead: bool = False


def load_snapshot(step: Step, snapshot: Snapshot) -> Counts:
    """Land a snapshot as one transaction; the next buffer_transactions and merge_current apply it.

    Tasks decode large snapshots. One that is not newer than what was loaded is skipped, so that a repeated call loads
    nothing twice. A table without a key that was loaded as of the same csn is left out of it.

    Args:
        step: the pipeline, its tables and the run.
        snapshot: what to load.

    Returns:
        tables, files, csn and landing; or skipped and csn.

    Raises:
        ConfigurationError: with file and line, for a row that cannot be read; for a table without a folder; for a csn
            below 0, or far above the newest of the stream without `ahead`. Nothing is landed then.
    """
    pipeline, paths, run_id, csn = step.pipeline, step.paths, step.run_id, snapshot.csn
    landing_tables.create_tables(paths)
    _refuse(csn, loaded_snapshots.newest(paths), ahead=snapshot.ahead)
    files_by_table = _chosen(snapshots_files.tables_of(pipeline, snapshot.path), snapshot.tables, snapshot.path)
    done = _loaded(pipeline, paths, files_by_table, csn)
    waiting = loaded_snapshots.waiting(pipeline, paths, files_by_table)
    known = {table: max(done.get(table, -1), waiting.get(table, -1)) for table in files_by_table}
    if min(known.values()) >= csn:
        LOG.info(f"skipped: {', '.join(files_by_table)} was loaded as of csn {min(known.values())} already")
        return {"skipped": 1, "csn": csn}
    whole = set(files_by_table) == {table.name for table in pipeline.tables}
    for table in [name for name, of_table in known.items() if of_table == csn and not pipeline.table(name).key]:
        # It has no key by which the second of two equal rows would replace the first.
        LOG.info(f"left out: {table} was loaded as of csn {csn} already")
        del files_by_table[table]
    number = finish_last(step) + 1
    at = LandingPlan(number, datetime.now(UTC), ())
    time = snapshot.time
    timestamp = time.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if time is not None else None
    load = InternalTransaction(
        effective_pipeline(pipeline, paths), at, loaded_snapshots.xid(number, whole=whole), csn, timestamp
    )
    files = list(enumerate((file for of_table in files_by_table.values() for file in of_table), 1))
    if sum(Task(number_, names.LOAD, file.path, file.size).bytes for number_, file in files) <= decoding.LOCAL_BYTES:
        rows = [events for each in files for events in _decoded(load, *each)]
        counted = [change_events.with_counted_rows(events, at) for events in rows]
        landing_plan.write_topics(paths, at, run_id, map(loaded_snapshots.topic, files_by_table))
        head = load.truncates(files_by_table, BEHIND, _counted(rows))
        landing_tables.append(pa.concat_tables([change_events.with_compact_events(head, at), *counted]), at, paths)
    else:
        _land_large(step.session, load, files_by_table, files, paths, run_id)
    close(step, at)
    return {"tables": len(files_by_table), "files": len(files), "csn": csn, "landing": number}


def _loaded(pipeline: Pipeline, paths: TablePaths, tables: Collection[str], csn: int) -> dict[str, int]:
    """Return, of each table that was loaded, the newest csn as of which that was; log what a new load cannot complete.

    A load that was released before a history was found to be incomplete did not complete it: it does not count.

    Raises:
        ConfigurationError: if a table without a key would be loaded twice as of one csn, so that it had each row twice.
    """
    any_csn = loaded_snapshots.ANY
    done = loaded_snapshots.loaded(pipeline, paths, any_csn, any_csn)
    newest = [state.newest for state in records.states(records.read(paths)).values() if state.is_lacking]
    # Of several histories of a table, a load has to follow the one that was found to be incomplete last.
    lacking = {record.pair[1]: record for record in sorted(newest, key=lambda each: each.release)}
    for name in sorted(lacking.keys() & tables):
        record = lacking[name]
        if csn < record.since_csn - 1:
            LOG.warning(
                f"warning: {record.table} lacks changes up to csn {record.since_csn - 1}: a snapshot as of csn {csn} "
                "does not complete it. Load one as of that csn or a later one"
            )
        since = loaded_snapshots.loaded(pipeline, paths, any_csn, any_csn, after=record.release).get(name, -1)
        if since < csn <= done.get(name, -1) and not pipeline.table(name).key:
            raise ConfigurationError(
                f"csn {csn}: {name} has no key, and was loaded as of csn {done[name]} before {record.table} was found "
                "to be incomplete: load a snapshot as of a later csn, or each row would be there twice"
            )
        done[name] = since
    return done


def _chosen(
    files_by_table: dict[str, list[SnapshotFile]], tables: Sequence[str], path: str
) -> dict[str, list[SnapshotFile]]:
    """Return the files of some tables; none named: of all."""
    missing = sorted(set(tables) - files_by_table.keys())
    if missing:
        raise ConfigurationError(f"{path}: no folder {missing[0]}; it has {', '.join(files_by_table)}")
    return {table: of_table for table, of_table in files_by_table.items() if not tables or table in tables}


def _refuse(csn: int, newest: int | None, *, ahead: bool) -> None:
    """Raise ConfigurationError for an impossible csn: changes at or below it count as contained in the snapshot."""
    if csn < 0:
        raise ConfigurationError(f"csn {csn}: expected a number of 0 or more, the csn as of which the rows are")
    if newest and csn > newest * FAR and not ahead:
        raise ConfigurationError(
            f"csn {csn}: the newest that the source sent is {newest}; every change up to the snapshot's csn would "
            "count as contained in it. Is there a digit too many? If not, say --ahead"
        )


def _land_large(
    session: "Callable[[], SparkSession]",
    load: InternalTransaction,
    tables: Mapping[str, Sequence[SnapshotFile]],
    files: Sequence[tuple[int, SnapshotFile]],
    paths: TablePaths,
    run_id: str,
) -> None:
    """Decode the files in tasks, which write data files of change_events; this process commits them."""
    path = paths.change_events

    def write(some: Iterable[tuple[int, SnapshotFile]]) -> Iterator[tuple[list[data_files.DataFile], dict[str, int]]]:
        for number, file in some:
            for events in decoding.gathered(_decoded(load, number, file)):
                rows = change_events.with_counted_rows(events, load.at)
                yield [data_files.write_file(rows, names.CHANGE_EVENTS, path)], _counted([events])

    parts = [
        (number, part)
        for number, file in files
        for part in snapshots_files.parts_of(file, load.pipeline.table(file.table))
    ]
    results = tasks.in_tasks(session, parts, write)
    counts: dict[str, int] = {}
    for _, counted in results:
        for table, count in counted.items():
            counts[table] = counts.get(table, 0) + count
    landing_plan.write_topics(paths, load.at, run_id, map(loaded_snapshots.topic, tables))
    head = change_events.with_compact_events(load.truncates(tables, BEHIND, counts), load.at)
    written = [part for counted, _ in results for part in counted] + [
        data_files.write_file(head, names.CHANGE_EVENTS, path)
    ]
    landing_tables.append_files(written, load.at, paths)


def _decoded(load: InternalTransaction, number: int, file: SnapshotFile) -> Iterator[pa.Table]:
    """Yield a file's rows as rows of change_events; raise ConfigurationError at the first that cannot be read."""
    table = load.pipeline.table(file.table)
    decoder, reader = SourceDecoder(load.pipeline), ImageReader(table)
    for first, images in snapshots_files.typed_images(file, table):
        start = BEHIND + number * PER_FILE + first
        if isinstance(images, pa.StringArray):
            yield load.loaded(table, images, Task(number, names.LOAD, file.path, 0), first, start)
            continue
        messages = [load.message(file.table, "r", start + i, after=image) for i, image in enumerate(images)]
        task = Task(number, names.LOAD, file.path, 0)
        events = load.landed(decoder, messages, task, range(first, first + len(messages)))
        if problems := load.problems(events, reader, messages):
            at = min(problems)
            raise ConfigurationError(f"{file.path}: row {first + at}: {problems[at]}; nothing was loaded")
        yield events


def _counted(events: Sequence[pa.Table]) -> dict[str, int]:
    """Return how many rows there are by table."""
    rows_by_table = (
        pa.concat_tables([CHANGE_EVENTS.empty_table(), *events]).group_by("table").aggregate([([], "count_all")])
    )
    return {row["table"]: row["count_all"] for row in rows_by_table.to_pylist()}
