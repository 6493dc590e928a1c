"""The buffer's job without Spark: all of it is the job's own, but for the stream that decides on events.

In place of the stream and its state store the rule itself is called, batch by batch of the plan, and a checkpoint is
written that has what the job reads of one. Only where nothing becomes a dead letter: Spark makes those.
"""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from in_process import Outcomes
from landed import landed_between
from txloom.steps.buffer import buffer_transactions
from txloom.storage.buffer import buffer_stream
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.landing import landing_stream
from txloom.storage.paths import TablePaths
from txloom.transactions import buffer, completeness
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS

Release = Callable[[Any, int], None]


class Unstreamed:
    """What the buffer's job asks of a streaming frame and of its query, in the order in which it does."""

    def __init__(self, paths: TablePaths, plan: str) -> None:
        self._paths, self._plan, self._folder = paths, plan, Path(plan.removeprefix("file://")).parent
        self._rules: completeness.Rules | None = None
        self._release: Release | None = None

    def under(self, rules: completeness.Rules) -> Self:
        self._rules = rules
        return self

    @property
    def writeStream(self) -> Self:  # noqa: N802 (Spark's name)
        return self

    def foreachBatch(self, release: Release) -> Self:  # noqa: N802
        self._release = release
        return self

    def option(self, *_: str) -> Self:
        return self

    def trigger(self, **_: bool) -> Self:
        return self

    def start(self) -> Self:
        return self

    def awaitTermination(self) -> None:  # noqa: N802
        """Take in the landings of each row of the plan that was not taken in before."""
        assert self._release is not None
        number, taken, held = self._kept()
        for row in small_tables.query(self._plan, f"select * from t where until > {taken} order by until"):
            self._begin(number)
            self._release(Outcomes(None, self._decided(row, held)), number)
            self._end(number)
            number, taken = number + 1, row["until"]
            (self._folder / "held").write_bytes(pickle.dumps((number, taken, held)))

    def _decided(self, row: dict[str, Any], held: dict[int, buffer.Held]) -> list[dict[str, Any]]:
        assert self._rules is not None
        arrived, rows = landed_between(self._paths, row["after"], row["until"]), list[dict[str, Any]]()
        for bucket in range(BUCKETS):
            before = int(np.count_nonzero(held[bucket].events["kind"] == ev.ROW))
            held[bucket], decided = buffer.decide(held[bucket], arrived[bucket], self._rules)
            for frame in buffer_stream._rows(bucket, before, held[bucket], decided):
                rows += frame.to_dict("records")
        return rows

    def _kept(self) -> tuple[int, int, dict[int, buffer.Held]]:
        file = self._folder / "held"
        if not file.is_file():
            return 0, 0, {bucket: buffer.Held() for bucket in range(BUCKETS)}
        kept: tuple[int, int, dict[int, buffer.Held]] = pickle.loads(file.read_bytes())
        return kept

    def _begin(self, number: int) -> None:
        """Write what shows that a batch is planned, with a state of no partitions."""
        of_plan = {"reservoirId": str(opened(self._plan).metadata().id)}
        lines = ["v1", json.dumps({"conf": {"spark.sql.shuffle.partitions": "0"}}), json.dumps(of_plan)]
        self._write("metadata", '{"id": "unstreamed"}')
        self._write(f"offsets/{number}", "\n".join(lines))

    def _end(self, number: int) -> None:
        self._write(f"commits/{number}", "v1\n{}")

    def _write(self, name: str, text: str) -> None:
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def replace_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the buffer's job run without Spark."""

    def stream(_: object, paths: TablePaths, plan: str, tasks: int) -> Unstreamed:
        return Unstreamed(paths, plan)

    monkeypatch.setattr(landing_stream, "stream", stream)
    monkeypatch.setattr(buffer_stream, "outcomes", Unstreamed.under)
    monkeypatch.setattr(buffer_transactions, "warm_workers", lambda _: None)
