"""Several landings that one micro-batch of the buffer takes: decided as if they had come one by one."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, insert
from txloom.quality.dead_letters import Selection
from txloom.quality.findings import COUNTS_CHANGED
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import arrow_tables
from txloom.storage.views.status import status

TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
targets: {mirrors: ["*"]}
"""
LINES = "  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, note: string}}\n"


@pytest.fixture(params=["in this process", pytest.param("by Spark", marks=pytest.mark.long)])
def shop(request: pytest.FixtureRequest, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return a shop whose patience ends with the landing after an arrival; it runs as small ones do, or as large."""
    if request.param == "by Spark":
        monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", -1)
    made = Shop(spark, tmp_path, TABLES)
    completeness = made.pipeline.completeness.model_copy(update={"patience": timedelta(milliseconds=1)})
    made.pipeline = made.pipeline.model_copy(update={"completeness": completeness})
    return made


def land(shop: Shop) -> None:
    shop.run((land_events,))


def letters(shop: Shop) -> list[tuple[Any, ...]]:
    """Return every dead letter: its transaction, kind and cause."""
    rows = shop.query("dead_letters", "select xid, kind, cause from t order by 1, 2, 3")
    return [tuple(row.values()) for row in rows]


def test_what_comes_again_after_its_release_is_not_in_history_twice(shop: Shop) -> None:
    rows = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    shop.send(*rows, shop.metadata_of(10, orders=2))
    land(shop)
    shop.send(*rows, shop.metadata_of(10, orders=2))
    shop.commit(20, insert("orders", id=3, note="c"))
    counts = shop.run()["buffer_transactions"]
    assert (counts["released"], counts["duplicates"]) == (3, 2)
    assert shop.shown("orders_changes", "_txloom_csn", "id") == [(10, 1), (10, 2), (20, 3)]
    assert shop.shown("orders", "id") == [(1,), (2,), (3,)]


def test_what_comes_again_after_its_table_was_renamed_is_a_duplicate(shop: Shop) -> None:
    """Events of a released transaction, and of one that was given up."""
    rows = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    given_up = shop.rows_of(20, insert("orders", id=3, note="never counted"))
    shop.send(*rows, *given_up, shop.metadata_of(10, orders=2))
    land(shop)
    shop.run()
    assert letters(shop) == [("x20", "row", "metadata never came")]
    completeness = shop.pipeline.completeness
    shop.declare(TABLES.replace("name: orders", "name: purchases"))
    shop.pipeline = shop.pipeline.model_copy(update={"completeness": completeness})
    shop.send(*rows, *given_up, shop.metadata_of(10, orders=2))
    counts = shop.run()["buffer_transactions"]
    assert (counts["released"], counts["duplicates"], counts["dead"]) == (0, 3, 0)
    assert letters(shop) == [("x20", "row", "metadata never came")]


def test_metadata_that_comes_again_after_a_table_was_added_has_no_other_counts(shop: Shop) -> None:
    rows = shop.rows_of(10, insert("orders", id=1, note="a"), insert("lines", id=2, note="b"))
    shop.send(*rows, shop.metadata_of(10, orders=1, lines=1))
    shop.run()
    completeness = shop.pipeline.completeness
    shop.declare(TABLES.replace("targets", f"{LINES}targets"))
    shop.pipeline = shop.pipeline.model_copy(update={"completeness": completeness})
    shop.send(shop.metadata_of(10, orders=1, lines=1))
    shop.run()
    assert shop.findings() == []
    shop.send(shop.metadata_of(10, orders=1, lines=3))
    shop.run()
    (finding,) = shop.findings()
    assert finding[:2] == (COUNTS_CHANGED, "lines")


def test_what_comes_after_its_transaction_was_whole_is_no_part_of_it(shop: Shop) -> None:
    first, second = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="one too many"))
    shop.send(first, shop.metadata_of(10, orders=1))
    land(shop)
    shop.send(second)
    shop.commit(20, insert("orders", id=3, note="c"))
    shop.run()
    assert shop.shown("orders_changes", "_txloom_csn", "id") == [(10, 1), (20, 3)]
    assert letters(shop) == [("x10", "row", "late event of a finished transaction")]


@pytest.mark.long
@pytest.mark.stream
def test_what_completes_a_transaction_that_this_batch_gave_up_is_redriven(shop: Shop) -> None:
    first, second = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    other = shop.rows_of(30, insert("orders", id=5, note="never counted"))
    shop.send(first, shop.metadata_of(10, orders=2))
    land(shop)
    shop.send(*other)
    land(shop)
    land(shop)
    shop.send(second)
    shop.commit(20, insert("orders", id=3, note="c"))
    assert shop.run()["buffer_transactions"]["redriven"] == 1
    assert shop.shown("orders_changes", "_txloom_csn", "id") == [(10, 1), (10, 2), (20, 3)]
    assert letters(shop) == [
        ("x10", "metadata", "table short"),
        ("x10", "row", "table short"),
        ("x10", "row", "table short"),
        ("x30", "row", "metadata never came"),
    ]
    assert {row["cause"]: row["events"] for row in status(shop.warehouse, "shop")["dead_letters"]} == {
        "metadata never came": 1
    }


def test_what_a_transaction_that_this_batch_gave_up_got_besides_joins_its_dead_letters(shop: Shop) -> None:
    first, second = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    shop.send(first, shop.metadata_of(10, orders=3))
    land(shop)
    land(shop)
    shop.send(second, first)
    shop.commit(20, insert("orders", id=3, note="c"))
    counts = shop.run()["buffer_transactions"]
    assert (counts["dead"], counts["duplicates"], counts["released"]) == (2, 1, 1)
    assert letters(shop) == [("x10", "metadata", "table short")] + [("x10", "row", "table short")] * 2


def test_a_redriven_transaction_is_in_history_once_though_another_waited_beside_its_first_events(shop: Shop) -> None:
    first, second = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    third, fourth = shop.rows_of(20, insert("orders", id=3, note="c"), insert("orders", id=4, note="d"))
    shop.send(first)
    land(shop)
    time.sleep(0.01)
    shop.send(second, third)
    shop.run()
    assert [row[0] for row in letters(shop)] == ["x10", "x10"], "the other came with this landing"
    shop.send(shop.metadata_of(10, orders=2))
    completeness = shop.pipeline.completeness
    update = {"patience": timedelta(days=1), "complete_now": "approve"}
    shop.pipeline = shop.pipeline.model_copy(update={"completeness": completeness.model_copy(update=update)})
    shop.run()
    redrive(step_of(shop.pipeline, shop.warehouse, "approved"), Selection(everything=True))
    shop.send(fourth, shop.metadata_of(20, orders=2))
    assert shop.run()["buffer_transactions"]["released"] == 4
    assert shop.shown("orders_changes", "_txloom_csn", "id") == [(10, 1), (10, 2), (20, 3), (20, 4)]
