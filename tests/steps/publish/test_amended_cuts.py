"""Which earlier cuts a cut amends when tables were declared, named or loaded between them."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill

BOTH_MIRRORS = [OF_ORDERS, OF_LINES]


def amended(shop: EditedShop) -> set[int]:
    """Return the cuts that the newest cut amends."""
    return {each["cut_id"] for each in shop.cut["amends"]}


def test_a_table_that_was_loaded_late_amends_no_cut_that_never_showed_it(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.forget("lines")
    shop.declare(BOTH, BOTH_MIRRORS)
    shop.orders(4)
    shop.run()
    assert shop.shown("lines") is None
    shop.load("lines")
    assert shop.shown("lines") == shop.source("lines")
    assert amended(shop) == set()


@pytest.mark.parametrize(
    ("mirror", "late", "expected"),
    [
        (OF_LINES, "lines", {1, 2}),
        (OF_LINES, "orders", {2}),
        ("{table: lines, current: lines_now}", "lines", {1, 2}),
    ],
)
def test_a_late_transaction_amends_the_cuts_that_showed_its_table_also_under_another_name(
    tmp_path: Path, mirror: str, late: str, expected: set[int]
) -> None:
    shop = EditedShop(tmp_path, csn=200)
    shop.declare(BOTH, [OF_LINES])
    shop.orders(1)
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, mirror])
    shop.orders(2)
    shop.run()
    assert shop.cut["cut_id"] == 2
    row = {"id": 90, "total": 9} if late == "orders" else {"id": 90, "o_id": 1, "q": 9}
    shop.csn = 150
    shop.commit(("I", late, row))
    shop.run()
    assert shop.cut["cut_id"] == 3 and amended(shop) == expected


def test_documents_show_the_tables_of_their_members(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path, csn=200)
    shop.declare(BOTH, [], [DOCUMENTS])
    shop.orders(1)
    shop.run()
    shop.declare(BOTH, BOTH_MIRRORS, [DOCUMENTS])
    shop.orders(2)
    shop.run()
    shop.csn = 150
    shop.commit(("I", "lines", {"id": 90, "o_id": 1, "q": 9}))
    shop.run()
    assert amended(shop) == {1, 2}
