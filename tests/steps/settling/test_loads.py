"""Snapshots that are loaded for tables whose histories are not complete."""

from contextlib import nullcontext
from functools import partial

import pytest

from called import step_of
from steps.settling.edited_shop import EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill, incomplete, shop, without_messages
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.steps.settling.forecast import forecast
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.checks import findings

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
    assert finding["since_csn"] == min(shop.states)
    assert f"(csn {min(shop.states)} to {shop.csn})" in finding["evidence"]
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


def test_a_cut_as_of_a_commit_and_a_loaded_snapshot_says_when_the_source_committed(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_LINES, OF_ORDERS])
    fill(shop)
    committed_at = shop.cut["committed_at"]
    assert committed_at is not None
    for table in ("orders", "lines"):
        shop.load(table)
        assert shop.cut["committed_at"] == committed_at
    shop.declare(BOTH, [OF_LINES])
    shop.run()
    assert shop.cut["committed_at"] == committed_at


@pytest.mark.parametrize("runs_between", [False, True])
def test_a_table_without_a_key_is_not_loaded_twice_as_of_one_csn(shop: EditedShop, *, runs_between: bool) -> None:
    """Alone, then with all others: each of its rows was there twice."""
    shop.declare(BOTH, [OF_LINES, OF_ORDERS], keys={"orders": "none"})
    fill(shop)
    exported = shop.export("orders")
    shop.export("lines")
    step = partial(shop.lake.step, load_snapshot, shop.lake.session)
    step(Snapshot(exported, shop.csn, tables=["orders"]))
    if runs_between:
        shop.run()
    assert step(Snapshot(exported, shop.csn))["tables"] == 1
    shop.run()
    assert (shop.shown("orders"), shop.shown("lines")) == (shop.source("orders"), shop.source("lines"))
    assert step(Snapshot(exported, shop.csn))["skipped"] == 1


@pytest.mark.parametrize("as_of_the_change", [False, True], ids=["load before the change", "load after it"])
def test_a_change_of_a_row_that_an_incomplete_table_lacks_is_no_second_finding(
    shop: EditedShop, *, as_of_the_change: bool
) -> None:
    without_messages(shop)
    csn, exported = shop.csn, shop.export("lines")
    order = {"id": 1, "total": 5}
    shop.commit(("U", "lines", {"id": 20, "o_id": 1, "q": 6}), ("D", "lines", 10), ("U", "orders", order))
    shop.run()
    assert findings.open_findings(shop.lake.paths) == incomplete(shop)
    if as_of_the_change:
        csn, exported = shop.csn, shop.export("lines")
    shop.lake.step(load_snapshot, shop.lake.session, Snapshot(exported, csn, ahead=True))
    shop.run()
    assert findings.open_findings(shop.lake.paths) == []
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("orders") == shop.source("orders")
    shop.commit(("U", "lines", {"id": 999, "o_id": 1, "q": 7}))
    shop.run()
    assert [row["code"] for row in findings.open_findings(shop.lake.paths)] == [f.UNKNOWN_ROW]
