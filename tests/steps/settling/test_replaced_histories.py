"""Test histories of tables that get another source or key after some of their messages are gone."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from steps.settling.edited_shop import DOCUMENTS, EXCHANGED, LINES, ORDERS, EditedShop, Row, exchanged
from steps.settling.test_settle import OF_LINES, OF_ORDERS, as_of, shop
from txloom.quality.findings import INCOMPLETE
from txloom.steps.merge.merge_current import merge_current
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r
from workloads.play import impatient

__all__ = ["shop"]
KEY = {"lines": "[id, o_id]"}
OTHER = {"lines": "APP.OTHER"}
BOTH = {"orders": ORDERS, "lines": LINES}
ALONE = "{name: lone, root: orders, children: []}"
RENAMED_KEY = {"nr": "{type: long, source: id}", "total": "long"}


def fill(shop: EditedShop) -> None:
    """Commit five transactions, with the csns 110, 120, 130, 140 and 150; the last transaction changes a line."""
    shop.state["other"] = {}
    for number in (1, 2, 3, 4):
        line = {"id": 10 * number, "o_id": number, "q": number}
        other = {"id": number, "o_id": number, "q": 100 * number}
        shop.commit(("I", "orders", {"id": number, "total": number}), ("I", "lines", line), ("I", "other", other))
    shop.commit(("U", "lines", {"id": 10, "q": 77}))
    shop.run()


def forget_first(shop: EditedShop) -> None:
    """Remove the messages of the first two transactions."""
    shop.lake.forget("kind = 'row' and csn <= 120")


def edit(shop: EditedShop, to: str, mirrors: tuple[str, ...] = (OF_LINES,), documents: tuple[str, ...] = ()) -> None:
    """Declare orders and lines; `to` says how lines are declared."""
    columns: Mapping[str, str] = EXCHANGED if to == "names and key" else LINES
    keys = {"lines": "[o_id, id]"} if to == "key" else KEY
    shop.declare(
        {"orders": ORDERS, "lines": columns}, mirrors, documents, OTHER if to == "another source" else None, keys
    )


def expected(shop: EditedShop, to: str, csn: int | None = None) -> list[Row]:
    """Return the lines of the source as of the newest cut, or as of a csn, under the declared column names."""
    rows = shop.source("lines", csn)
    return exchanged(rows) if to == "names and key" else rows


def changes(shop: EditedShop) -> list[tuple[int, int, int]]:
    """Return csn, id and o_id of the rows in the history of lines."""
    return sorted((row["_txloom_csn"], row["id"], row["o_id"]) for row in shop.lake.rows("lines_changes"))


@pytest.mark.parametrize("csn", [120, 130, 150])
@pytest.mark.parametrize(
    ("before", "after"), [("another source", "its source"), ("its source", "key"), ("its source", "names and key")]
)
def test_a_snapshot_completes_a_table_whose_later_rows_are_made_again(
    shop: EditedShop, before: str, after: str, csn: int
) -> None:
    edit(shop, before)
    fill(shop)
    forget_first(shop)
    edit(shop, after)
    shop.run()
    assert shop.shown("lines") is None
    shop.load("lines", csn)
    shop.run()
    assert shop.shown("lines") == expected(shop, after)
    assert as_of(shop, "lines", 150) == expected(shop, after, 150)


def test_a_history_keeps_rows_of_its_source_whose_messages_are_gone_under_their_new_names(shop: EditedShop) -> None:
    edit(shop, "its source")
    fill(shop)
    forget_first(shop)
    edit(shop, "names and key")
    shop.run()
    assert changes(shop) == [(110, 1, 10), (120, 2, 20), (130, 3, 30), (140, 4, 40), (150, 1, 10)]


def test_a_history_keeps_no_rows_of_another_source(shop: EditedShop) -> None:
    edit(shop, "another source")
    fill(shop)
    forget_first(shop)
    edit(shop, "its source")
    shop.run()
    assert changes(shop) == [(130, 30, 3), (140, 40, 4), (150, 10, 1)]


def test_documents_keep_changes_of_their_other_tables(shop: EditedShop) -> None:
    edit(shop, "another source", (), (DOCUMENTS,))
    fill(shop)
    forget_first(shop)
    edit(shop, "its source", (OF_ORDERS,), (DOCUMENTS,))
    shop.run()
    assert shop.shown("doc_current") is None
    assert shop.shown("orders") == shop.source("orders")
    shop.load("lines", 130)
    shop.run()
    assert shop.shown("doc_current") == shop.documents()


@pytest.mark.parametrize("commits", range(3, 8))
def test_a_source_that_is_taken_back_after_a_merge_died_is_shown(shop: EditedShop, commits: int) -> None:
    edit(shop, "its source")
    fill(shop)
    edit(shop, "another source")
    assert shop.die(commits)
    edit(shop, "its source")
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


@pytest.mark.parametrize("comes", [True, False])
def test_rows_are_replaced_when_no_message_is_waited_for_any_longer(shop: EditedShop, *, comes: bool) -> None:
    edit(shop, "its source")
    fill(shop)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    new = ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 8})
    held = shop.commit(*new, late=["lines"])
    shop.commit(("U", "lines", {"id": 20, "q": 99}))
    shop.run()
    edit(shop, "names and key")
    shop.run()
    assert shop.states_of()["lines_changes", "lines"].newest.status == r.WAITING
    assert {row["id"] for row in shop.lake.rows("lines_changes")} == {10, 20, 30, 40}
    if comes:
        shop.send("lines", *held["lines"])
        shop.run()
    else:
        shop.lake.pipeline = impatient(shop.lake.pipeline)
        shop.run()
        shop.load("lines", 160)
        shop.run()
    assert shop.shown("lines") == expected(shop, "names and key")


def name_key(shop: EditedShop, *targets: str, nr: bool = False, note: bool = False) -> None:
    """Declare orders and lines; the key of orders may have another name, and orders a note."""
    columns = RENAMED_KEY if nr else ORDERS
    mirrors, documents = [each for each in targets if "root" not in each], [each for each in targets if "root" in each]
    tables = {"orders": {**columns, "note": "string"} if note else columns, "lines": LINES}
    shop.declare(tables, [OF_LINES, *mirrors], documents, keys={"orders": "[nr]" if nr else "[id]"})


@pytest.mark.parametrize("is_gone", [False, True], ids=["kept", "gone"])
@pytest.mark.parametrize("targets", [(OF_ORDERS,), (ALONE,), (DOCUMENTS,), (OF_ORDERS, ALONE), (OF_ORDERS, DOCUMENTS)])
def test_rows_that_were_written_under_a_key_name_of_before_are_made_again(
    tmp_path: Path, targets: tuple[str, ...], *, is_gone: bool
) -> None:
    """A buffer wrote rows under another name of the key, and no merge followed before the name was taken back."""
    shop = EditedShop(tmp_path)
    name_key(shop, *targets)
    shop.orders(1)
    shop.run()
    name_key(shop, *targets, nr=True)
    shop.orders(2)
    shop.lake.runs += 1
    shop.lake.land()
    shop.lake.buffer()
    name_key(shop, *targets, nr=True, note=True)
    assert shop.lake.step(merge_current, shop.lake.session)["merged"] == 0
    if is_gone:
        shop.forget()
    name_key(shop, *targets)
    shop.orders(3)
    shop.run()
    current = {OF_ORDERS: "orders", ALONE: "lone_current", DOCUMENTS: "doc_current"}
    if is_gone:
        assert [shop.shown(current[each]) for each in targets] == [None] * len(targets)
        (finding,) = findings.open_findings(shop.lake.paths)
        assert (finding["code"], finding["since_csn"]) == (INCOMPLETE, 120)
        shop.load("orders")
    rows = {"orders": shop.source("orders"), "lone_current": shop.source("orders"), "doc_current": shop.documents()}
    assert [shop.shown(current[each]) for each in targets] == [rows[current[each]] for each in targets]
    histories = {OF_ORDERS: "orders_changes", ALONE: "lone_stream", DOCUMENTS: "doc_stream"}
    written = [row for each in targets for row in shop.lake.rows(histories[each]) if row["_txloom_csn"] == 120]
    assert [row for row in written if row["id"] is None and row.get("orders", True)] == []


def test_a_table_without_a_key_that_was_left_out_needs_a_snapshot_where_messages_are_gone(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    for tables in (BOTH, {"lines": LINES}, BOTH):
        if tables is BOTH and shop.states:
            shop.forget()
        shop.declare(tables, [f"{{table: {name}}}" for name in tables], keys={"orders": "none"})
        shop.orders(len(shop.states) + 1)
        shop.run()
    assert shop.shown("orders") is None
    (finding,) = findings.open_findings(shop.lake.paths)
    assert (finding["code"], finding["table"], finding["since_csn"]) == (INCOMPLETE, "orders", 120)
    assert sorted(row["id"] for row in shop.lake.rows("orders_changes")) == [1, 3]
