"""A pipeline with a document, two mirrors, four expectations and alerts, whose cycles take one transaction each."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

import in_process
import running
from shop import Shop, insert, update
from steps.counted.work import CountedWork, Work, run_job
from txloom.steps.alerts.alert import alert, is_failed
from txloom.steps.buffer import buffer_transactions
from txloom.steps.landing.check_source import check_source
from txloom.steps.landing.pending_work import reasons
from txloom.steps.step import Step

DECLARED = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], version: version, columns: {id: long, version: int, total: long}}
  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, order_id: long, amount: long}}
targets:
  aggregates:
    - name: orders
      history: order_stream
      current: orders_current
      root: orders
      children: [{table: lines, relation: many, parent_key: [order_id]}]
  mirrors: ["*"]
expectations:
  - kind: invariant
    id: totals
    sql: >-
      select o.id from orders o left join lines i on i.order_id = o.id
      group by o.id, o.total having o.total <> coalesce(sum(i.amount), 0)
    severity: block
    sentence: The total of an order is the sum of its lines.
    hint: Compare with the source.
  - {kind: orphans, id: orphans, child: lines, parent: orders, parent_key: [order_id], severity: block,
     sentence: Every line belongs to an order., hint: Compare with the source.}
  - {kind: version_regressions, id: versions, table: orders, severity: warn,
     sentence: The version of an order never falls., hint: Ask whose transaction it was.}
  - {kind: stuck_transactions, id: stuck, older_than: 10m, severity: warn,
     sentence: No transaction waits for long., hint: Look at what it waits for.}
alerts: {dead_letters: 0, notify: [{kind: log}]}
"""
EXPECTATIONS = ("totals", "orphans", "versions", "stuck")
CHECKS = {f"check_expectations.{each}": ("check_expectations", "--only", each) for each in EXPECTATIONS}
JOBS = {each: (each,) for each in ("land_events", "buffer_transactions", "merge_current")} | CHECKS
JOBS["publish"] = ("publish",)
"""Of each task with a job, its step and flags of its own, in the order of a cycle."""


class TinyShop:
    """A source that commits an order with two lines for each cycle, and changes the order before it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Declare it; nothing has run yet."""
        _replace_spark(monkeypatch)
        self._monkeypatch, self._shop = monkeypatch, Shop(None, folder, DECLARED)
        tables = Path(self._shop.path(""))
        tables.mkdir(parents=True)
        self._counted, self.landings = CountedWork(tables, monkeypatch), 0

    def close(self) -> None:
        """End."""
        self._counted.close()

    def idle(self) -> dict[str, Work]:
        """Do what Airflow does where nothing is new: it skips the tasks between these two."""
        return self._done({"check_source": self._check, "alert": self._alert})

    def cycle(self) -> dict[str, Work]:
        """Let the source commit a transaction and run every task of the cycle."""
        self.landings += 1
        self._commit(self.landings)
        jobs = {task: partial(self._job, task, *called) for task, called in JOBS.items()}
        done = self._done({"check_source": self._check, **jobs, "alert": self._alert, "a task's end": self._end})
        changed = [(number, 1 + (number < self.landings)) for number in range(1, self.landings + 1)]
        assert sorted(self._shop.shown("orders", "id", "version")) == changed
        return done

    def _done(self, steps: Mapping[str, Callable[[], object]]) -> dict[str, Work]:
        return {name: self._counted.of(step) for name, step in steps.items()}

    def _commit(self, number: int) -> None:
        lines = [insert("lines", id=2 * number + n, order_id=number, amount=10 + n) for n in (0, 1)]
        changed = {"id": number - 1, "version": 1, "total": 21}
        earlier = [update("orders", changed, **{**changed, "version": 2})] if number > 1 else []
        self._shop.commit(number, insert("orders", id=number, version=1, total=21), *lines, *earlier)

    def _job(self, task: str, step: str, *flags: str) -> None:
        place = ("--pipeline", str(self._shop.folder / "shop.yaml"), "--warehouse", self._shop.warehouse)
        run_job(self._monkeypatch, step, *place, "--run-id", f"run-{self.landings}", *flags, "--task-id", task)

    def _step(self) -> Step:
        return Step.of(self._shop.pipeline, self._shop.warehouse, f"run-{self.landings}")

    def _check(self) -> None:
        step = self._step()
        reasons(step.pipeline, self._shop.warehouse, check_source(step)["waiting"])

    def _alert(self) -> None:
        alert(self._step(), os.environ, source_was_checked=True)

    def _end(self) -> None:
        """Ask what Airflow asks at the end of each task with a job: whether an incident of it is over."""
        is_failed("shop", warehouse=self._shop.warehouse, task="shop_cdc.publish")


def _replace_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the buffer run in this process, where the job's function writes each batch: it is the one to be counted."""
    monkeypatch.setattr(buffer_transactions, "_run", in_process.run)
    monkeypatch.setattr(running, "by_session", lambda: True)
    monkeypatch.setattr(buffer_transactions, "warm_workers", lambda _: None)
