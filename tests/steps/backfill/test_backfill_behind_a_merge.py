"""A backfill after a merge that died: some current tables are as of that merge, and others are behind it."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.errors import TablesFailed
from txloom.steps.backfill.backfill import backfill
from txloom.steps.merge.merge_current import merge_current
from workloads.edited.edited_lake import dying_before
from workloads.small_lake import Died

MIRRORS = ["{table: lines}", "{table: orders}"]


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_rows_without_a_key_are_not_shown_twice_after_a_backfill_brought_them_to_a_merge_that_died(
    tmp_path: Path, commits: int
) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS, "lines": LINES}, MIRRORS, keys={"lines": "none", "orders": "none"})
    shop.orders(1)
    shop.run()
    shop.orders(2)
    lake = shop.lake
    lake.land()
    lake.buffer()
    with pytest.raises((Died, TablesFailed)), dying_before(commits):
        lake.step(merge_current, lake.session)
    lake.runs += 1
    lake.step(backfill, lake.session, "rebuild")
    assert (lake.step(backfill, lake.session, "compare")["inserts"] > 0) == (commits == 1)
    for task in ("apply", "drop"):
        lake.step(backfill, lake.session, task)
    for _ in range(2):
        shop.run()
        assert (shop.shown("orders"), shop.shown("lines")) == (shop.source("orders"), shop.source("lines"))
        shop.orders(3)
