"""Metadata that corrects what came before, through real Spark and Delta: waiting, dead, released, and rebuilt."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from shop import Shop, insert
from txloom.quality import findings as f
from txloom.storage.buffer import checkpoints
from txloom.storage.views.status import status

pytestmark = pytest.mark.stream
TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
targets: {mirrors: ["*"]}
"""


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path, TABLES, patience="1s")


def rows(shop: Shop, csn: int, count: int) -> list[str]:
    return shop.rows_of(csn, *[insert("orders", id=csn * 10 + n, note="n") for n in range(count)])


def dead(shop: Shop) -> dict[str, int]:
    return {row["cause"]: row["events"] for row in status(shop.warehouse, "shop")["dead_letters"]}


def rebuild(shop: Shop) -> None:
    """Lose the checkpoint, so that the next run decides everything again."""
    shutil.rmtree(checkpoints.root(shop.warehouse, "shop"))
    shop.run()


def test_it_replaces_what_waits_and_the_old_one_that_comes_again_changes_nothing(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, TABLES)
    first, second = rows(shop, 10, 2)
    old, new = shop.metadata_of(10, orders=1), shop.metadata_of(10, orders=2)
    shop.send(first, old, new)
    shop.run()
    assert shop.query("pending_transactions", "select expected from t")[0]["expected"] == {"orders": 2}
    shop.send(old)
    shop.run()
    shop.send(second)
    shop.run()
    assert shop.shown("orders", "id") == [(100,), (101,)]
    shop.send(old, new)
    shop.run()
    rebuild(shop)
    assert (shop.shown("orders", "id"), dead(shop), shop.findings()) == ([(100,), (101,)], {}, [])


def test_a_dead_transaction_is_whole_by_the_newest_counts_though_old_ones_came_again(shop: Shop) -> None:
    first, second = rows(shop, 10, 2)
    old, new = shop.metadata_of(10, orders=1), shop.metadata_of(10, orders=2)
    shop.send(first, old.replace("ORDERS", "OTHERS"))
    shop.run()
    time.sleep(1.1)
    shop.run()
    assert dead(shop) == {"excess": 2}
    shop.send(new)
    shop.run()
    shop.send(old.replace("ORDERS", "OTHERS"))
    shop.run()
    assert dead(shop) == {"excess": 3}, "the correction joined the dead letters, what it corrects was there"
    shop.send(second)
    assert shop.run()["buffer_transactions"]["redriven"] == 1
    assert (shop.shown("orders", "id"), dead(shop)) == ([(100,), (101,)], {})
    rebuild(shop)
    assert (shop.shown("orders", "id"), dead(shop), shop.findings()) == ([(100,), (101,)], {}, [])


def test_what_was_released_stays_and_other_counts_name_the_table_that_needs_a_snapshot(shop: Shop) -> None:
    shop.send(*rows(shop, 10, 1), shop.metadata_of(10, orders=1))
    shop.send(*rows(shop, 20, 1), shop.metadata_of(20, orders=1))
    shop.run()
    shop.send(shop.metadata_of(10, orders=2), shop.metadata_of(20, orders=1))
    shop.run()
    assert (shop.shown("orders", "id"), dead(shop)) == ([(100,), (200,)], {})
    assert shop.findings() == [(f.COUNTS_CHANGED, "orders", None, 10, True)]
    shop.send(shop.metadata_of(10, orders=2))
    shop.run()
    rebuild(shop)
    assert (shop.shown("orders", "id"), dead(shop)) == ([(100,), (200,)], {})
    assert shop.findings() == [(f.COUNTS_CHANGED, "orders", None, 10, True)]
    (finding,) = shop.query("findings", "select evidence from t")
    assert finding["evidence"] == "x10 was released with 1 rows of orders; metadata that came later counts 2"
