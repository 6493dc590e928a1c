"""buffer_transactions: hold events until their transaction is whole, then append it to history in one release."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import LedgerUnbalanced
from txloom.quality.dead_letters import Selection
from txloom.steps.buffer import late_events, producer_checks, producer_runs
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.give_up import DeadLettered, Given, cause_of, dead_letter, give_up
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.buffer.pending import list_waiting, named
from txloom.steps.buffer.release_batch import Released, events_in, release_large, release_small
from txloom.steps.buffer.rows_of_before import take_rows_of_before
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.declarations.declare import declare, declare_redecoded
from txloom.steps.step import Counts, Step
from txloom.storage.buffer import batch_plan, buffer_stream, checkpoint_files, checkpoints, earlier_epochs
from txloom.storage.buffer.newest_batch import BufferState, buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import landing_stream
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, balance, write_ledger
from txloom.storage.spark.session import warm_workers
from txloom.storage.system_tables import TRANSACTIONS
from txloom.storage.targets import history_tables
from txloom.transactions.causes import UNREADABLE
from txloom.transactions.compact_events import BUCKETS
from txloom.transactions.completeness import UNFINISHED_ROWS

LOG = logging.getLogger(__name__)

LEVELS = ("buffered", "generation")
"""Counts that are a level after the batch; all others add up over batches."""


def buffer_transactions(step: Step) -> Counts:
    """Decide on everything that was landed since the last run, and release what is whole.

    Dead transactions that late events completed are redriven at once where the pipeline declares so. A damaged
    checkpoint is replaced by a new checkpoint epoch, which is rebuilt from change_events. A repeated call takes in only
    what was landed since, and writes nothing twice. Nothing is taken in where the declaration was edited since the
    newest landing.

    Returns:
        Counts over all batches of the run: rows, metadata, duplicates, released, transactions, dead and others;
        buffered and generation (the checkpoint epoch) are those after the last batch.

    Raises:
        LedgerUnbalanced: if events landed and events accounted for differ.
    """
    warm_workers(step.spark)
    declared = declare(step.pipeline, step.paths, step.run_id)
    if declared is None:
        return {}
    step = replace(step, pipeline=effective_pipeline(step.pipeline, step.paths), declared=declared)
    history_tables.create(step.pipeline, step.paths)
    totals = _run(step)
    complete = open_letters.complete_now(step.paths)
    if complete and step.pipeline.completeness.complete_now == "redrive":
        redrive(step, Selection(transactions=complete))
        for name, count in _run(step).items():
            totals[name] = count if name in LEVELS else totals.get(name, 0) + count
        totals["redriven"] = len(complete)
    return {**totals}


def _run(step: Step) -> dict[str, int]:
    """Take in what was landed since the last run; a state that Spark cannot read is replaced by a new epoch."""
    paths = step.paths
    epoch = checkpoints.running(paths, batch_plan.change_events_id(paths), parts_of(step.pipeline))
    try:
        totals = _taken_in(step, epoch)
    except StreamingQueryException as error:
        if not checkpoint_files.is_damage(error):
            raise
        why = f"Spark cannot read its state: {checkpoint_files.reason(error)}"
        epoch = checkpoints.replaced(paths, epoch, why)
        totals = _taken_in(step, epoch)
    check_balance(paths, epoch, step.run_id)
    return totals


def _taken_in(step: Step, epoch: int) -> dict[str, int]:
    """Let a checkpoint epoch take in the landings that it has not, one micro-batch for each row of its plan."""
    pipeline, paths = step.pipeline, step.paths
    totals: dict[str, int] = {"generation": epoch}
    checkpoint = checkpoints.checkpoint(paths.warehouse, pipeline.name, epoch)
    plan = batch_plan.plan_of(checkpoint)
    if gone := history_tables.take_back(pipeline, paths, epoch):
        LOG.warning(f"{gone} rows of history are taken back: the batch that appended them died before it was complete")
    seen, before = buffer_state(paths), batch_plan.planned(plan)
    known = known_before(seen, epoch)
    parts = parts_of(pipeline)
    planned = batch_plan.extend(paths, plan, known, parts)
    # Not only those that were planned just now: a run may have died after it had planned them.
    if batch_plan.has_redecoded(paths, seen):
        if (declared := declare_redecoded(step.declared, pipeline, paths, step.run_id)) is None:
            return totals
        step = replace(step, declared=declared)
    if known > before:
        LOG.info(f"the buffer is rebuilt up to landing {known}, in {len(planned)} batches")
    arrived = landing_stream.stream(step.spark, paths, plan, max((each.tasks for each in planned), default=1), parts)

    def release(frame: DataFrame, number: int) -> None:
        batch = Batch(step.spark, pipeline, paths, epoch, number, step.run_id, known, declared=step.declared)
        for name, count in release_batch(batch, frame.collect()).items():
            totals[name] = count if name in LEVELS else totals.get(name, 0) + count

    query = (
        buffer_stream.outcomes(arrived, rules_of(pipeline))
        .writeStream.foreachBatch(release)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return totals


def parts_of(pipeline: Pipeline) -> int:
    """Return into how many parts the state splits each bucket of a landing."""
    return pipeline.spark.state_groups // BUCKETS


def known_before(seen: BufferState | None, epoch: int) -> int:
    """Return the last landing of which an earlier checkpoint epoch decided and wrote everything; 0 for none.

    Args:
        seen: the state after the newest complete batch; None before the first one.
        epoch: the checkpoint epoch that runs.
    """
    return seen.landing if seen is not None and seen.release < checkpoints.first_release(epoch) else 0


def release_batch(batch: Batch, outcomes: Sequence[Row]) -> dict[str, int]:
    """Write what one micro-batch decided, and return its counts; a repeated batch writes nothing twice.

    A batch without any row (of a commit that changes no rows, such as that of a lease) returns {}. History and dead
    letters are written first, then `transactions`, because a transaction counts as finished once it is there. The
    waiting transactions are written last: they name the landing up to which a rebuild writes nothing again.

    Args:
        batch: the batch.
        outcomes: its decisions, in the schema of `txloom.storage.buffer.buffer_stream.OUTCOMES`.
    """
    kinds = {what: [row for row in outcomes if row["what"] == what] for what in KINDS}
    if not kinds["counts"]:
        return {}
    counts = _counts(kinds["counts"])
    clock = max(kinds["counts"], key=lambda row: row["landing"])
    batch = batch.up_to(clock["landing"])
    watched = batch.table_names()
    whole = buffer_stream.packed_rows(outcomes, "released", buffer_stream.RELEASED_ROWS)
    repeated = buffer_stream.packed_rows(outcomes, "repeated", buffer_stream.REPEATED_ROWS)
    released = _release(batch, whole, repeated, {place["landing"] for place in kinds["place"]})
    unfinished = {what: buffer_stream.packed_rows(outcomes, what, UNFINISHED_ROWS) for what in ("dead", "waiting")}
    dead = unfinished["dead"].to_pylist(maps_as_pydicts="strict")
    operations = producer_checks.operations_of(batch, dead)
    causes = {row["tx"]: cause_of(row, watched, operations) for row in dead}
    of_before = take_rows_of_before(batch, kinds["late"])
    batch = of_before.record_in(batch)
    late_rows = of_before.without(kinds["late"])
    late = late_events.judge(batch, late_rows, {**causes, **dict.fromkeys(released.unreadable, UNREADABLE)})
    given_up = give_up(batch, dead, watched, operations)
    taken = DeadLettered(released=of_before.new, duplicates=of_before.again)
    dead_lettered = [given_up, _unreadable(batch, released), late.dead_lettered, taken]
    batch.record(late.findings)
    _write_dead_letters(batch, dead_lettered)
    _write_transactions(batch, released, dead_lettered, late.completed)
    if not batch.is_known:
        known = named(batch, pa.concat_tables(list(unfinished.values())))
        producer_checks.after_batch(batch, dead, operations, known)
        if counts["several_runs"] or any(row["runs"] for row in dead):
            producer_runs.after_batch(batch, whole, dead, causes)
        if counts["clocks"]:
            list_waiting(batch, unfinished["waiting"], known, clock)
    counts = _finished(counts, dead_lettered)
    batch.enter(counts)
    return counts


def _release(batch: Batch, whole: pa.Table, repeated: pa.Table, landings: set[int]) -> Released:
    if not landings:
        return Released()
    release = release_small if events_in(whole) <= arrow_tables.LOCAL_ROWS else release_large
    return release(batch, whole, repeated, landings)


KINDS = ("place", "late", "counts")
"""The kinds of outcomes that have a row for each of what they are about."""


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for row in rows:
        for name, count in json.loads(row["received"]).items():
            totals[name] = totals.get(name, 0) + count
    return totals


def _unreadable(batch: Batch, released: Released) -> DeadLettered:
    """Turn whole transactions with a value that does not fit its declared type into dead letters."""
    if not released.unreadable:
        return DeadLettered()
    given = [Given(tx, UNREADABLE, problem, *released.sizes[tx]) for tx, problem in released.unreadable.items()]
    rows = sum(released.sizes[tx][0] for tx in released.unreadable)
    dead_lettered = dead_letter(batch, given, released.landings)
    return DeadLettered(dead_lettered.dead_letters, dead_lettered.transactions, rows=rows, released=-rows)


def _write_dead_letters(batch: Batch, dead_lettered: Sequence[DeadLettered]) -> None:
    dead_letters = [part.dead_letters for part in dead_lettered if part.dead_letters is not None]
    if dead_letters:
        new = reduce(DataFrame.unionByName, dead_letters)
        batch.append(
            earlier_epochs.without_written_dead_letters(batch.spark, batch.paths, new, batch.epoch),
            names.DEAD_LETTERS,
        )


def _write_transactions(
    batch: Batch, released: Released, dead_lettered: Sequence[DeadLettered], completed: pa.Table
) -> None:
    """Append all transactions that this batch finished, and dead ones that it completed, in one commit."""
    frames = [part.transactions for part in dead_lettered if part.transactions is not None]
    dead = [arrow_tables.conform(frame.toArrow(), TRANSACTIONS) for frame in frames]
    given_up = earlier_epochs.without_written_deaths(batch.paths, pa.concat_tables([*dead, completed]), batch.epoch)
    finished = pa.concat_tables([released.transactions, given_up])
    if released.parts:
        rest = [batch.write_file(finished, names.TRANSACTIONS)] if finished.num_rows else []
        batch.append_files([*released.parts, *rest], names.TRANSACTIONS)
    elif finished.num_rows:
        batch.append_local(finished, names.TRANSACTIONS)


def _finished(counts: dict[str, int], dead_lettered: Sequence[DeadLettered]) -> dict[str, int]:
    """Correct the buffer's counts by late and unreadable events, and leave out intermediate counts."""
    corrected = {name: count for name, count in counts.items() if name not in ("late", "clocks", "several_runs")}
    corrected["dead"] += sum(part.rows for part in dead_lettered)
    corrected["duplicates"] += sum(part.duplicates for part in dead_lettered)
    corrected["released"] += sum(part.released for part in dead_lettered)
    corrected["buffered_change"] = corrected["buffered"] - corrected.pop("buffered_before")
    return corrected


def check_balance(paths: TablePaths, epoch: int, run_id: str) -> None:
    """Append the pipeline's balance to the ledger: landed = released + buffered + dead + duplicate + unwatched.

    Rows that were decoded again after an edit, while their transaction waited, were landed twice: they have a count of
    their own (`redecoded`), because their source did not send them again.

    Both sides are sums over all landings and over all batches of this checkpoint epoch, which begins with the first
    landing.

    Args:
        paths: the tables of the pipeline.
        epoch: the checkpoint epoch.
        run_id: the run that checks it.

    Raises:
        LedgerUnbalanced: if both sides differ; the balance is in the ledger then too.
    """
    landed, buffered = balance(paths.warehouse, paths.pipeline, ("land_events", checkpoints.STEP))
    sides = {
        "landed": landed.get("landed", 0),
        "released": buffered.get("released", 0),
        "buffered": buffered.get("buffered_change", 0),
        "dead": buffered.get("dead", 0) + landed.get("poison", 0),
        "duplicates": buffered.get("duplicates", 0),
        "redecoded": buffered.get("redecoded", 0),
        "unwatched": landed.get("unwatched", 0),
        "metadata": buffered.get("metadata", 0),
        "tombstones": landed.get("tombstones", 0),
        "markers": landed.get("markers", 0),
    }
    difference = sides["landed"] - sum(count for name, count in sides.items() if name != "landed")
    detail = None if not difference else f"{difference} events are not accounted for"
    now = datetime.now(UTC)
    entry = Entry(run_id, "balance", now, sides, 0, epoch, balanced=not difference, detail=detail)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    if difference:
        raise LedgerUnbalanced(f"pipeline {paths.pipeline}: {detail}: {sides}")
