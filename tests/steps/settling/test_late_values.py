"""Values of undeclared columns in transactions that were released after later ones."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.quality.findings import ADDED, INCOMPLETE
from txloom.storage.checks.findings import open_findings
from txloom.storage.declarations import records as r

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


def test_a_late_row_of_a_complete_history_is_judged_by_the_merge_of_its_cycle(tmp_path: Path) -> None:
    """The transaction was released before its table was declared, and had all rows that its metadata counts."""
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, ["orders"])
    shop.orders(1, 2)
    shop.run()
    shop.declare({"orders": ORDERS, "lines": LINES}, ["orders", "lines"])
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    shop.send("lines", shop._row("I", "lines", 9, None, {"id": 99, "o_id": 1, "q": 1}))
    for _ in range(2):
        shop.run()
        newest = shop.states_of()["lines_changes", "lines"].newest
        assert (newest.status, newest.since_csn) == (r.INCOMPLETE, shop.csn + 1)
        assert shop.shown("lines") is None
        (finding,) = open_findings(shop.lake.paths)
        assert (finding["code"], finding["table"]) == (INCOMPLETE, "lines")
