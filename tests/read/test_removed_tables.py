"""Reads of a table that an edit removed from the declaration say so."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, as_of, fill
from txloom import read
from txloom.errors import ConfigurationError


def test_a_table_that_is_no_longer_declared_is_named_with_its_newest_cut(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    cut, rows = shop.cut, shop.source("lines")
    version = dict(cut["versions"])["lines"]
    shop.declare(BOTH, [OF_ORDERS])
    for _ in range(2):
        message = (
            "pipeline shop has no current table 'lines': the declaration does not have it any more. "
            f"Cut {cut['cut_id']}, as of csn {cut['valid_through']}, is the newest cut with the table: "
            f"read.at_version(..., 'lines', {version}) returns its rows until vacuum removes them. "
            "The pipeline has orders"
        )
        with pytest.raises(ConfigurationError) as raised:
            as_of(shop, "lines", shop.csn)
        assert str(raised.value) == message
        with pytest.raises(ConfigurationError, match="the declaration does not have it any more"):
            read.intervals(shop.lake.pipeline, "lines", warehouse=shop.lake.warehouse)
        shop.run()
    shown = read.at_version(shop.lake.pipeline, "lines", version, warehouse=shop.lake.warehouse).to_pylist()
    assert sorted(row["id"] for row in shown) == [row["id"] for row in rows]
    with pytest.raises(ConfigurationError, match="has no current table 'never'; it has orders"):
        as_of(shop, "never", shop.csn)
