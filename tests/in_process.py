"""The buffer without a stream: what tests run that are not marked `stream`, for they need no state store of Spark's.

Landings are read, decided and written by the functions that the stream calls, in one batch for each run; what is held
lies in the checkpoint's folder, so that a copied warehouse goes on where the first one was.
"""

import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row

from landed import landed_between
from txloom.config.models.pipeline import Pipeline
from txloom.steps.buffer import buffer_transactions
from txloom.steps.buffer.buffer_transactions import LEVELS, check_balance, known_before, release_batch
from txloom.steps.buffer.completeness import rules_of
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.buffer import batch_plan, checkpoints, stream
from txloom.storage.paths import TablePaths
from txloom.transactions import buffer
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS


def replace_streams(monkeypatch: pytest.MonkeyPatch, is_kept: Callable[[], bool]) -> None:
    """Let the buffer run in this process, except where the stream is kept."""
    by_stream = buffer_transactions._run

    def chosen(*given: Any) -> dict[str, int]:
        return (by_stream if is_kept() else run)(*given)

    monkeypatch.setattr(buffer_transactions, "_run", chosen)


class Outcomes:
    """What a batch decided, as far as `release_batch` asks a frame of Spark's for it; the rest a real one answers."""

    def __init__(self, spark: Any, rows: Sequence[dict[str, Any]]) -> None:
        self.spark, self.rows = spark, rows

    def persist(self) -> "Outcomes":
        return self

    def unpersist(self) -> "Outcomes":
        return self

    def where(self, condition: str) -> Any:
        """Choose rows by what they are; any other condition is Spark's."""
        only, other = re.fullmatch(r"what = '(\w+)'", condition), re.fullmatch(r"what != '(\w+)'", condition)
        if only is None and other is None:
            return self._frame().where(condition)
        return Outcomes(
            self.spark, [row for row in self.rows if (row["what"] == only[1] if only else row["what"] != other[1])]
        )

    def collect(self) -> list[Row]:
        return [Row(**row) for row in self.rows]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frame(), name)

    def _frame(self) -> Any:
        rows = [tuple(row[name] for name in stream.OUTCOME_NAMES) for row in self.rows]
        return self.spark.createDataFrame(rows, stream.OUTCOMES)


def run(spark: Any, pipeline: Pipeline, paths: TablePaths, run_id: str) -> dict[str, int]:
    """Take in what was landed since the last run, as `txloom.steps.buffer.buffer_transactions` does by a stream."""
    generation = checkpoints.current_epoch(paths.warehouse, pipeline.name)
    known = known_before(paths, generation)
    folder = Path(checkpoints.checkpoint(paths.warehouse, pipeline.name, generation).removeprefix("file://"))
    taken, number, held = _kept(folder)
    totals = {"generation": generation}
    for end in batch_plan.ends(paths, taken, known):
        rows = list[dict[str, Any]]()
        arrived = landed_between(paths, taken, end.landing)
        for bucket in range(BUCKETS):
            before = int(np.count_nonzero(held[bucket].events["kind"] == ev.ROW))
            held[bucket], decided = buffer.decide(held[bucket], arrived[bucket], rules_of(pipeline))
            rows += [row for frame in stream._rows(bucket, before, held[bucket], decided) for row in _plain(frame)]
        batch = Batch(spark, pipeline, paths, generation, number, run_id, known)
        for name, count in release_batch(batch, Outcomes(spark, rows)).items():
            totals[name] = count if name in LEVELS else totals.get(name, 0) + count
        taken, number = end.landing, number + 1
        _keep(folder, taken, number, held)
    check_balance(paths, generation, run_id)
    return totals


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def _kept(folder: Path) -> tuple[int, int, dict[int, buffer.Held]]:
    """Return the last landing taken in, the number of the next batch, and what each bucket holds."""
    file = folder / "offsets" / "state"
    if not file.exists():
        return 0, 0, {bucket: buffer.Held() for bucket in range(BUCKETS)}
    taken, number, held = pickle.loads(file.read_bytes())
    return taken, number, {bucket: stream.unpack(each) for bucket, each in held.items()}


def _keep(folder: Path, taken: int, number: int, held: dict[int, buffer.Held]) -> None:
    file = folder / "offsets" / "state"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps((taken, number, {bucket: stream.pack(each) for bucket, each in held.items()})))
