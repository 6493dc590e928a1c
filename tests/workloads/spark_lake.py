"""The same lake, its buffer as Spark's stream; which steps Spark does is decided by thresholds drawn at random."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from txloom.steps.backfill import left_history, rebuild
from txloom.steps.buffer import buffer_transactions as buffering
from txloom.steps.buffer import release_batch
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.merge import rewrite_merge, spark_merge
from txloom.steps.snapshots import diff_snapshot
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.delta import arrow_tables, small_merge
from txloom.storage.landing import decoding
from txloom.storage.sources import divided_splits
from txloom.storage.targets import spark_fold
from txloom.transactions import redelivered
from workloads.small_lake import SmallLake

LIMITS = (
    (arrow_tables, "LOCAL_ROWS", (-1, 5, arrow_tables.LOCAL_ROWS)),
    (decoding, "LOCAL_BYTES", (-1, 2_000, decoding.LOCAL_BYTES)),
    (divided_splits, "MOST", (300, 2_000, divided_splits.MOST)),
    (small_merge, "LOCAL_TABLE_BYTES", (-1, 5_000, small_merge.LOCAL_TABLE_BYTES)),
    (rewrite_merge, "REWRITE_BYTES", (-1, 5_000, rewrite_merge.REWRITE_BYTES)),
    (diff_snapshot, "BUCKET_BYTES", (300, diff_snapshot.BUCKET_BYTES)),
    (release_batch, "SHARE", (5, release_batch.SHARE)),
    (rebuild, "SHARE", (5, rebuild.SHARE)),
    (redelivered, "LOT", (3, redelivered.LOT)),
    (left_history, "ROWS", (10, left_history.ROWS)),
    (spark_fold, "LITERAL_KEYS", (0, 3, spark_fold.LITERAL_KEYS)),
)
"""What decides whether this process works or Spark, and in how many parts: always Spark, sometimes, as jobs do."""
BY_SPARK = (
    (spark_merge, "plan"),
    (buffering, "release_large"),
    (rebuild, "_histories_in_shares"),
)
"""What works where no rows are few enough for this process."""


def note_calls(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of what is called of BY_SPARK, as it comes."""
    called = set[str]()

    def noting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **more: Any) -> Any:
            called.add(name)
            return call(*given, **more)

        return noted

    for module, name in BY_SPARK:
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
    return called


def draw_limits(monkeypatch: pytest.MonkeyPatch, chance: Random, *, by_spark: bool = False) -> dict[str, int]:
    """Draw what is small enough for this process; return it for a message. by_spark: no rows are."""
    drawn = {name: chance.choice(values) for _, name, values in LIMITS}
    if by_spark:
        drawn["LOCAL_ROWS"] = -1
    for module, name, _ in LIMITS:
        monkeypatch.setattr(module, name, drawn[name])
    return drawn


class SparkLake(SmallLake):
    """A lake whose steps are the jobs' own, all of them."""

    def session(self) -> Any:
        """Return the session of steps that are too large for this process."""
        return self.spark

    def take_in(self) -> None:
        """Run the buffer as its job does."""
        with patch.object(batch_plan, "ROWS_AT_ONCE", self.at_once):
            self.step(buffer_transactions, self.spark)

    def lose_checkpoint(self) -> None:
        """Take away what the buffer knows."""
        shutil.rmtree(Path(checkpoints.root(self.warehouse, self.pipeline.name)), ignore_errors=True)
