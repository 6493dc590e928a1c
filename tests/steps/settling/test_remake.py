"""Rebuilding histories after an edit: what the table of backfills, and people, see of it."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.errors import ConfigurationError
from txloom.steps.backfill.scope import resumed
from txloom.storage.views.pipeline import runs

BOTH = {"orders": ORDERS, "lines": LINES}


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    """Return a shop to which a mirror of lines was added after its first cycle."""
    made = EditedShop(tmp_path)
    made.declare(BOTH, ["{table: orders}"])
    made.orders(1, 2)
    made.run()
    made.declare(BOTH, ["{table: orders}", "{table: lines}"])
    made.run()
    return made


def test_a_rebuild_after_an_edit_names_its_tables_and_is_not_a_backfill(shop: EditedShop) -> None:
    given = (shop.lake.pipeline, shop.lake.warehouse)
    assert runs.backfills(*given).rows == []
    assert [row["what"] for row in runs.edits(*given).rows] == ["rebuilt after an edit: lines"]


def test_a_backfill_whose_shadow_tables_an_edit_replaced_says_so(shop: EditedShop) -> None:
    with pytest.raises(ConfigurationError, match="the shadow tables are of the rebuild after an edit in run "):
        resumed(shop.lake.pipeline, shop.lake.paths, "july", "compared")
