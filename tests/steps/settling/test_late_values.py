"""Values of undeclared columns: of transactions released after later ones, and of columns that the source drops."""

from datetime import timedelta
from pathlib import Path

import pytest

from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.quality.findings import ADDED, INCOMPLETE
from txloom.steps.backfill.backfill import backfill
from txloom.storage.checks.findings import open_findings
from txloom.storage.declarations import records as r

OF_LINES = "{name: of_lines, root: lines, children: []}"
NO_TOTAL = {"orders": {"id": "long"}, "lines": LINES}
MIRRORS = ["{table: orders}", "{table: lines}"]


def waiting(shop: EditedShop) -> list[dict[str, object]]:
    """Commit an order whose row does not come, then another one, which is released before it; return the row."""
    shop.declare(NO_TOTAL, MIRRORS)
    line = {"id": 10, "o_id": 1, "q": 1}
    late = shop.commit(("I", "orders", {"id": 1, "total": 7}), ("I", "lines", line), late=["orders"])
    shop.commit(("I", "orders", {"id": 2, "total": 8}))
    shop.run()
    return late["orders"]


def first_csns(shop: EditedShop) -> list[int]:
    return [each["since_csn"] for each in open_findings(shop.lake.paths) if each["code"] == ADDED]


@pytest.mark.parametrize("taken_up", [False, True], ids=["declared", "taken up"])
def test_a_column_is_whole_though_an_earlier_transaction_was_released_later(tmp_path: Path, *, taken_up: bool) -> None:
    shop = EditedShop(tmp_path)
    late = waiting(shop)
    later, earlier = shop.csn, shop.csn - 10
    assert first_csns(shop) == [later]
    shop.send("orders", *late)
    shop.run()
    assert first_csns(shop) == [earlier], "the finding says since when the source has the column"
    if taken_up:
        shop.declare(NO_TOTAL, MIRRORS, evolve="orders")
    else:
        shop.declare({"orders": ORDERS, "lines": LINES}, MIRRORS)
    shop.commit(("I", "orders", {"id": 3, "total": 9}))
    shop.run()
    kind = str if taken_up else int
    assert shop.shown("orders") == [{**row, "total": kind(row["total"])} for row in shop.source("orders")]


def test_a_column_that_a_late_transaction_takes_up_has_its_values_in_later_ones(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    late = waiting(shop)
    shop.declare(NO_TOTAL, MIRRORS, evolve="orders")
    shop.send("orders", *late)
    shop.run()
    expected = [{**row, "total": str(row["total"])} for row in shop.source("orders")]
    assert shop.shown("orders") == expected
    shop.run()
    assert shop.shown("orders") == expected


def mirror_with(history: str) -> str:
    return f"{{table: orders, history: {history}}}"


def expected_texts(shop: EditedShop) -> list[dict[str, object]]:
    return [{**row, "total": str(row["total"])} for row in shop.source("orders")]


def test_a_column_that_was_declared_and_is_then_taken_up_by_another_history_has_all_its_values(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS, "lines": LINES}, [mirror_with("orders_changes")])
    shop.commit(("I", "orders", {"id": 1, "total": 5}))
    shop.run()
    shop.declare(NO_TOTAL, [mirror_with("orders_log")], evolve="orders")
    shop.run()
    shop.commit(("I", "orders", {"id": 2, "total": 6}))
    shop.run()
    assert shop.shown("orders") == expected_texts(shop)


def test_a_column_that_could_not_be_shown_while_the_lake_had_another_one_has_all_its_values(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS, "lines": LINES}, ["lines", mirror_with("orders_changes")])
    shop.commit(("I", "orders", {"id": 1, "total": 5}))
    shop.run()
    shop.declare(NO_TOTAL, ["lines"], evolve="orders")
    shop.commit(("I", "orders", {"id": 2, "total": 6}))
    shop.run()
    shop.declare(NO_TOTAL, ["lines", mirror_with("orders_log")], evolve="orders")
    shop.commit(("I", "orders", {"id": 3, "total": 7}))
    shop.run()
    assert all("total" not in row for row in shop.shown("orders")), "the current table still has it as a number"
    shop.commit(("I", "orders", {"id": 4, "total": 8}))
    shop.run()
    shop.run()
    assert shop.shown("orders") == expected_texts(shop)


@pytest.mark.parametrize("documents", [(), (OF_LINES,)], ids=["a mirror alone", "with documents"])
def test_a_late_row_of_a_complete_history_is_judged_by_the_merge_of_its_cycle(
    tmp_path: Path, documents: tuple[str, ...]
) -> None:
    """The transaction was released before its table was declared, and had all rows that its metadata counts."""
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, ["orders"])
    shop.orders(1, 2)
    shop.run()
    shop.declare({"orders": ORDERS, "lines": LINES}, ["orders", "lines"], documents)
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    shop.send("lines", shop._row("I", "lines", 9, None, {"id": 99, "o_id": 1, "q": 1}))
    for _ in range(2):
        shop.run()
        for pair in [("lines_changes", "lines"), *([("of_lines_stream", "lines")] if documents else [])]:
            newest = shop.states_of()[pair].newest
            assert (newest.status, newest.since_csn) == (r.INCOMPLETE, shop.csn + 1)
        assert shop.shown("lines") is None
        (finding,) = open_findings(shop.lake.paths)
        assert (finding["code"], finding["table"]) == (INCOMPLETE, "lines")


NOTED = {"id": "long", "status": "string", "note": "string"}
UNNOTED = {"id": "long", "status": "string"}


@pytest.fixture
def dropped(tmp_path: Path) -> EditedShop:
    """Return a shop whose orders lost a column at the source after the declaration had left it out."""
    shop = EditedShop(tmp_path)
    declare_orders(shop, NOTED)
    shop.commit(("I", "orders", {"id": 1, "status": "new", "note": "x"}))
    shop.run()
    declare_orders(shop, UNNOTED)
    shop.run()
    shop.commit(("I", "orders", {"id": 2, "status": "new"}))
    shop.run()
    return shop


def declare_orders(shop: EditedShop, columns: dict[str, str], name: str = "orders") -> None:
    """Declare orders with a mirror and documents."""
    mirror = f"{{table: {name}, current: orders, history: orders_changes}}"
    documents = f"{{name: doc, root: {name}, children: []}}"
    shop.declare({name: columns}, [mirror], [documents], {name: "APP.ORDERS"})


def notes(shop: EditedShop, table: str) -> list[tuple[int, str | None]] | None:
    rows = shop.shown(table)
    return None if rows is None else [(row["id"], row["note"]) for row in rows]


@pytest.mark.parametrize("renamed", ["orders", "purchases"], ids=["in its table", "in a table of another name"])
@pytest.mark.parametrize("comes_first", [False, True], ids=["declared first", "sent first"])
def test_a_column_that_the_source_dropped_while_it_was_left_out_has_no_earlier_values(
    dropped: EditedShop, renamed: str, *, comes_first: bool
) -> None:
    """Later, the source adds a column of the same name again."""
    if renamed != "orders":
        declare_orders(dropped, UNNOTED, renamed)
        dropped.run()
    if not comes_first:
        declare_orders(dropped, NOTED, renamed)
        dropped.run()
        assert notes(dropped, "orders") == [(1, None), (2, None)]
    dropped.commit(("I", "orders", {"id": 3, "status": "new", "note": "y"}))
    dropped.run()
    declare_orders(dropped, NOTED, renamed)
    dropped.run()
    assert notes(dropped, "orders") == notes(dropped, "doc_current") == [(1, None), (2, None), (3, "y")]
    lake = dropped.lake
    lake.step(backfill, lake.session, "rebuild")
    assert lake.step(backfill, lake.session, "compare")["changes"] == 0


def test_a_column_that_was_left_out_needs_the_messages_of_that_time(dropped: EditedShop) -> None:
    dropped.forget()
    declare_orders(dropped, NOTED)
    dropped.run()
    assert dropped.shown("orders") is None
    assert [each["since_csn"] for each in open_findings(dropped.lake.paths) if each["code"] == INCOMPLETE] == [120]


def test_a_column_that_was_left_out_while_nothing_came_needs_no_message(dropped: EditedShop) -> None:
    declare_orders(dropped, NOTED)
    dropped.run()
    declare_orders(dropped, UNNOTED)
    dropped.run()
    dropped.forget()
    declare_orders(dropped, NOTED)
    dropped.run()
    assert notes(dropped, "orders") == notes(dropped, "doc_current") == [(1, None), (2, None)]


def test_a_column_that_is_still_left_out_keeps_its_values(tmp_path: Path) -> None:
    """Rows that are made again for one column never had the other column."""
    shop = EditedShop(tmp_path)
    both = {**NOTED, "place": "string"}
    declare_orders(shop, both)
    shop.commit(("I", "orders", {"id": 1, "status": "new", "note": "x", "place": "here"}))
    shop.run()
    declare_orders(shop, {"id": "long", "status": "string"})
    shop.run()
    shop.commit(("I", "orders", {"id": 2, "status": "new", "note": "y", "place": "there"}))
    shop.run()
    declare_orders(shop, NOTED)
    shop.run()
    shop.lake.forget("kind = 'row' and xid = 'x110'")
    declare_orders(shop, both)
    shop.run()
    assert shop.shown("orders") == shop.source("orders")


def test_a_column_that_was_left_out_when_its_table_came_back_has_all_its_values_again(tmp_path: Path) -> None:
    """Rows of the time without the table are made without the column, and then made again with it."""
    shop = EditedShop(tmp_path)
    for number, columns in enumerate([NOTED, None, {"id": "long", "status": "string"}, NOTED], 1):
        if columns is None:
            shop.declare({"lines": LINES}, ["lines"])
        else:
            declare_orders(shop, columns)
        shop.commit(("I", "orders", {"id": number, "status": "new", "note": f"of {number}"}))
        shop.run()
    assert shop.shown("orders") == shop.source("orders")


@pytest.mark.parametrize("taken_up", [False, True], ids=["declared", "taken up"])
def test_a_backfill_finds_no_difference_in_inserts_from_before_a_column_was_there(
    tmp_path: Path, *, taken_up: bool
) -> None:
    shop = EditedShop(tmp_path)
    evolve = {"evolve": "orders"} if taken_up else {}
    mirrors, documents = ["orders"], ["{name: doc, root: orders, children: []}"]
    shop.declare({"orders": UNNOTED}, mirrors, documents, **evolve)
    shop.commit(("I", "orders", {"id": 1, "status": "new"}))
    shop.run()
    shop.commit(("I", "orders", {"id": 2, "status": "new", "note": "x"}))
    shop.run()
    if not taken_up:
        shop.declare({"orders": {**NOTED, "sent": "string"}}, mirrors, documents)
        shop.run()
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    assert shop.lake.step(backfill, shop.lake.session, "compare")["changes"] == 0


def test_late_rows_complete_every_member_of_an_aggregates_history(tmp_path: Path) -> None:
    """Documents are computed from the root's changes in their history once the root's mirror is removed."""
    shop, both = EditedShop(tmp_path), {"orders": ORDERS, "lines": LINES}
    documents = "{name: doc, root: orders, children: [{table: lines, as: items, relation: many, parent_key: [o_id]}]}"
    shop.declare({"orders": ORDERS}, ["{table: orders}"])
    late = []
    for number in (1, 2):
        line = {"id": 10 * number, "o_id": number, "q": number}
        late += shop.commit(("I", "orders", {"id": number, "total": 1}), ("I", "lines", line), late=["lines"])["lines"]
    shop.run()
    shop.declare(both, MIRRORS, [documents])
    patience = shop.lake.pipeline.completeness.model_copy(update={"patience": timedelta(microseconds=1)})
    shop.lake.pipeline = shop.lake.pipeline.model_copy(update={"completeness": patience})
    shop.run()
    shop.run()
    assert {state.newest.status for pair, state in shop.states_of().items() if pair[0] == "doc_stream"} == {
        "incomplete"
    }
    shop.send("lines", late[0])
    shop.run()
    assert shop.shown("doc_current") is None
    shop.send("lines", late[1])
    shop.run()
    assert {(state.newest.status, state.newest.since_csn) for state in shop.states_of().values()} == {("complete", 0)}
    shop.declare(both, ["{table: lines}"], [documents])
    shop.run()
    assert shop.shown("doc_current") == shop.documents()
    assert [each for each in open_findings(shop.lake.paths) if each["code"] == INCOMPLETE] == []
