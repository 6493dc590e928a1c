"""Edits of the source and of completeness that docs/declaring.md says apply to later messages: each is played."""

import json
import time
from pathlib import Path

import pytest

from steps.settling.edited_shop import LINES, ORDERS, EditedShop, Row

BOTH = {"orders": ORDERS, "lines": LINES}
MIRRORS = ["{table: orders}", "{table: lines}"]


def shop_of(folder: Path, mirrors: list[str] | None = None, **options: str) -> EditedShop:
    shop = EditedShop(folder)
    tables = BOTH if mirrors is None else {"orders": ORDERS}
    shop.declare(tables, MIRRORS if mirrors is None else mirrors, **options)
    shop.orders(1, 2)
    shop.run()
    return shop


def count_landed(shop: EditedShop) -> int:
    return sum(row["kind"] == "row" for row in shop.lake.rows("change_events"))


def test_files_of_a_moved_folder_are_not_landed_again(tmp_path: Path) -> None:
    shop = shop_of(tmp_path)
    (tmp_path / "inbox").rename(tmp_path / "moved")
    (tmp_path / "inbox").symlink_to(tmp_path / "moved")
    shop.edit(str(tmp_path / "inbox"), str(tmp_path / "moved"))
    landed = count_landed(shop)
    shop.orders(3)
    shop.run()
    assert count_landed(shop) == landed + 2
    assert shop.shown("lines") == shop.source("lines")


def test_later_files_are_read_in_their_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = shop_of(tmp_path)
    shop.edit("files: {path", "files: {layout: records, settle: 0s, path")
    send = shop.send

    def send_records(topic: str, *messages: Row) -> None:
        send(topic, *({"value": json.dumps(each), "headers": []} for each in messages))

    monkeypatch.setattr(shop, "send", send_records)
    shop.orders(3)
    shop.run()
    assert not shop.lake.rows("dead_letters")
    assert shop.shown("lines") == shop.source("lines")


@pytest.mark.parametrize("later", ["unknown_tables: count", "unknown_tables: dead_letter, ignored_tables: [APP.LINES]"])
def test_rows_of_unknown_tables_stay_what_they_became(tmp_path: Path, later: str) -> None:
    shop = shop_of(tmp_path, ["{table: orders}"], unknown_tables="dead_letter")
    assert len(shop.lake.rows("dead_letters")) == 2
    shop.edit("unknown_tables: dead_letter", later)
    shop.orders(3)
    shop.run()
    assert len(shop.lake.rows("dead_letters")) == 2
    assert shop.shown("orders") == shop.source("orders")


def wait(shop: EditedShop) -> dict[str, list[Row]]:
    """Commit a transaction of three rows that waits for one, which is returned by topic."""
    rows = [("I", "lines", {"id": number, "o_id": 9, "q": 9}) for number in (90, 91)]
    held = shop.commit(("I", "orders", {"id": 9, "total": 9}), *rows, late=["orders"])
    shop.run()
    assert len(shop.lake.rows("pending_transactions")) == 1
    return held


def causes(shop: EditedShop) -> set[str]:
    return {row["cause"] for row in shop.lake.rows("dead_letters")}


def test_a_transaction_that_waits_is_judged_by_another_patience(tmp_path: Path) -> None:
    shop = shop_of(tmp_path)
    wait(shop)
    shop.edit("patience: 30m", "patience: 1s")
    time.sleep(1.1)
    shop.run()
    assert not shop.lake.rows("pending_transactions")
    assert causes(shop) == {"table short"}


def test_a_limit_of_rows_holds_when_a_transaction_that_waits_gets_rows(tmp_path: Path) -> None:
    shop = shop_of(tmp_path)
    held = wait(shop)
    shop.edit("patience: 30m", "patience: 30m, max_rows: 2")
    shop.run()
    assert len(shop.lake.rows("pending_transactions")) == 1
    for topic, messages in held.items():
        shop.send(topic, *messages)
    shop.run()
    assert causes(shop) == {"too large"}
