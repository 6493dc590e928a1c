"""What merges note about tables that they rebuilt, copied or computed again after an edit of the declaration."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill
from txloom.storage.targets import shadow_tables
from txloom.storage.views.pipeline import runs


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def listed(shop: EditedShop) -> list[str]:
    """Return what the page and `txloom status` list under "rebuilt after edits of the declaration"."""
    return [row["what"] for row in runs.edits(shop.lake.pipeline, shop.lake.warehouse).rows]


def test_a_table_whose_rows_were_copied_from_another_history_is_listed(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    shop.declare(BOTH, [OF_LINES], [DOCUMENTS])
    for _ in range(2):
        shop.run()
        copied = "copied from another history after an edit: lines"
        assert listed(shop) == [f"{copied}; computed again after an edit: doc_current"]
    assert shadow_tables.newest_run(shop.lake.paths) is None, "no shadow tables were replaced"


def test_tables_that_were_computed_again_from_history_are_listed(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    assert listed(shop) == []
    wider = {"id": "long", "o_id": "long", "number": "{type: long, source: q}"}
    shop.declare({"orders": ORDERS, "lines": wider}, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    shop.run()
    assert listed(shop) == ["computed again after an edit: doc_current, lines"]
    shop.declare({"orders": ORDERS, "lines": LINES}, [OF_ORDERS, OF_LINES])
    shop.run()
    assert listed(shop)[0] == "computed again after an edit: lines"


def test_a_merge_that_rebuilt_and_computed_tables_is_one_entry(shop: EditedShop) -> None:
    shop.declare({"orders": ORDERS, "lines": {"id": "long", "o_id": "long"}}, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert listed(shop) == ["rebuilt after an edit: lines; computed again after an edit: lines"]
