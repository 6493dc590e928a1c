"""Changes of a child whose parents change when its rows are made again: each lies below its present parent, once."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import EditedShop
from txloom.steps.backfill.backfill import backfill

PARENT = {"id": "long", "order_no": "{type: long, source: order_id, source_aliases: [o_id]}", "q": "long"}
BY_NUMBER = "{name: doc, root: orders, children: [{table: lines, as: items, relation: many, parent_key: [order_no]}]}"


@pytest.mark.parametrize("mirrors", [["orders"], ["orders", "lines"]])
def test_children_move_below_their_parents_when_the_column_that_names_them_is_followed(
    tmp_path: Path, mirrors: list[str]
) -> None:
    """Their changes of before lay below no parent, and are not read twice."""
    shop = EditedShop(tmp_path)
    orders, before = {"id": "long", "total": "long"}, PARENT | {"order_no": "{type: long, source: o_id}"}
    shop.declare({"orders": orders, "lines": before}, mirrors, [BY_NUMBER])
    shop.orders(1, 2)
    shop.run()
    shop.renamed = {"o_id": "order_id"}
    shop.orders(3)
    shop.commit(("U", "lines", {"id": 10, "o_id": 2, "q": 7}))
    shop.run()
    shop.declare({"orders": orders, "lines": PARENT}, mirrors, [BY_NUMBER])
    shop.run()
    lines = [{"id": row["id"], "order_no": row["o_id"], "q": row["q"]} for row in shop.source("lines")]
    expected = [
        {**row, "items": [each for each in lines if each["order_no"] == row["id"]]} for row in shop.source("orders")
    ]
    assert shop.shown("doc_current") == expected
    rows = shop.lake.rows("doc_stream")
    changes = [(row["_txloom_csn"], each["id"]) for row in rows for each in row["items"] or ()]
    assert sorted(changes) == [(110, 10), (120, 20), (130, 30), (140, 10)]
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    assert shop.lake.step(backfill, shop.lake.session, "compare")["changes"] == 0


def test_children_move_when_a_wrong_source_is_taken_back_before_a_merge(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    orders, lines = {"id": "long", "total": "long"}, {"id": "long", "order_no": "{type: long, source: o_id}"}
    shop.declare({"orders": orders, "lines": lines}, ["orders"], [BY_NUMBER])
    shop.orders(1)
    shop.run()
    shop.declare(
        {"orders": orders, "lines": {"id": "long", "order_no": "{type: long, source: q}"}}, ["orders"], [BY_NUMBER]
    )
    shop.commit(("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 1}))
    shop.lake.land()
    shop.lake.buffer()
    shop.declare({"orders": orders, "lines": lines}, ["orders"], [BY_NUMBER])
    shop.run()
    assert [[line["id"] for line in row["items"]] for row in shop.shown("doc_current") or ()] == [[10], [70]]
    changes = [(row["id"], each["id"]) for row in shop.lake.rows("doc_stream") for each in row["items"] or ()]
    assert sorted(changes) == [(1, 10), (7, 70)]


def test_children_move_when_they_get_another_parent_key_and_a_column_at_once(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    orders, lines = {"id": "long", "total": "long"}, {"id": "long", "o_id": "long", "q": "long"}
    by_id = BY_NUMBER.replace("order_no", "o_id")
    shop.declare({"orders": orders, "lines": {"id": "long", "o_id": "long"}}, ["orders"], [by_id])
    shop.orders(1, 2)
    shop.commit(("U", "lines", {"id": 10, "o_id": 1, "q": 2}))
    shop.run()
    shop.declare({"orders": orders, "lines": lines}, ["orders"], [by_id.replace("[o_id]", "[q]")])
    shop.run()
    shown = {row["id"]: [line["id"] for line in row["items"]] for row in shop.shown("doc_current") or ()}
    assert shown == {1: [], 2: [10, 20]}
    rows = shop.lake.rows("doc_stream")
    changes = [(row["id"], row["_txloom_csn"], each["id"]) for row in rows for each in row["items"] or ()]
    assert sorted(changes) == [(1, 110, 10), (2, 120, 20), (2, 130, 10)]
