"""A pipeline whose every step runs in this process, the buffer too: real tables, without a JVM."""

from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from deltalake import write_deltalake

from called import step_of
from landed import landed_between, newest_landing
from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.steps.backfill.backfill import backfill
from txloom.steps.buffer.declared_rules import rules_of
from txloom.steps.buffer.release import Share, release
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge.merge_current import merge_current
from txloom.storage import system_tables
from txloom.storage.buffer import buffer_stream
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_tables
from txloom.transactions import buffer
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS
from workloads import unfinished


def no_spark() -> NoReturn:
    raise AssertionError("so few rows need no Spark")


class Buffered:
    """A warehouse, and the buffer's state between runs."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.pipeline, self.warehouse = pipeline, str(folder / "warehouse")
        self.paths = TablePaths(self.warehouse, pipeline.name)
        self.held = {bucket: buffer.Held() for bucket in range(BUCKETS)}
        self.taken = self.batches = 0
        self.late = self.duplicates = 0
        self.dead: list[unfinished.Unfinished] = []

    def run(self) -> None:
        """Run one cycle up to the merge."""
        run_id = f"run-{self.batches}"
        land_events(step_of(self.pipeline, self.warehouse, run_id, no_spark))
        self.buffer()
        merge_current(step_of(self.pipeline, self.warehouse, run_id, no_spark))

    def buffer(self) -> None:
        """Take what was landed since through the buffer, and release what is whole."""
        history_tables.create(self.pipeline, self.paths)
        self.batches += 1
        rules, released, repeated, waiting = rules_of(self.pipeline), [], [], []
        taken, self.taken = self.taken, newest_landing(self.paths, self.taken)
        reached = ev.NOWHERE
        for bucket, each in landed_between(self.paths, taken, self.taken).items():
            self.held[bucket], decided = buffer.decide(self.held[bucket], each, rules)
            released.append(buffer_stream.released(decided))
            repeated.append(buffer_stream.repeated(decided))
            waiting += unfinished.each(decided.waiting)
            self.dead += unfinished.each(decided.dead)
            self.late += sum(len(part) for part in decided.late)
            self.duplicates += decided.duplicates
            reached = decided.low_watermark
        share = Share(pa.concat_tables(released), range(1, self.taken + 1), pa.concat_tables(repeated))
        made = release(self.pipeline, self.paths, self.batches, share)
        for name, rows in {**made.history, names.TRANSACTIONS: made.transactions}.items():
            path = self.paths.table(name)
            write_deltalake(path, arrow_tables.conform(rows, small_tables.schema_of(path)), mode="append")
        about = {"release": self.batches, "landing": self.taken, "reached": reached}
        path = self.paths.table(names.PENDING_TRANSACTIONS)
        small_tables.replace(path, [{"csn": each.csn} for each in waiting], system_tables.PENDING_TRANSACTIONS, about)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = arrow_tables.select(self.paths.table(table), "select * from t").to_pylist()
        return rows

    def backfill(self, name: str, run_id: str = "b1") -> dict[str, int]:
        """Run a step of a backfill; return its counts that are not 0."""
        made = backfill(step_of(self.pipeline, self.warehouse, run_id, no_spark), name)
        return {name: count for name, count in made.items() if count}
