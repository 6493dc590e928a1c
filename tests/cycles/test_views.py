"""The read model over tables that the steps themselves wrote."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shop import Shop, delete, insert, update
from txloom.storage.views.pipeline import cuts, dead_letters, runs
from txloom.storage.views.pipeline.overview import health
from txloom.storage.views.pipeline.waiting import waiting
from txloom.storage.views.stories.row import key_story
from txloom.storage.views.stories.transaction import Story, TransactionName, transaction

TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, columns: {id: long, note: string}, key: [id]}
  - {name: lines, source: APP.LINES, columns: {no: long, order_id: long}, key: [no]}
targets:
  aggregates: [{name: whole, root: orders, children: [{table: lines, relation: many, parent_key: [order_id]}]}]
  mirrors: [orders]
"""


def story(shop: Shop, xid: str) -> Story:
    story = transaction(shop.pipeline, shop.warehouse, TransactionName(xid=xid)).story
    assert story is not None
    return story


def changes(shop: Shop, table: str, **key: str) -> list[tuple[Any, ...]]:
    rows = key_story(shop.pipeline, shop.warehouse, table, key).page.rows
    return [(row["table"], row["op"], row["csn"], row["changed"], row["is_shown"]) for row in rows]


def test_what_was_sent_is_what_is_told(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, TABLES)
    first = shop.rows_of(10, insert("orders", id=1, note="<b>"), insert("lines", no=1, order_id=1))
    shop.send(*first, first[0], shop.metadata_of(10, orders=1, lines=1))
    held, missing = shop.rows_of(20, insert("lines", no=2, order_id=1), insert("lines", no=3, order_id=1))
    shop.send(held, shop.metadata_of(20, lines=2))
    shop.commit(30, update("orders", {"id": 1, "note": "<b>"}, id=1, note="new"))
    shop.run()

    fares = health(shop.pipeline, shop.warehouse)
    assert (fares.color, fares.valid_through, fares.waiting, fares.dead_letters, fares.cut_id) == ("green", 10, 1, 0, 1)
    assert [(row["xid"], row["cause"], row["tables"]) for row in waiting(shop.pipeline, shop.warehouse).page.rows] == [
        ("x20", "table short", [{"table": "lines", "expected": 2, "received": 1, "differs": True}])
    ]
    done = story(shop, "x10")
    assert (done.status, done.events.duplicates, done.cut and done.cut["cut_id"]) == ("released", 1, 1)
    assert [(row["table"], row["history"], row["rows"]) for row in done.written] == [
        ("orders", "orders_changes", 1),
        ("lines", "whole_stream", 1),
    ]
    assert sorted(row["came"] for row in done.events.page.rows) == ["again", "first", "first", "first"]
    assert sum(row["value"] == first[0] for row in done.events.page.rows) == 2
    waits = story(shop, "x20")
    assert (waits.status, waits.cause, waits.events.page.total, waits.written) == ("waits", "table short", 2, [])
    above = story(shop, "x30")
    assert (above.status, above.cut) == ("released", None)
    assert above.said[-1]["sentence"] == "No cut shows it yet; the lowest that waits is csn 20."
    assert changes(shop, "orders", id="1") == [
        ("orders", "U", 30, ["note"], False),
        ("orders", "I", 10, [], True),
    ]

    shop.send(missing)
    shop.commit(40, delete("lines", no=2, order_id=1), update("lines", {"no": 3, "order_id": 1}, no=3, order_id=7))
    shop.run()
    assert (story(shop, "x20").status, story(shop, "x30").cut) == ("released", story(shop, "x40").cut)
    assert changes(shop, "whole_current", id="1") == [
        ("lines", "U", 40, ["order_id"], True),
        ("lines", "D", 40, [], True),
        ("orders", "U", 30, ["note"], True),
        ("lines", "I", 20, [], True),
        ("lines", "I", 20, [], True),
        ("lines", "I", 10, [], True),
        ("orders", "I", 10, [], True),
    ]
    current = key_story(shop.pipeline, shop.warehouse, "whole_current", {"id": "1"}).current
    assert current is not None
    assert (current["note"], [line["no"] for line in current["lines"]]) == ("new", [1])
    assert [row["cut_id"] for row in cuts.cuts(shop.pipeline, shop.warehouse).rows] == [2, 1]
    steps = ["land_events", "buffer_transactions", "balance", "merge_current", "publish"]
    run_rows = runs.runs(shop.pipeline, shop.warehouse).rows
    shown = [(row["run_id"], row["balanced"], [step["step"] for step in row["steps"]]) for row in run_rows]
    assert shown == [("run-2", True, steps), ("run-1", True, steps)]


def test_a_transaction_that_was_given_up_and_completed_tells_all_of_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, TABLES)
    completeness = shop.pipeline.completeness.model_copy(update={"patience": timedelta(milliseconds=1)})
    shop.pipeline = shop.pipeline.model_copy(update={"completeness": completeness})
    first, second = shop.rows_of(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    shop.send(first, shop.metadata_of(10, orders=2), '{"op_type": "I", "table": "APP.ORDERS", broken')
    shop.run()
    shop.run()
    dead = story(shop, "x10")
    assert (dead.status, dead.cause, dead.letters[0]["open"], dead.cut) == ("dead", "table short", 2, None)
    assert dead.letters[0]["detail"] == "orders 1/2"
    listing = dead_letters.causes(shop.pipeline, shop.warehouse).listing
    page = dead_letters.dead_letters(shop.pipeline, shop.warehouse)
    assert (listing.events, page.total, {row["kind"] for row in page.rows}) == (3, 3, {"row", "metadata", "poison"})
    assert health(shop.pipeline, shop.warehouse).color == "amber"
    shop.send(second)
    shop.run()
    done = story(shop, "x10")
    assert [each["what"] for each in done.said] == [
        *("landed", "metadata", "dead", "landed", "complete now", "redriven", "metadata", "released", "shown")
    ]
    assert (done.status, done.letters[0]["open"], done.tables) == (
        "released",
        0,
        [{"table": "orders", "expected": 2, "received": 2, "differs": False}],
    )
    assert [
        row["after"]["note"] for row in key_story(shop.pipeline, shop.warehouse, "orders", {"id": "2"}).page.rows
    ] == ["b"]
