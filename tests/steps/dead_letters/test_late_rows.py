"""Rows that come after their transaction was released: open dead letters, until a snapshot has them."""

from pathlib import Path
from typing import Any

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import ALL, Selection
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.dead_letters.redrive import redrive
from txloom.storage.buffer import batch_plan
from txloom.storage.dead_letters.listing import listing
from txloom.transactions import causes

LATE = Selection(causes=[causes.LATE])


def released(folder: Path) -> EditedShop:
    """Return a shop that sent a transaction with its order and one line."""
    shop = EditedShop(folder)
    shop.declare({"orders": ORDERS, "lines": LINES}, ["{table: orders}", "{table: lines}"], [DOCUMENTS])
    shop.orders(1)
    return shop


def send_late(shop: EditedShop) -> None:
    """Send a second line of the newest transaction, whose metadata does not count it."""
    line = {"id": 11, "o_id": 1, "q": 9}
    shop.state["lines"][11] = shop.states[shop.csn]["lines"][11] = line
    shop.send("lines", shop._row("I", "lines", 3, None, line))


def late(shop: EditedShop) -> list[tuple[str, int]]:
    """Return the causes of open dead letters, with the number of events."""
    return [(group.cause, group.events) for group in listing(shop.lake.paths).groups]


def redriven(shop: EditedShop, selection: Selection) -> dict[str, Any]:
    shop.lake.runs += 1
    counts = shop.lake.step(redrive, None, selection)
    shop.run()
    return counts


@pytest.mark.parametrize("at_once", [1, batch_plan.ROWS_AT_ONCE], ids=["in two batches", "in one batch"])
def test_a_late_row_is_open_until_a_snapshot_has_it_and_it_is_dismissed(tmp_path: Path, at_once: int) -> None:
    shop = released(tmp_path)
    shop.lake.at_once = at_once
    shop.lake.land()
    send_late(shop)
    shop.run()
    shop.orders(2)
    shop.run()
    assert late(shop) == [(causes.LATE, 1)]
    assert shop.shown("lines") != shop.source("lines")
    shop.load("lines")
    assert (shop.shown("lines"), shop.shown("doc_current")) == (shop.source("lines"), shop.documents())
    shop.lake.step(dismiss, None, LATE, person="Ada", reason="loaded")
    assert late(shop) == []


def test_a_late_row_stays_open_when_everything_is_redriven(tmp_path: Path) -> None:
    shop = released(tmp_path)
    shop.run()
    send_late(shop)
    shop.run()
    assert redriven(shop, ALL) == {"transactions": 0, "events": 0}
    assert late(shop) == [(causes.LATE, 1)]


@pytest.mark.parametrize("choice", [LATE, Selection(transactions=["x110:110"])], ids=["cause", "transaction"])
def test_a_redrive_of_late_rows_alone_is_refused_with_the_way_out(tmp_path: Path, choice: Selection) -> None:
    shop = released(tmp_path)
    shop.run()
    send_late(shop)
    shop.run()
    with pytest.raises(ConfigurationError, match="load snapshots of their tables, then dismiss"):
        redriven(shop, choice)


def test_a_row_that_is_delivered_again_is_no_open_dead_letter(tmp_path: Path) -> None:
    shop = released(tmp_path)
    shop.run()
    send_late(shop)
    shop.run()
    send_late(shop)
    shop.run()
    assert late(shop) == [(causes.LATE, 1)]


def test_a_transaction_is_redriven_beside_a_late_row(tmp_path: Path) -> None:
    shop = released(tmp_path)
    shop.run()
    send_late(shop)
    shop.patience = "1s"
    shop.send("lines", {"table": "APP.LINES"})
    shop.run()
    assert redriven(shop, ALL)["events"] == 1
    assert dict(late(shop)).pop(causes.LATE) == 1
