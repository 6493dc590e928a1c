"""Edits of a declaration while a cycle runs: the steps that are left do nothing by another declaration than before."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.config import names
from txloom.errors import ConfigurationError
from txloom.steps.backfill.backfill import backfill
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish

BOTH = {"orders": ORDERS, "lines": LINES}
OF_ORDERS = "{table: orders}"
OF_LINES = "{table: lines}"
STEPS = ("land", "buffer", "merge", "publish")


def run_edited(shop: EditedShop, behind: str) -> None:
    """Run one cycle in which a table, its mirror and documents are declared behind a step."""
    lake = shop.lake
    calls = {
        "land": lake.land,
        "buffer": lake.buffer,
        "merge": lambda: lake.step(merge_current, lake.session),
        "publish": lambda: lake.step(publish, None),
    }
    for step in STEPS:
        calls[step]()
        if step == behind:
            shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])


@pytest.mark.parametrize("behind", STEPS)
def test_a_cut_shows_an_edit_whole_or_not_at_all(tmp_path: Path, behind: str) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.orders(1, 2)
    shop.run()
    shop.orders(3)
    run_edited(shop, behind)
    assert shop.shown("orders") == shop.source("orders")
    assert shop.shown("lines") is None
    shop.orders(4)
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("doc_current") == shop.documents()


@pytest.mark.parametrize("is_known", [True, False], ids=["ledger of today", "ledger of an earlier version"])
def test_no_cut_names_tables_that_another_declaration_made(tmp_path: Path, is_known: bool) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.orders(1)
    shop.run()
    shop.orders(2)
    shop.lake.land()
    shop.lake.buffer()
    shop.lake.step(merge_current, shop.lake.session)
    if not is_known:
        DeltaTable(shop.lake.paths.table(names.LEDGER)).update({"declared": "null"})
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, [OF_ORDERS, OF_LINES])
    assert shop.lake.step(publish, None) == {"published": 0}
    shop.run()
    assert shop.shown("orders") == [{"id": 1}, {"id": 2}]


def test_messages_that_were_landed_by_a_declaration_that_is_gone_again_are_decoded_again(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.orders(1)
    shop.run()
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.orders(2)
    shop.lake.land()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.lake.buffer()
    shop.lake.step(merge_current, shop.lake.session)
    shop.lake.step(publish, None)
    assert shop.shown("lines") == shop.source("lines")
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert len(shop.source("lines")) == 2


@pytest.mark.parametrize("behind", ["publish", "land", "buffer"])
def test_no_cut_shows_a_table_as_it_was_before_its_name_was_given_back(tmp_path: Path, behind: str) -> None:
    """The last merge wrote the table under another name; the table of the first name is as an earlier merge left it."""
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.orders(1)
    shop.run()
    shop.declare({"orders": ORDERS}, ["{table: orders, current: renamed}"])
    shop.orders(2)
    shop.run()
    shop.orders(3)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    if behind in ("land", "buffer"):
        shop.lake.land()
    if behind == "buffer":
        shop.lake.buffer()
    cuts = len(shop.lake.rows("cuts"))
    assert shop.lake.step(publish, None) == {"published": 0}
    assert len(shop.lake.rows("cuts")) == cuts
    shop.run()
    assert shop.shown("orders") == shop.source("orders")


def test_a_backfill_waits_until_a_cycle_has_made_the_rows_that_an_edit_left_out(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    targets = [OF_ORDERS, OF_LINES]
    shop.declare(BOTH, targets, [DOCUMENTS])
    shop.orders(1)
    shop.run()
    shop.declare(BOTH, targets, ["{name: doc, root: orders, children: []}"])
    shop.orders(2)
    shop.lake.land()
    shop.lake.buffer()
    shop.declare(BOTH, targets, [DOCUMENTS])
    with pytest.raises(ConfigurationError, match="run a cycle"):
        shop.lake.step(backfill, shop.lake.session, "rebuild")
    shop.lake.land()
    shop.lake.buffer()
    with pytest.raises(ConfigurationError, match="run a cycle"):
        shop.lake.step(backfill, shop.lake.session, "rebuild")
    shop.run()
    assert shop.shown("doc_current") == shop.documents()
    shop.lake.runs += 1
    shop.lake.step(backfill, shop.lake.session, "rebuild")
    assert shop.lake.step(backfill, shop.lake.session, "compare")["changes"] == 0
