"""A checkpoint that is lost or damaged is replaced: the buffer is rebuilt, and nothing that was written changes."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from shop import Shop, insert
from txloom.pipelines.buffer import buffer_transactions
from txloom.pipelines.land import land_events
from txloom.storage import checkpoints

TABLES = """
tables: [{name: orders, source: APP.ORDERS, key: [id], columns: {id: long, total: "decimal(10,2)"}}]
targets: {mirrors: ["*"]}
"""
PATIENCE = 1.0
BUFFERING = (land_events, buffer_transactions)
TOLD = ("orders_changes", "transactions", "dead_letters", "findings", "orders", "cuts")


def order(number: int, total: str = "1") -> Any:
    return insert("orders", id=number, total=total)


@pytest.fixture(scope="module")
def story(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Return a shop that has seen everything that can become of a transaction, the last of which still waits."""
    made = Shop(spark, tmp_path_factory.mktemp("story"), TABLES, patience="1s")
    made.commit(10, order(1))
    made.send(*(short := made.rows_of(20, order(2), order(3)))[:1], made.metadata_of(20, orders=2))
    made.send(*made.rows_of(30, order(4)))
    made.commit(40, order(5, "no number"))
    made.run(BUFFERING)
    time.sleep(PATIENCE)
    repeated = made.rows_of(50, order(6))
    made.send(*repeated, made.metadata_of(50, orders=1))
    made.run(BUFFERING)
    made.send(*repeated, *made.rows_of(50, order(7)), *made.rows_of(30, order(8)), short[1])
    made.run(BUFFERING)
    made.send(*made.rows_of(60, order(9)))
    made.run()
    return made


@pytest.fixture
def shop(story: Shop, tmp_path: Path) -> Iterator[Shop]:
    """Return the shop with a warehouse of its own."""
    shutil.copytree(story.warehouse, tmp_path / "warehouse")
    home, story.folder = story.folder, tmp_path
    yield story
    story.folder = home


def versions(shop: Shop) -> dict[str, int]:
    """Return the version of each table that says what became of transactions."""
    return {name: shop.version(name) for name in TOLD if DeltaTable.is_deltatable(shop.path(name))}


def balance(shop: Shop) -> dict[str, int]:
    """Return what the newest balance adds up; the ledger's are equal on both sides, or the buffer would have failed."""
    newest = "select counts from t where step = 'balance' order by generation desc, at desc limit 1"
    return dict(shop.query("ledger", newest)[0]["counts"])


def counted(shop: Shop, table: str, column: str) -> dict[str, int]:
    rows = shop.query(table, f'select "{column}" as what, count(*) as n from t group by 1')
    return {str(row["what"]): row["n"] for row in rows}


def test_the_story_has_everything_that_can_become_of_a_transaction(shop: Shop) -> None:
    late = {"late event of a finished transaction": 1}
    given_up = {"metadata never came": 2, "table short": 3, "value cannot be read": 2}
    assert counted(shop, "dead_letters", "cause") == given_up | late
    died = {"None": 3, "complete now": 1, "metadata never came": 1, "table short": 1, "value cannot be read": 1}
    assert counted(shop, "transactions", "cause") == died
    assert counted(shop, "pending_transactions", "xid") == {"x60": 1}


def test_a_lost_checkpoint_changes_no_table_and_no_dead_letter(shop: Shop, spread: None) -> None:
    before, sides = versions(shop), balance(shop)
    shutil.rmtree(checkpoints.root(shop.warehouse, "shop"))
    done = shop.run((buffer_transactions,))["buffer_transactions"]
    assert done["generation"] == 2
    assert (versions(shop), balance(shop)) == (before, sides)
