"""Snapshots that are loaded for tables whose histories are not complete."""

from contextlib import nullcontext

import pytest

from called import step_of
from steps.settling.edited_shop import EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill, incomplete, shop, without_messages
from txloom.errors import ConfigurationError
from txloom.steps.settling.forecast import forecast
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot

__all__ = ["shop"]


def test_a_snapshot_that_was_loaded_before_its_table_had_a_history_completes_it(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_LINES])
    fill(shop)
    shop.forget()
    shop.orders(7)
    shop.run()
    shop.load("orders")
    shop.declare(BOTH, [OF_LINES, OF_ORDERS])
    planned = forecast(shop.lake.pipeline, shop.lake.paths)
    assert (planned.incomplete, planned.made["orders_changes", "orders"].missing.last_csn) == ((), 140)
    shop.run()
    assert shop.shown("orders") == shop.source("orders")
    assert incomplete(shop) == []


@pytest.mark.parametrize("key", ["[id]", "none"])
def test_a_history_that_was_made_again_without_its_snapshot_takes_another_one(shop: EditedShop, key: str) -> None:
    keys = {"orders": key}
    shop.declare(BOTH, [OF_LINES], keys=keys)
    fill(shop)
    shop.load("orders")
    shop.forget()
    shop.declare(BOTH, [OF_LINES, OF_ORDERS], keys=keys)
    shop.run()
    (finding,) = incomplete(shop)
    assert finding["since_csn"] == shop.csn
    with (
        nullcontext() if key == "[id]" else pytest.raises(ConfigurationError, match="has no key, and was loaded as of")
    ):
        shop.load("orders")
        assert shop.shown("orders") == shop.source("orders")


def test_a_snapshot_below_what_a_history_lacks_says_that_it_does_not_complete_it(
    shop: EditedShop, caplog: pytest.LogCaptureFixture
) -> None:
    without_messages(shop)
    caplog.clear()
    load_snapshot(step_of(shop.lake.pipeline, shop.lake.warehouse, "early"), Snapshot(shop.export("lines"), 5))
    assert "lines_changes lacks changes up to csn 150: a snapshot as of csn 5 does not complete it" in caplog.text
