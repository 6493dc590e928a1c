"""diff_snapshot: compare the extracts of a date with the current tables, and land the differences as one transaction.

Its csn is the date as a number, its commit time the beginning of the date in UTC. Rows that are new, changed or gone
become events (I, U, D) with whole images. Rows that a partial extract leaves out (X), and equal ones (N), are counted.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BeyondValidThrough, ConfigurationError, SourceUnavailable, WriteConflict
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.landing.land_events import finish_last
from txloom.steps.landing.redecode import land_edit, redecode_undecided
from txloom.steps.snapshots import extract_diff_tasks
from txloom.steps.snapshots.column_drift import note_columns, note_tables, take_up
from txloom.steps.snapshots.edited_tables import EditPending, earlier_names
from txloom.steps.snapshots.extract_diff import KINDS, Compared, Comparison, in_this_process
from txloom.steps.step import Counts, Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations.earlier_steps import is_buffered
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import data_files, small_merge
from txloom.storage.delta.data_files import DataFile
from txloom.storage.landing import change_events, decoding, landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.snapshots import dated_transactions, extracts, kept_columns
from txloom.storage.snapshots.dated_transactions import Landed
from txloom.storage.snapshots.extracts import MARKER, Day
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.targets.row_tables import row_tables

LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP = "diff_snapshot"
BUCKET_BYTES = 16 << 20
"""About how many bytes of files, of both sides together, a task compares at once."""
NOTHING = "nothing was landed"

Session = Callable[[], "SparkSession"]


def diff_snapshot_after_edits(
    step: Step, day: date, *, leave_out_dead: bool = False, without: Collection[str] = ()
) -> Counts:
    """Let the current tables follow a pending edit of the declaration, then land the differences of a date.

    An edit after which `diff_snapshot` cannot compare a table needs `buffer_transactions` and `merge_current` first.
    Both run here, because no later task of a cycle runs while its first task fails. A repeated call goes on where a
    call that died stopped: each of the three steps reads from the tables what is left to do.

    Args:
        step: as of `diff_snapshot`.
        day: likewise.
        leave_out_dead: likewise.
        without: likewise.

    Returns:
        the counts of `diff_snapshot`.

    Raises:
        TxloomError: an error of one of the three steps; EditPending if the merge did not follow the edit.
    """
    try:
        return diff_snapshot(step, day, leave_out_dead=leave_out_dead, without=without)
    except EditPending:
        LOG.info(f"the declaration was edited: buffer_transactions and merge_current run before {day} is compared")
    # A date without an edit loads neither the buffer nor Spark.
    from txloom.steps.buffer.buffer_transactions import buffer_transactions
    from txloom.steps.merge.merge_current import merge_current

    buffer_transactions(step)
    merge_current(step)
    return diff_snapshot(step, day, leave_out_dead=leave_out_dead, without=without)


def diff_snapshot(step: Step, day: date, *, leave_out_dead: bool = False, without: Collection[str] = ()) -> Counts:
    """Land the differences between the extracts of a date and the current tables.

    Large tables are compared by tasks. A date that is not newer than the newest landed one is skipped, so that a
    repeated call lands nothing twice.

    Args:
        step: the pipeline, its tables and the run.
        day: the date.
        leave_out_dead: of partial extracts: go on though earlier dates are dead letters; these cannot be redriven any
            more.
        without: tables that have no extract of the date, although extracts are full: they stay as they are.

    Returns:
        date, csn and landing; tables, and rows by kind (inserts, updates, deletes, missing, unchanged); or date, csn
        and skipped.

    Raises:
        EditPending: current tables have to follow an edit of the declaration first.
        BeyondValidThrough: while current tables lack something that was landed.
        SourceUnavailable: if extracts do not exist, are not whole, lack a table, or change while they are read.
        ConfigurationError: for rows that cannot be read or compared. Nothing is landed then.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    if pipeline.source.snapshots is None:
        raise ConfigurationError(f"{pipeline.name}: its format is {pipeline.source.format}, which has no extracts")
    landing_tables.create_tables(paths)
    last = finish_last(step)
    newest = dated_transactions.newest(paths)
    is_old = newest is not None and newest.csn >= dated_transactions.csn(day)
    if not is_old or (seen := buffer_state(paths)) is None or seen.landing < last:
        # After an edit, a date that was not buffered yet is decoded again, even if no later date comes.
        last = redecode_undecided(step, last, landing_plan.last_planned(paths))
    if newest is not None and is_old:
        return _skipped(pipeline, paths, newest, day, run_id)
    extracts_of_day = extracts.day_of(pipeline, day)
    _refuse_lacking(pipeline, extracts_of_day, without)
    earlier = earlier_names(step, extracts_of_day.tables, last)
    _refuse_stale(step, extracts_of_day, last)
    _pass_by_dead(pipeline, paths, day, leave_out=leave_out_dead)
    begins = f"{day.isoformat()} 00:00:00"
    at = LandingPlan(last + 1, datetime.now(UTC), ())
    effective = effective_pipeline(pipeline, paths)
    transaction = InternalTransaction(effective, at, dated_transactions.xid(day), dated_transactions.csn(day), begins)
    before = extracts_of_day.stamp()
    transaction, results, written = _compared_all(
        cache(step.session), transaction, extracts_of_day, paths, run_id, earlier
    )
    summary = _summary(extracts_of_day, results)
    if extracts_of_day.stamp() != before:
        raise SourceUnavailable(f"{extracts_of_day.folder}: it changed while it was read; {NOTHING}")
    _land(replace(step, pipeline=transaction.pipeline), transaction, summary, results, written)
    note_columns(transaction, paths, results, run_id)
    note_tables(transaction, paths, results, without, run_id)
    landed = dated_transactions.newest(paths)
    if landed is None or (landed.xid, landed.landing) != (transaction.xid, at.number):
        raise WriteConflict(f"another run landed something else as landing {at.number}; {NOTHING}: run it again")
    return {"date": day.isoformat(), "csn": landed.csn, **_enter(paths, landed, run_id), "landing": at.number}


def _refuse_stale(step: Step, day: Day, last: int) -> None:
    """Raise BeyondValidThrough unless the current tables hold everything that was landed.

    Raise EditPending instead if the next buffer and merge will follow an edit. If no landing waits for them, write an
    empty one, so that they follow the edit.
    """
    pipeline, paths = step.pipeline, step.paths
    try:
        dated_transactions.refuse_stale(pipeline, paths, day.tables)
    except BeyondValidThrough as error:
        seen = buffer_state(paths)
        if seen is not None and seen.landing >= last and not is_buffered(pipeline, seen):
            last = land_edit(step, last + 1)
        is_waiting = seen is None or seen.landing < last
        if is_waiting and landing_plan.is_redecoding(landing_plan.last_planned(paths)):
            raise EditPending(str(error)) from error
        raise


def _refuse_lacking(pipeline: Pipeline, day: Day, without: Collection[str]) -> None:
    """Raise SourceUnavailable for a full extract that lacks tables: a cut would show them as of an earlier date.

    Raises ConfigurationError where `without` names a table that is not watched, or that has an extract.
    """
    assert pipeline.source.snapshots is not None
    watched = [table.name for table in pipeline.tables]
    for name in without:
        if name not in watched:
            raise ConfigurationError(f"--without {name}: expected a watched table: {', '.join(watched)}")
        if name in day.tables:
            raise ConfigurationError(f"--without {name}: {day.folder}/{name} is there; run it without this flag")
    lacking = [name for name in watched if name not in day.tables and name not in without]
    if lacking and pipeline.source.snapshots.is_full:
        flags = " ".join(f"--without {name}" for name in lacking)
        raise SourceUnavailable(
            f"{day.folder}: no extract of {', '.join(lacking)}, although extracts are full: a cut would show another "
            f"date of it than of the other tables; {NOTHING}. Deliver the folder {day.folder}/{lacking[0]}; if the "
            f"table is empty at the source, with a file {MARKER} alone. Or keep its rows of the date before, which a "
            f"finding says: run jobs/diff_snapshot.py for this date with {flags}, then clear the task"
        )


def _pass_by_dead(pipeline: Pipeline, paths: TablePaths, day: date, *, leave_out: bool) -> None:
    """Raise BeyondValidThrough for a partial extract after earlier dates that are dead letters.

    A full extract contains what they had; a note is logged for each.
    """
    assert pipeline.source.snapshots is not None
    for row in dated_transactions.dead_since(paths):
        refusal = f"{row['xid']} is in the dead letters ({row['cause']})"
        if not pipeline.source.snapshots.is_full and not leave_out:
            raise BeyondValidThrough(
                f"{refusal}, and partial extracts do not make good for it: repair what it names, then jobs/redrive.py "
                f"--transaction {row['transaction_id']}, buffer_transactions and merge_current; or leave it out for "
                "good with --leave-out-dead"
            )
        LOG.warning(f"note: {refusal}: {day} is compared without it, and it cannot be redriven any more")


def _compared_all(
    spark: Session,
    transaction: InternalTransaction,
    day: Day,
    paths: TablePaths,
    run_id: str,
    earlier: Mapping[str, Mapping[str, str]],
) -> tuple[InternalTransaction, dict[str, Compared], list[DataFile]]:
    """Compare all tables, again while tables take up columns.

    Returns the transaction with the pipeline that has these columns, results by table, and data files of row events.
    """
    while True:
        results, written = _compared(spark, transaction, day, paths, earlier)
        if not (effective := take_up(transaction, paths, results, run_id)):
            return transaction, results, written
        transaction = InternalTransaction(effective, transaction.at, transaction.xid, transaction.csn, transaction.time)


def _compared(
    spark: Session,
    transaction: InternalTransaction,
    day: Day,
    paths: TablePaths,
    earlier: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, Compared], list[DataFile]]:
    """Compare all tables, small ones in this process; return results by table, and data files of row events.

    earlier: the names of columns that `edited_tables.earlier_names` returns.
    """
    pipeline = transaction.pipeline
    assert pipeline.source.snapshots is not None
    full = pipeline.source.snapshots.is_full
    current = {row_table.table.name: row_table.current for row_table in row_tables(pipeline)}
    comparisons = {
        name: Comparison(transaction, pipeline.table(name), files, full, earlier.get(name))
        for name, files in sorted(day.tables.items())
    }
    sizes = {name: _bytes(each, paths.table(current[name])) for name, each in comparisons.items()}
    results = {name: Compared() for name in comparisons}
    numbers, number = dict[str, tuple[int, int]](), 1
    for name, size in sizes.items():
        buckets = 0 if size <= decoding.LOCAL_BYTES else size // BUCKET_BYTES + 1
        numbers[name] = number, buckets
        number += max(buckets, 1)

    def small() -> Iterator[pa.Table]:
        for name, (first, buckets) in numbers.items():
            if not buckets:
                yield from in_this_process(comparisons[name], paths.table(current[name]), first, results[name])

    written = [_write(events, transaction, paths) for events in decoding.gathered(small())]
    for name, (first, buckets) in numbers.items():
        if buckets:
            parts = extract_diff_tasks.in_tasks(
                spark, comparisons[name], paths, current[name], range(first, first + buckets), results[name]
            )
            written += parts
    _refuse(results, day, full=full)
    return results, written


def _bytes(comparison: Comparison, current: str) -> int:
    """Return about how many bytes of files a comparison reads."""
    extract_bytes = sum(Task(0, names.LOAD, file.path, file.size).bytes for file in comparison.files)
    return extract_bytes + small_merge.bytes_of(current)


def _write(events: pa.Table, transaction: InternalTransaction, paths: TablePaths) -> DataFile:
    return data_files.write_file(
        change_events.with_compact_events(events, transaction.at), names.CHANGE_EVENTS, paths.change_events
    )


def _refuse(results: Mapping[str, Compared], day: Day, *, full: bool) -> None:
    """Raise ConfigurationError for rows that cannot be read or have the key of another row.

    The same for a full extract without rows that would empty a table, unless a marker file says that it is empty.
    """
    if problems := sorted(problem for result in results.values() for problem in result.problems):
        raise ConfigurationError(f"{problems[0]}; {NOTHING}")
    for name, result in results.items():
        if full and not result.rows and result.counts["deletes"] and name not in day.marked:
            raise ConfigurationError(
                f"{day.folder}/{name}: no rows, so that all {result.counts['deletes']} rows of {name} would be "
                "deleted; "
                f"{NOTHING}. If the table is empty at the source, put a file {MARKER} into the folder"
            )


def _summary(day: Day, results: Mapping[str, Compared]) -> dict[str, Any]:
    """Return what the metadata has beside its counts: the ledger's row is written from it alone."""
    counts = {name: {kind: result.counts[kind] for kind in KINDS} for name, result in results.items()}
    return {"extracts": day.folder, "fingerprint": day.fingerprint(), "tables": counts}


def _land(
    step: Step,
    transaction: InternalTransaction,
    summary: Mapping[str, Any],
    results: Mapping[str, Compared],
    written: Sequence[DataFile],
) -> None:
    """Plan the landing, and write it in one commit. Once it is planned it is written, or stays empty."""
    at, paths = transaction.at, step.paths
    counts = {name: result.events for name, result in results.items() if result.events}
    metadata = _write(transaction.landed_metadata(counts, 1, snapshot=summary), transaction, paths)
    without = [table for table in step.pipeline.tables if table.name not in results]
    plan = {
        dated_transactions.topic(name): kept_columns.planned(
            step.pipeline, step.pipeline.table(name), transaction.csn, result.undeclared, without
        )
        for name, result in results.items()
    }
    landing_plan.write_topics(paths, at, step.run_id, plan, step.pipeline)
    landing_tables.append_files([*written, metadata], at, paths)
    close(step, at)


def _enter(paths: TablePaths, landed: Landed, run_id: str) -> dict[str, int]:
    """Append a row about what was landed to the ledger, once, from its metadata; return the counts of all tables."""
    summary = landed.summary or {"tables": {}}
    counts: Counter[str] = Counter()
    for counted in summary["tables"].values():
        counts.update(counted)
    totals = {"tables": len(summary["tables"])} | {kind: counts[kind] for kind in KINDS}
    if landed.landing is not None and landed.summary is not None:
        detail = json.dumps({"extract": landed.xid, "tables": summary["tables"]})
        write_ledger(
            paths.warehouse,
            paths.pipeline,
            Entry(run_id, STEP, datetime.now(UTC), totals, batch=landed.landing, detail=detail),
        )
    return totals


def _skipped(pipeline: Pipeline, paths: TablePaths, newest: Landed, day: date, run_id: str) -> Counts:
    """Skip a date that was landed, or is older than the newest landed one; log and record why."""
    if newest.xid == dated_transactions.xid(day):
        _enter(paths, newest, run_id)
        why = f"skipped: {newest.xid} was landed already" + _differing(pipeline, newest, day) + _dead(paths, newest.xid)
    else:
        newer = f"newer than {newest.xid} (csn {newest.csn}), which was landed already"
        why = f"skipped: {dated_transactions.xid(day)} is not {newer}"
    LOG.info(why)
    entry = Entry(run_id, STEP, datetime.now(UTC), {"skipped": 1}, detail=why)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    return {"date": day.isoformat(), "csn": dated_transactions.csn(day), "skipped": 1}


def _differing(pipeline: Pipeline, landed: Landed, day: date) -> str:
    """Return what to do where a date's extracts differ from those that were landed; empty where they do not."""
    with suppress(SourceUnavailable, ConfigurationError):
        extracts_of_day = extracts.day_of(pipeline, day)
        if landed.summary is not None and extracts_of_day.fingerprint() != landed.summary["fingerprint"]:
            return (
                "; its extracts were changed since, which is left out: put them under a later date, or, if they are "
                f"full, run jobs/load_snapshot.py --pipeline {pipeline.name} --path {extracts_of_day.folder} "
                f"--csn {landed.csn}"
            )
    return ""


def _dead(paths: TablePaths, xid: str) -> str:
    dead = [row for row in dated_transactions.dead_since(paths) if row["xid"] == xid]
    return "".join(f"; it is in the dead letters ({row['cause']}): see jobs/redrive.py" for row in dead)
