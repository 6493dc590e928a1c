"""The buffer without a stream: what tests run that are not marked `stream`, for they need no state store of Spark's.

Landings are read, decided and written by the functions that the stream calls, in one batch for each run; what is held
lies in the checkpoint's folder, so that a copied warehouse goes on where the first one was. Dead letters, which Spark
makes, are made by `workloads.small_lake` instead, unless the test is marked `session`, or every batch is a large one.
"""

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

import running
from landed import landed_between
from txloom.steps.buffer import buffer_transactions, late_metadata, producer_checks, producer_runs
from txloom.steps.buffer.buffer_transactions import KINDS, LEVELS, check_balance, known_before, release_batch
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.give_up import cause_of
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.buffer.pending import list_waiting, named
from txloom.steps.buffer.release_batch import Released, release_small
from txloom.steps.buffer.rows_of_before import take_rows_of_before
from txloom.steps.declarations.declare import declare_redecoded
from txloom.steps.step import Step
from txloom.storage.buffer import batch_plan, buffer_stream, checkpoints
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables
from txloom.transactions import buffer
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS
from txloom.transactions.completeness import UNFINISHED_ROWS
from workloads.small_lake import Letters


def replace_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the buffer run in this process, except in tests that are marked `stream`."""
    by_stream = buffer_transactions._run

    def chosen(step: Step) -> dict[str, int]:
        return (by_stream if running.by_stream() else run)(step)

    monkeypatch.setattr(buffer_transactions, "_run", chosen)


def run(step: Step) -> dict[str, int]:
    """Take in what was landed since the last run, as `txloom.steps.buffer.buffer_transactions` does by a stream."""
    spark, pipeline, paths, run_id = step.spark, step.pipeline, step.paths, step.run_id
    generation = checkpoints.current_epoch(paths.warehouse, pipeline.name)
    seen = buffer_state(paths)
    known = known_before(seen, generation)
    folder = Path(checkpoints.checkpoint(paths.warehouse, pipeline.name, generation).removeprefix("file://"))
    taken, number, held = _kept(folder)
    totals = {"generation": generation}
    declared, ends = step.declared, batch_plan.ends(paths, taken, known)
    if ends and batch_plan.has_redecoded(paths, seen):
        declared = declare_redecoded(declared, pipeline, paths, run_id)
    if declared is None:
        return totals
    for end in ends:
        rows = list[dict[str, Any]]()
        arrived = landed_between(paths, taken, end.landing)
        for bucket in range(BUCKETS):
            before = int(np.count_nonzero(held[bucket].events["kind"] == ev.ROW))
            held[bucket], decided = buffer.decide(held[bucket], arrived[bucket], rules_of(pipeline))
            rows += [
                row for frame in buffer_stream._rows(bucket, before, held[bucket], decided) for row in _plain(frame)
            ]
        batch = Batch(spark, pipeline, paths, generation, number, run_id, known, declared=declared)
        by_spark = running.by_session() or arrow_tables.LOCAL_ROWS < 0
        written = release_batch(batch, [Row(**row) for row in rows]) if by_spark else release_here(batch, rows)
        for name, count in written.items():
            totals[name] = count if name in LEVELS else totals.get(name, 0) + count
        taken, number = end.landing, number + 1
        _keep(folder, taken, number, held)
    check_balance(paths, generation, run_id)
    return totals


def release_here(batch: Batch, rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Write what a batch decided as `release_batch` does, dead letters by the hand of `workloads.small_lake`."""
    kinds = {what: [Row(**row) for row in rows if row["what"] == what] for what in KINDS}
    whole = buffer_stream.packed_rows(rows, "released", buffer_stream.RELEASED_ROWS)  # type: ignore[arg-type]
    repeated = buffer_stream.packed_rows(rows, "repeated", buffer_stream.REPEATED_ROWS)  # type: ignore[arg-type]
    unfinished = {what: buffer_stream.packed_rows(rows, what, UNFINISHED_ROWS) for what in ("dead", "waiting")}  # type: ignore[arg-type]
    dead = unfinished["dead"].to_pylist(maps_as_pydicts="strict")
    if not kinds["counts"]:
        return {}
    counts = Counter(buffer_transactions._counts(kinds["counts"]))
    clock = max(kinds["counts"], key=lambda row: row["landing"])
    batch, watched = batch.up_to(clock["landing"]), batch.table_names()
    landings = {row["landing"] for row in kinds["place"]}
    released = release_small(batch, whole, repeated, landings) if landings else Released()
    operations = producer_checks.operations_of(batch, dead)
    letters, given_up = Letters(batch, counts), {row["tx"]: row for row in dead}
    before = open_letters.dead_by_hash(batch.paths).keys() | given_up.keys() | released.unreadable.keys()
    letters.give_up(dead, operations)
    letters.refuse(released)
    of_before = take_rows_of_before(batch, kinds["late"])
    batch = of_before.record_in(batch)
    counts.update({"released": of_before.new, "duplicates": of_before.again})
    late = of_before.without(kinds["late"])
    letters.judge(late, set(given_up))
    news = [row for row in late if not row["rows"] and row["tx"] not in before]
    batch.record(late_metadata.contradictions(batch, news))
    letters.write(released)
    if not batch.is_known:
        known = named(batch, pa.concat_tables(list(unfinished.values())))
        producer_checks.after_batch(batch, dead, operations, known)
        if counts["several_runs"] or any(row["runs"] for row in dead):
            causes = {tx: cause_of(row, watched, operations) for tx, row in given_up.items()}
            producer_runs.after_batch(batch, whole, dead, causes)
        if counts["clocks"]:
            list_waiting(batch, unfinished["waiting"], known, clock)
    settled = {name: count for name, count in counts.items() if name not in ("late", "clocks", "several_runs")}
    settled["buffered_change"] = settled["buffered"] - settled.pop("buffered_before")
    batch.enter(settled)
    return settled


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def _kept(folder: Path) -> tuple[int, int, dict[int, buffer.Held]]:
    """Return the last landing taken in, the number of the next batch, and what each bucket holds."""
    file = folder / "offsets" / "state"
    if not file.exists():
        return 0, 0, {bucket: buffer.Held() for bucket in range(BUCKETS)}
    taken, number, held = pickle.loads(file.read_bytes())
    return taken, number, {bucket: buffer_stream.unpack(each) for bucket, each in held.items()}


def _keep(folder: Path, taken: int, number: int, held: dict[int, buffer.Held]) -> None:
    file = folder / "offsets" / "state"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps((taken, number, {bucket: buffer_stream.pack(each) for bucket, each in held.items()})))
