"""The same lake, its buffer as Spark's stream; which steps Spark does is decided by thresholds drawn at random."""

import shutil
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.snapshots import diff_snapshot
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.delta import arrow_tables, small_merge
from txloom.storage.landing import decoding
from workloads.small_lake import SmallLake

LIMITS = (
    (arrow_tables, "LOCAL_ROWS", (-1, 5, arrow_tables.LOCAL_ROWS)),
    (decoding, "LOCAL_BYTES", (-1, 2_000, decoding.LOCAL_BYTES)),
    (small_merge, "LOCAL_TABLE_BYTES", (-1, 5_000, small_merge.LOCAL_TABLE_BYTES)),
    (diff_snapshot, "BUCKET_BYTES", (300, diff_snapshot.BUCKET_BYTES)),
)
"""What decides whether this process works or Spark: always Spark, sometimes, as jobs do."""


def draw_limits(monkeypatch: pytest.MonkeyPatch, chance: Random) -> dict[str, int]:
    """Draw what is small enough for this process; return it for a message."""
    drawn = {name: chance.choice(values) for _, name, values in LIMITS}
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
