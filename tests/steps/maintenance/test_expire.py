"""Old messages are forgotten, and everything that depends on their having come goes on as if they were there."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from shop import Shop, insert, update
from txloom.steps.backfill.backfill import backfill
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.storage.buffer import checkpoints
from txloom.storage.maintenance.forgotten_messages import Forgotten, forgotten
from txloom.storage.paths import TablePaths

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.stream]
"""The tests are steps of one story."""
TABLES = """
tables: [{name: orders, source: APP.ORDERS, key: [id], columns: {id: long, total: long}}]
targets: {mirrors: [orders]}
"""


class Old(Shop):
    """A shop whose maintenance forgets everything at once."""

    def maintain(self, task: str = "expire", **keep: timedelta) -> dict[str, int]:
        chosen = {"change_events": timedelta(0), "reports": timedelta(days=400), "vacuum": timedelta(0)} | keep
        kept = self.pipeline.maintenance
        for name, value in chosen.items():
            field = "retain" if name == "vacuum" else "keep"
            kept = kept.model_copy(update={name: getattr(kept, name).model_copy(update={field: value})})
        eager = self.pipeline.model_copy(update={"maintenance": kept})
        return maintain_tables(step_of(eager, self.warehouse, "m", self.spark), task=task)

    def said(self) -> list[tuple[str | None, str | None, bool]]:
        """Return which rows still say something: transaction, table, has a message."""
        sql = 'select xid, "table", value is not null as said from t where kind = \'row\' order by landing, "row"'
        return [(row["xid"], row["table"], row["said"]) for row in self.query("change_events", sql)]

    def state(self) -> tuple[Any, ...]:
        return self.shown("orders", "id", "total"), self.shown("orders_changes", "id", "total", "_txloom_csn")

    def settled(self) -> dict[str, int]:
        """Return what the newest balance says."""
        sql = "select counts, balanced from t where step = 'balance' order by at desc limit 1"
        (row,) = self.query("ledger", sql)
        assert row["balanced"]
        return {name: count for name, count in dict(row["counts"]).items() if count}


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two released transactions, one that waits for its metadata, and a row that nobody watches."""
    made = Old(spark, tmp_path_factory.mktemp("expired"), TABLES)
    made.first = made.rows_of(10, insert("orders", id=1, total=5))
    made.send(*made.first, made.metadata_of(10, orders=1))
    made.commit(20, update("orders", {"id": 1, "total": 5}, id=1, total=6), insert("other", id=9))
    made.send(*made.rows_of(30, insert("orders", id=2, total=7)))
    made.run()
    return made


def test_messages_of_what_was_released_or_is_not_watched_are_forgotten(lake: Old) -> None:
    before = lake.state()
    assert [said for *_, said in lake.said()] == [True] * 4
    assert lake.maintain()["messages"] == 3
    assert lake.said() == [
        ("x10", "orders", False),
        ("x20", "orders", False),
        ("x20", None, False),
        ("x30", "orders", True),
    ]
    assert lake.state() == before
    version = lake.version("change_events")
    assert forgotten(TablePaths(lake.warehouse, "shop")) == Forgotten(1, lake.maintain()["release"])
    assert lake.maintain()["messages"] == 0
    assert lake.version("change_events") == version, "nothing to do, nothing written"


def test_a_redelivery_is_still_known_as_one_and_what_waited_is_still_released(lake: Old) -> None:
    lake.send(*lake.first, lake.metadata_of(10, orders=1), lake.metadata_of(30, orders=1))
    lake.run()
    assert lake.shown("orders", "id", "total") == [(1, 6), (2, 7)]
    assert lake.settled()["duplicates"] == 1
    assert lake.query("dead_letters", "select * from t") == []


def test_another_payload_under_a_forgotten_identity_is_still_a_conflict(lake: Old) -> None:
    (message,) = lake.first
    lake.send(message.replace('"total": 5', '"total": 50'))
    lake.run()
    letters = lake.query("dead_letters", "select cause, value from t")
    assert [row["cause"] for row in letters] == ["conflicting"]
    assert '"total": 50' in letters[0]["value"]


@pytest.mark.long
def test_a_lost_buffer_is_rebuilt_from_what_is_left(lake: Old) -> None:
    before, settled = lake.state(), lake.settled()
    lake.maintain()
    lake.maintain("optimize")
    shutil.rmtree(Path(checkpoints.checkpoint(lake.warehouse, "shop", 1)) / "offsets")
    lake.commit(40, insert("orders", id=3, total=8))
    lake.run()
    assert lake.query("ledger", "select max(generation) as g from t")[0]["g"] == 2
    shown, history = lake.state()
    assert (shown, history) == ([*before[0], (3, 8)], [*before[1], (3, 8, 40)])
    now = lake.settled()
    added = {name: now.get(name, 0) - settled.get(name, 0) for name in now}
    assert {name: n for name, n in added.items() if n} == {"landed": 2, "released": 1, "metadata": 1}


@pytest.mark.long
def test_a_shortened_ledger_balances_and_the_replaced_generation_goes(lake: Old) -> None:
    settled = lake.settled()
    size = len(lake.query("ledger", "select 1 from t"))
    counts = lake.maintain(reports=timedelta(0))
    assert counts["checkpoints"] == 1
    assert counts["ledger"] > 5
    assert len(lake.query("ledger", "select 1 from t")) == size - counts["ledger"] + 1, "and the task's own row"
    lake.run()
    assert lake.settled() == settled
    assert not Path(checkpoints.checkpoint(lake.warehouse, "shop", 1)).exists()
    lake.commit(50, insert("orders", id=4, total=9))
    lake.run()
    assert lake.shown("orders", "id", "total")[-1] == (4, 9)


def test_a_backfill_leaves_what_it_cannot_read_any_more(lake: Old) -> None:
    before = lake.state()
    lake.maintain()
    step = step_of(lake.pipeline, lake.warehouse, "b1", lambda: lake.spark)
    counts = backfill(step, "rebuild")
    # A run may leave out the tests of this file that commit more.
    released = len(lake.query("transactions", "select distinct transaction_id from t where status = 'released'"))
    assert (counts["gone"], counts["transactions"]) == (released, released)
    compared = backfill(step, "compare")
    assert compared["changes"] == 0
    backfill(step, "drop")
    assert lake.state() == before


@pytest.mark.long
def test_vacuum_between_comparison_and_approval_takes_nothing_from_a_backfill(lake: Old) -> None:
    before = lake.state()
    DeltaTable(lake.path("orders")).update(updates={"total": "99"}, predicate="id = 1")
    step = step_of(lake.pipeline, lake.warehouse, "b2", lambda: lake.spark)
    for task in ("rebuild", "compare"):
        counts = backfill(step, task)
    assert (counts["changes"], counts["updates"]) == (1, 1)
    assert lake.maintain("vacuum")["vacuumed"] > 1
    for task in ("apply", "drop"):
        backfill(step, task)
    assert lake.state() == before
