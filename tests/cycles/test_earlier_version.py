"""A warehouse that the version before wrote goes on: a cycle, a backfill and the page (tests/cycles/earlier)."""

import importlib.util
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, insert, update
from txloom.config.contents import table_content
from txloom.page import pages
from txloom.page.links import Links
from txloom.steps.backfill.backfill import Range, backfill
from txloom.storage.buffer import checkpoints
from txloom.storage.declarations import records as r
from txloom.storage.paths import TablePaths
from txloom.storage.views.stories.transaction import TransactionName, transaction

EARLIER = Path(__file__).with_name("earlier")
ORDERS = [(1, "changed"), (20, "moved"), (3, "note 3"), (4, "note 4"), (5, "note 5"), (6, "note 6")]
LINES = [(60, 77, "orphan"), (61, 3, "nut")]


def tables() -> str:
    """Return the declaration that the warehouse was written with."""
    spec = importlib.util.spec_from_file_location("write_warehouse", EARLIER / "write_warehouse.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.TABLES)


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    """The pipeline as it is declared today, over the files that the version before left."""
    shop = Shop(spark, tmp_path, tables(), patience="3s")
    with tarfile.open(EARLIER / "warehouse.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    shop.declare(tables())
    shop.files = len(list(shop.inbox.rglob("*.jsonl")))
    shop.runs = 100
    return shop


def assert_shown(shop: Shop, orders: list[tuple[Any, ...]], lines: list[tuple[Any, ...]]) -> None:
    """Compare both mirrors and the documents with what the source has."""
    assert shop.shown("orders", "id", "note") == sorted(orders, key=repr)
    assert shop.shown("lines", "no", "order_id", "part") == sorted(lines, key=repr)
    documents: Mapping[int, Any] = {row["id"]: row["lines"] for row in shop.rows("whole_current")}
    assert {key: sorted(line["no"] for line in members) for key, members in documents.items()} == {
        key: sorted(no for no, order, _ in lines if order == key) for key, _ in orders
    }


def assert_recorded(shop: Shop) -> None:
    """Compare the records of the tables that the version before wrote with the declaration."""
    pipeline, states = shop.pipeline, r.states(r.read(TablePaths(shop.warehouse, "shop")))
    assert {*states} == {*r.declared_pairs(pipeline)}
    for (_, member), state in states.items():
        assert (state.newest.status, state.newest.since_csn, state.newest.reason) == (r.COMPLETE, 0, r.FROM_EARLIER)
        assert state.newest.declaration["columns"] == table_content(pipeline, pipeline.table(member))["columns"]
    computed = shop.query("computed_tables", "select * from t")
    assert sorted(row["table"] for row in computed) == ["lines", "orders", "whole_current"]
    assert {(row["status"], row["since_csn"], row["reason"]) for row in computed} == {(r.COMPLETE, 0, r.FROM_EARLIER)}


@pytest.mark.stream
def test_what_the_version_before_wrote_goes_through_a_cycle_a_backfill_and_the_page(shop: Shop) -> None:
    assert_shown(shop, ORDERS, LINES)
    shop.commit(80, insert("orders", id=77, note="parent"), update("lines", {"no": 61}, no=61, part="bolt"))
    counts = shop.run()
    assert counts["land_events"]["landed"] == 3
    assert counts["buffer_transactions"]["transactions"] == 1
    assert checkpoints.current_epoch(shop.warehouse, "shop") == 1
    assert counts["publish"]["published"] == 1
    assert_shown(shop, [*ORDERS, (77, "parent")], [(60, 77, "orphan"), (61, 3, "bolt")])
    assert_recorded(shop)

    again = step_of(shop.pipeline, shop.warehouse, "again", lambda: shop.spark)
    for task in ("rebuild", "compare"):
        compared = backfill(again, task, Range(csns=(0, 80)))
    assert compared["changes"] == 0

    view = pages.View.of(shop.pipeline, shop.warehouse, Links())
    assert "shop" in pages.overview([shop.pipeline], shop.warehouse, Links(), refused={})
    assert "orphan_lines" in pages.now(view, span="1h")
    assert "fill" in pages.ledger(view, page=1)
    story = transaction(shop.pipeline, shop.warehouse, TransactionName(xid="x40")).story
    assert story is not None and story.status == "released"
    assert [row["cause"] for row in story.letters] == ["table short"]
