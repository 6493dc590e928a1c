"""What comes again, and what comes late: old files delivered once more, rows of tables that nobody declared."""

from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, delete, insert, update
from steps.merge.small_pieces import cut_small
from txloom.steps.backfill.backfill import backfill
from txloom.storage.views.status import status

TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
targets: {mirrors: ["*"]}
"""


def test_a_backfill_done_twice_over_the_live_stream_changes_nothing_that_was_right(spark: Any, tmp_path: Path) -> None:
    """Faults row 42: all of it again, with transactions that were never captured, older than what is live."""
    shop = Shop(spark, tmp_path, TABLES)
    live = [
        shop.rows_of(20, insert("orders", id=1, note="live"), insert("orders", id=2, note="deleted later")),
        shop.rows_of(30, update("orders", {"id": 1}, id=1, note="newest"), delete("orders", id=2)),
    ]
    counts = (shop.metadata_of(20, orders=2), shop.metadata_of(30, orders=2))
    shop.send(*live[0], *live[1], *counts)
    shop.run()
    old = shop.rows_of(25, update("orders", {"id": 2}, id=2, note="old"), update("orders", {"id": 1}, id=1, note="old"))
    older = shop.rows_of(10, insert("orders", id=3, note="only in the backfill"))
    backfill = [*older, *live[0], *old, *live[1], counts[1], counts[0]]
    backfill += [shop.metadata_of(25, orders=2), shop.metadata_of(10, orders=1)]
    for _ in range(2):
        shop.send(*backfill)
        shop.commit(40 + shop.files, insert("orders", id=100 + shop.files, note="live beside it"))
        shop.run()
    shown = shop.shown("orders", "id", "note")
    assert [row for row in shown if row[0] < 100] == [(1, "newest"), (3, "only in the backfill")]
    assert len(shown) == 4
    balance = shop.query("ledger", "select counts from t where step = 'balance' order by at desc limit 1")[0]["counts"]
    assert dict(balance)["duplicates"] == 11
    cuts = shop.query("cuts", "select amends from t order by cut_id")
    assert [[(amended["csn"]) for amended in cut["amends"]] for cut in cuts] == [[], [10, 25], []]


@pytest.mark.parametrize(("policy", "fate"), [("count", "unwatched"), ("dead_letter", "poison")])
def test_rows_of_an_unknown_table_are_counted_or_dead_letters_as_declared(
    spark: Any, tmp_path: Path, policy: str, fate: str
) -> None:
    """Faults row 14: completeness counts watched tables only."""
    source = f", unknown_tables: {policy}, ignored_tables: [APP.AUDIT]"
    shop = Shop(spark, tmp_path, TABLES, source=source)
    shop.commit(10, insert("orders", id=1, note="a"), insert("surprise", id=1), insert("audit", id=1))
    counts = shop.run()["land_events"]
    assert (counts[fate], counts["unwatched"]) == ((2, 2) if policy == "count" else (1, 1))
    assert shop.shown("orders", "id") == [(1,)]
    letters = [(row["cause"], row["events"]) for row in status(shop.warehouse, "shop")["dead_letters"]]
    assert letters == ([] if policy == "count" else [("unknown table", 1)])


def test_a_backfill_in_pieces_leaves_dropped_columns_empty(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An insert that lacks a column clears it in all rows, also in those of another piece."""
    shop = Shop(spark, tmp_path, TABLES)
    shop.commit(10, *[insert("orders", id=number, note="gone") for number in range(1, 9)])
    shop.commit(30, insert("orders", id=9))
    shop.run()
    assert shop.shown("orders", "id", "note") == [(number, None) for number in range(1, 10)]
    cut_small(monkeypatch, 300)
    made = {
        name: backfill(step_of(shop.pipeline, shop.warehouse, "b1", lambda: spark), name)
        for name in ("rebuild", "compare")
    }
    assert made["rebuild"]["transactions"] == 2
    assert made["compare"]["changes"] == 0
