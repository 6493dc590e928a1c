"""Edits of a declaration between cycles: what tables show after each, and what they say where messages are gone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom import read
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.declarations import records as r

BOTH = {"orders": ORDERS, "lines": LINES}
OF_ORDERS = "{table: orders}"
OF_LINES = "{table: lines}"


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def fill(shop: EditedShop) -> None:
    """Commit inserts, an update that moves a line, and a delete, in two cycles."""
    shop.orders(1, 2, 3)
    shop.run()
    shop.commit(("U", "orders", {"id": 1, "total": 11}), ("U", "lines", {"id": 20, "o_id": 1, "q": 5}))
    shop.commit(("D", "lines", 30))
    shop.run()


def test_a_mirror_that_is_added_shows_what_was_committed_before_from_the_messages(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert shop.states_of()["lines_changes", "lines"].newest.reason == r.FROM_MESSAGES


def test_a_mirror_that_is_added_gets_its_rows_of_the_documents_history_where_no_message_is_kept(
    shop: EditedShop,
) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, [OF_LINES], [DOCUMENTS])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert shop.states_of()["lines_changes", "lines"].newest.reason == r.FROM_HISTORY


def without_messages(shop: EditedShop, incomplete: str = "publish_without") -> None:
    """Declare a mirror of lines when no history has them, and their messages are gone."""
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.forget("lines")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], incomplete=incomplete)
    shop.orders(4)
    shop.run()


def incomplete(shop: EditedShop) -> list[dict[str, Any]]:
    """Return the open findings of histories that are not complete."""
    return [row for row in findings.open_findings(shop.lake.paths) if row["code"] == f.INCOMPLETE]


def test_cuts_leave_out_a_table_whose_messages_are_gone_until_a_snapshot_is_loaded(shop: EditedShop) -> None:
    without_messages(shop)
    assert shop.shown("orders") == shop.source("orders")
    assert shop.shown("lines") is None
    assert [row["table"] for row in incomplete(shop)] == ["lines"]
    state = shop.states_of()["lines_changes", "lines"]
    assert state.newest.status == r.INCOMPLETE
    assert state.newest.missing is not None
    shop.load("lines")
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert shop.states_of()["lines_changes", "lines"].newest.reason == r.FROM_LOAD
    assert incomplete(shop) == []


def test_the_finding_of_a_table_closes_with_its_declaration(shop: EditedShop) -> None:
    without_messages(shop)
    shop.declare(BOTH, [OF_ORDERS])
    shop.run()
    assert incomplete(shop) == []
    assert shop.shown("orders") == shop.source("orders")


@pytest.mark.long
def test_no_state_is_read_that_a_history_lacks_changes_of(shop: EditedShop) -> None:
    without_messages(shop)
    first, last = min(shop.states), shop.csn
    with pytest.raises(BeforeHistory, match="not complete"):
        as_of(shop, "lines", last)
    shop.load("lines")
    shop.run()
    assert as_of(shop, "lines", last) == shop.source("lines", last)
    with pytest.raises(BeforeHistory, match=f"complete since csn {last} only"):
        as_of(shop, "lines", first)
    assert as_of(shop, "orders", first) == shop.source("orders", first)


def as_of(shop: EditedShop, table: str, csn: int) -> list[dict[str, Any]]:
    """Return the declared columns of a table's rows as of a csn."""
    rows = read.as_of(shop.lake.pipeline, table, csn=csn, warehouse=shop.lake.warehouse)
    return rows.select([name for name in rows.column_names if not name.startswith("_txloom_")]).to_pylist()


def test_no_cut_is_published_while_a_table_is_incomplete_where_the_declaration_says_hold(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    before = shop.cut["cut_id"]
    shop.forget("lines")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], incomplete="hold")
    shop.orders(4)
    shop.run()
    assert shop.cut["cut_id"] == before
    shop.load("lines")
    shop.run()
    assert shop.cut["cut_id"] > before
    assert shop.shown("lines") == shop.source("lines")


def test_a_mirror_that_is_removed_and_added_again_has_what_was_committed_in_between(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS])
    shop.commit(("U", "lines", {"id": 10, "o_id": 1, "q": 9}), ("D", "lines", 20))
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


def test_a_mirror_that_was_away_while_messages_went_is_incomplete(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS])
    shop.commit(("U", "lines", {"id": 10, "o_id": 1, "q": 9}))
    shop.run()
    shop.forget("lines")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert shop.shown("lines") is None
    shop.load("lines")
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


def _column_declared(shop: EditedShop) -> None:
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


def _child_declared(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], ["{name: doc, root: orders, children: []}"])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


def _documents_declared(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


def _column_declared_after_cleaning(shop: EditedShop) -> None:
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    shop.clean()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


def _source_corrected(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS], sources={"orders": "APP.OTHER"})
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


EDITS = [_source_corrected, _column_declared, _child_declared, _documents_declared, _column_declared_after_cleaning]


@pytest.mark.parametrize("edit", EDITS)
def test_rows_and_documents_are_the_sources_after_an_edit(shop: EditedShop, edit: Callable[[EditedShop], None]) -> None:
    edit(shop)
    shop.orders(4)
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("doc_current") == shop.documents()


def test_a_corrected_source_is_not_shown_if_a_message_is_gone(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS], sources={"orders": "APP.OTHER"})
    shop.orders(1, 2)
    shop.run()
    shop.forget("orders")
    shop.orders(3)
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("orders") is None
    assert shop.shown("doc_current") is None
    assert [row["id"] for row in shop.lake.rows("orders_changes")] == [3]
    assert sorted({row["table"] for row in incomplete(shop)}) == ["orders"]


def test_a_history_under_another_name_has_the_states_that_the_first_one_was_cleaned_of(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.clean()
    first = min(shop.states)
    shop.declare(BOTH, ["{table: orders, history: orders_log}", OF_LINES])
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    assert as_of(shop, "orders", first) == shop.source("orders", first)


def test_a_table_that_appears_while_its_transaction_waits_is_not_missing_from_it(shop: EditedShop) -> None:
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    fill(shop)
    held = shop.commit(
        ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 7}), late=["orders"]
    )
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    shop.send("orders", *held["orders"])
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    assert shop.shown("lines") == shop.source("lines")


def test_a_table_that_is_removed_while_its_transaction_waits_is_not_too_much_of_it(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    held = shop.commit(
        ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 7}), late=["orders"]
    )
    shop.run()
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.run()
    assert open_letters.given_up(shop.lake.paths) == []
    shop.send("orders", *held["orders"])
    shop.run()
    assert open_letters.given_up(shop.lake.paths) == []
    assert shop.shown("orders") == shop.source("orders")


def test_rows_that_come_after_their_table_was_declared_are_waited_for(shop: EditedShop) -> None:
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    fill(shop)
    new = ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 7})
    held = shop.commit(*new, late=["lines"])
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert shop.shown("lines") is None
    assert shop.states_of()["lines_changes", "lines"].newest.status == r.WAITING
    assert incomplete(shop) == []
    shop.send("lines", *held["lines"])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


def test_a_transaction_of_which_one_row_is_left_is_not_made_again_in_part(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.commit(*(("I", "lines", {"id": number, "o_id": 1, "q": 1}) for number in (71, 72)))
    shop.run()
    one = "kind = 'row' and value like '%\"id\": 71%'"
    DeltaTable(shop.lake.paths.change_events).update(predicate=one, updates={"value": "null"})
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert shop.shown("lines") is None
    assert [row["table"] for row in incomplete(shop)] == ["lines"]


def test_a_column_gets_its_new_name_in_the_history_too(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.forget()
    shop.declare({"orders": {"id": "long", "amount": "{type: long, source: total}"}, "lines": LINES}, [OF_ORDERS])
    shop.run()
    rows = shop.shown("orders")
    assert rows == [{"id": row["id"], "amount": row["total"]} for row in shop.source("orders")]
    assert sorted(row["amount"] for row in shop.lake.rows("orders_changes")) == [1, 2, 3, 11]


@pytest.mark.parametrize("kept", [True, False])
def test_a_column_gets_the_name_of_one_that_is_removed(shop: EditedShop, *, kept: bool) -> None:
    """Events say by the column's name which values they leave as they were; kept: the messages are."""
    targets = [OF_ORDERS, OF_LINES], [DOCUMENTS]
    shop.declare(BOTH, *targets)
    fill(shop)
    shop.commit(("U", "lines", {"id": 20, "o_id": 3}), sparse=True)
    shop.run()
    if not kept:
        shop.forget()
    moved = {"id": "long", "q": "{type: long, source: o_id}"}
    shop.declare({"orders": ORDERS, "lines": moved}, [OF_ORDERS, OF_LINES], [DOCUMENTS.replace("[o_id]", "[q]")])
    shop.run()
    lines = [{"id": row["id"], "q": row["o_id"]} for row in shop.source("lines")]
    assert shop.shown("lines") == lines
    orders = shop.source("orders")
    documents = [{**row, "items": [line for line in lines if line["q"] == row["id"]]} for row in orders]
    assert shop.shown("doc_current") == documents


def test_a_table_lacks_nothing_where_only_messages_of_another_one_are_gone(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_LINES])
    fill(shop)
    shop.forget("lines")
    shop.declare(BOTH, [OF_LINES], ["{name: doc, root: orders, children: []}"])
    shop.run()
    assert shop.shown("doc_current") == shop.source("orders")
    assert incomplete(shop) == []


def test_a_child_and_a_column_of_it_get_new_names_at_once(shop: EditedShop) -> None:
    shop.declare(BOTH, (), [DOCUMENTS])
    fill(shop)
    shop.commit(("U", "lines", {"id": 10, "q": 8}))
    shop.run()
    shop.forget()
    columns = {"id": "long", "o_id": "long", "amount": "{type: long, source: q}"}
    documents = DOCUMENTS.replace("table: lines, as: items", "table: items, as: things")
    shop.declare({"orders": ORDERS, "items": columns}, (), [documents], {"items": "APP.LINES"})
    shop.run()
    named = {"id": "id", "o_id": "o_id", "q": "amount"}
    expected = shop.documents()
    for document in expected:
        items = document.pop("items")
        document["things"] = [{named[name]: value for name, value in item.items()} for item in items]
    assert shop.shown("doc_current") == expected
    assert incomplete(shop) == []


def test_rows_that_are_decoded_again_while_they_wait_are_no_duplicates_of_the_source(shop: EditedShop) -> None:
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    new = [("I", "orders", {"id": number, "total": 7}) for number in (7, 8)]
    shop.commit(*new, ("I", "lines", {"id": 70, "o_id": 7, "q": 7}))
    held = shop.commit(
        ("U", "orders", {"id": 7, "total": 9}), ("I", "lines", {"id": 71, "o_id": 7, "q": 7}), late=["lines"]
    )
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    shop.send("lines", *held["lines"], *held["lines"])
    shop.run()
    counted = [dict(row["counts"]) for row in shop.lake.rows("ledger") if row["step"] == "buffer_transactions"]
    assert sum(counts["duplicates"] for counts in counted) == 1
    assert sum(counts.get("redecoded", 0) for counts in counted) == 1
    assert shop.shown("lines") == shop.source("lines")


def test_the_history_of_an_aggregate_has_the_key_of_its_root_under_its_new_name(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    renamed = {"orders": {"number": "{type: long, source: id}", "total": "long"}, "lines": LINES}
    shop.declare(renamed, [], [DOCUMENTS], keys={"orders": "[number]"})
    shop.orders(4)
    shop.run()
    history = shop.lake.rows("doc_stream")
    assert {row["number"] for row in history} == {1, 2, 3, 4}
    assert all(row["id"] in (None, row["number"]) for row in history)
    expected = [{"number": row.pop("id"), **row} for row in shop.documents()]
    newest = dict(shop.cut["versions"])["doc_current"]
    rows = sorted(shop.lake.rows("doc_current", newest), key=lambda row: row["number"])
    assert [{name: row[name] for name in ("number", "total", "items")} for row in rows] == expected
