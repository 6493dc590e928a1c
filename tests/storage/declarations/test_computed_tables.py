"""The table `computed_tables` says by which declaration each current table is computed, and since when it is right."""

import json
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest import mock

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill
from txloom.steps.settling import follow
from txloom.storage.declarations import marks
from txloom.storage.declarations import records as r

MIRRORS = (OF_ORDERS, OF_LINES)


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def records(shop: EditedShop) -> list[dict[str, Any]]:
    """Return all records in their order, with their declarations as values."""
    rows = sorted(shop.lake.rows("computed_tables"), key=lambda row: int(row["entered"]))
    return [{**row, "declaration": json.loads(row["declaration"])} for row in rows]


def newest(shop: EditedShop) -> dict[str, dict[str, Any]]:
    """Return the newest record of each current table with the mark of its newest commit."""
    last = {row["table"]: row for row in records(shop)}
    marked = {name: marks.read_mark(shop.lake.paths.table(name)).mark for name in last}
    return {name: row for name, row in last.items() if row["mark"] == marked[name]}


def test_a_record_has_what_decides_the_contents_of_its_table(shop: EditedShop) -> None:
    mirrors = (OF_ORDERS, "{table: lines, history: log, partition_by: o_id}")
    shop.declare(BOTH, mirrors, [DOCUMENTS])
    fill(shop)
    lines = {
        "source": "APP.LINES",
        "key": ["id"],
        "columns": {"id": ["long", "id"], "o_id": ["long", "o_id"], "q": ["long", "q"]},
        "dropped_columns": "clear",
    }
    known = newest(shop)
    assert known["lines"]["declaration"] == {**lines, "histories": {"lines": "log"}, "partition_by": "o_id"}
    documents = known["doc_current"]["declaration"]
    assert (documents["root"], documents["children"]) == ("orders", [["lines", "items", "many", ["o_id"]]])
    assert documents["tables"]["lines"] == lines
    assert documents["histories"] == {"orders": "orders_changes", "lines": "log"}
    assert {(row["status"], row["since_csn"], row["reason"]) for row in known.values()} == {
        (r.COMPLETE, 0, r.FROM_STREAM)
    }


def test_an_edit_adds_a_record_of_each_table_that_it_concerns(shop: EditedShop) -> None:
    shop.declare(BOTH, MIRRORS, [DOCUMENTS])
    fill(shop)
    known = records(shop)
    shop.orders(4)
    shop.run()
    assert records(shop) == known
    shop.declare({"orders": {**ORDERS, "note": "string"}, "lines": LINES}, MIRRORS, [DOCUMENTS])
    shop.run()
    assert [row["table"] for row in records(shop)[len(known) :]] == ["orders", "doc_current"]
    assert newest(shop)["orders"]["declaration"]["columns"]["note"] == ["string", "note"]
    assert {*newest(shop)} == {"orders", "lines", "doc_current"}


def test_a_record_says_since_when_a_table_is_right(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, MIRRORS)
    shop.run()
    assert newest(shop)["lines"]["status"] == r.INCOMPLETE
    shop.load("lines", shop.csn)
    shop.orders(4)
    shop.run()
    row = newest(shop)["lines"]
    assert (row["status"], row["reason"], row["since_csn"]) == (r.COMPLETE, r.FROM_LOAD, shop.csn - 10)
    assert newest(shop)["orders"]["since_csn"] == 0


def test_tables_of_an_earlier_version_get_records_without_being_computed_again(shop: EditedShop) -> None:
    with mock.patch.object(follow, "RECORDED", ""):
        shop.declare(BOTH, MIRRORS, [DOCUMENTS])
        fill(shop)
    rmtree(shop.lake.paths.table("computed_tables"))
    shop.orders(4)
    shop.run()
    assert {*newest(shop)} == {"orders", "lines", "doc_current"}
    merges = [dict(row["counts"]) for row in shop.lake.rows("ledger") if row["step"] == "merge_current"]
    assert sum(counts.get("anew", 0) for counts in merges) == 0
    assert shop.shown("doc_current") == shop.documents()


def test_documents_are_as_complete_as_the_least_of_their_members(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, [OF_ORDERS], [DOCUMENTS])
    shop.run()
    known = newest(shop)
    assert (known["orders"]["status"], known["doc_current"]["status"]) == (r.COMPLETE, r.INCOMPLETE)
    assert known["doc_current"]["since_csn"] > known["orders"]["since_csn"] == 0
