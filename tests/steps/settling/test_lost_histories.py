"""A history that is gone is made again; one that holds rows of another table is never written into."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from rich.console import Console, Group

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop, Row
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill, incomplete
from txloom import read
from txloom.errors import BeforeHistory, ConfigurationError
from txloom.page import pages
from txloom.page.links import Links
from txloom.steps.declarations.declare import declare
from txloom.storage.declarations import records as r
from txloom.storage.views.pipeline.histories import histories
from txloom.terminal.commands import panels
from txloom.terminal.status import one


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def lose(shop: EditedShop, *tables: str) -> None:
    for table in tables:
        shutil.rmtree(shop.lake.paths.table(table))


@pytest.mark.parametrize(
    "lost", [["lines_changes"], ["doc_stream"], ["lines_changes", "doc_stream"], ["lines", "lines_changes"]]
)
def test_a_history_that_is_gone_is_made_again(shop: EditedShop, lost: list[str]) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    before = {name: shop.lake.rows(name) for name in ("lines_changes", "doc_stream")}
    lose(shop, *lost)
    shop.orders(4)
    shop.run()
    for name in before.keys() & {*lost}:
        rows = shop.lake.rows(name)
        assert [row for row in before[name] if row not in rows] == []
    shop.commit(("D", "lines", 20))
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("doc_current") == shop.documents()
    assert {state.newest.status for state in shop.states_of().values()} == {r.COMPLETE}


def replace_by_copy(shop: EditedShop, table: str, copy: Path) -> None:
    lose(shop, table)
    shutil.copytree(copy, shop.lake.paths.table(table))


def restore(shop: EditedShop, table: str, version: int) -> None:
    """Restore a history as a person does with Delta: its newest writes keep their numbers."""
    DeltaTable(shop.lake.paths.table(table)).restore(version)


def let_lag(shop: EditedShop, table: str, how: str) -> None:
    """Write two more transactions, and take their rows out of a history."""
    path, copy = Path(shop.lake.paths.table(table)), shop.folder / "copy"
    shutil.copytree(path, copy)
    version = DeltaTable(path).version()
    shop.orders(4)
    shop.commit(("D", "lines", 20))
    shop.run()
    if "copy" in how:
        replace_by_copy(shop, table, copy)
    else:
        restore(shop, table, version)
    if "later commits" in how:
        for _ in range(3):
            DeltaTable(path).alter.add_columns([Field(f"more_{DeltaTable(path).version()}", PrimitiveType("long"))])


@pytest.mark.parametrize(
    ("table", "how"),
    [
        ("lines_changes", "an older copy with later commits"),
        ("lines_changes", "an earlier version with later commits"),
        ("doc_stream", "an older copy"),
        ("doc_stream", "an earlier version"),
    ],
)
def test_a_history_that_lags_is_made_again(shop: EditedShop, table: str, how: str) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    let_lag(shop, table, how)
    shop.commit(("U", "lines", {"id": 10, "o_id": 3, "q": 9}))
    shop.run()
    assert {state.newest.status for state in shop.states_of().values()} == {r.COMPLETE}
    assert shop.shown("lines") == shop.source("lines")
    assert shop.shown("doc_current") == shop.documents()
    for csn in shop.states:
        assert [(row["id"], row["q"]) for row in as_of(shop, csn)] == [
            (row["id"], row["q"]) for row in shop.source("lines", csn)
        ]
    numbers = [record.number for record in r.read(shop.lake.paths)]
    shop.orders(5)
    shop.run()
    assert [record.number for record in r.read(shop.lake.paths)] == numbers


def test_a_history_that_lags_is_no_source_of_a_table_that_is_computed_again(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    let_lag(shop, "lines_changes", "an older copy")
    shop.declare(BOTH, [OF_ORDERS, "{table: lines, current: now, history: other}"])
    shop.run()
    assert shop.shown("now") == shop.source("lines")


def test_a_history_that_lags_and_whose_messages_are_gone_leaves_the_cuts(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    let_lag(shop, "lines_changes", "an earlier version")
    shop.forget("lines")
    shop.orders(5)
    shop.run()
    assert shop.shown("lines") is None and [row["table"] for row in incomplete(shop)] == ["lines"]
    assert shop.shown("orders") == shop.source("orders")
    shop.load("lines")
    assert shop.shown("lines") == shop.source("lines") and not incomplete(shop)


def test_a_history_that_was_restored_and_taken_back_is_whole(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    version = DeltaTable(shop.lake.paths.table("lines_changes")).version()
    restore(shop, "lines_changes", version - 1)
    restore(shop, "lines_changes", version)
    shop.forget()
    shop.orders(4)
    shop.run()
    assert shop.shown("lines") == shop.source("lines") and not incomplete(shop)


def test_a_history_that_lags_is_emptied_once(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    let_lag(shop, "lines_changes", "an earlier version")
    shop.orders(5)
    shop.lake.land()
    known = [(declare(shop.lake.pipeline, shop.lake.paths, "twice"), r.read(shop.lake.paths)) for _ in range(2)]
    assert known[0] == known[1] and not shop.lake.rows("lines_changes")
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert {state.newest.status for state in shop.states_of().values()} == {r.COMPLETE}
    assert len(shop.lake.rows("lines_changes")) == 8


def test_a_child_that_was_left_out_when_its_history_was_lost_gets_all_its_rows(
    shop: EditedShop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], [DOCUMENTS])
    fill(shop)
    shop.declare(BOTH, [OF_ORDERS, OF_LINES], ["{name: doc, root: orders, children: []}"])
    shop.orders(4)
    shop.run()
    lose(shop, "doc_stream")
    shop.orders(5)
    shop.run()
    shop.declare(BOTH, [OF_ORDERS], [DOCUMENTS])
    shop.orders(6)
    shop.run()
    assert shop.shown("doc_current") == shop.documents()
    # The rows of the other member were not removed.
    assert "doc_stream lacks rows" not in caplog.text


def test_a_table_whose_history_and_messages_are_gone_leaves_the_cuts(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.forget("lines")
    lose(shop, "lines_changes")
    shop.orders(4)
    shop.run()
    assert shop.shown("lines") is None and [row["table"] for row in incomplete(shop)] == ["lines"]
    assert shop.shown("orders") == shop.source("orders")
    where = (shop.lake.pipeline, shop.lake.paths.warehouse)
    listed = histories(*where)
    assert [(row["table"], row["status"]) for row in listed.rows] == [("lines", r.INCOMPLETE), ("orders", r.COMPLETE)]
    assert "messages are not kept any more" in listed.rows[0]["missing"]
    with (console := Console(width=200)).capture() as status:
        console.print(Group(*one(panels(*where, 10))))
    page = pages.cuts(pages.View.of(shop.lake.pipeline, where[1], Links()), page=1)
    for shown in (status.get(), page):
        assert "messages are not kept any more" in " ".join(shown.split())
    with pytest.raises(BeforeHistory, match=r"the history of lines is not complete, .*: of 5 transactions"):
        as_of(shop, shop.csn)
    before = shop.csn
    shop.load("lines")
    assert shop.shown("lines") == shop.source("lines") and not incomplete(shop)
    assert [row["id"] for row in as_of(shop, before)] == [row["id"] for row in shop.source("lines")]
    with pytest.raises(BeforeHistory, match=f"the history of lines is complete since csn {before} only"):
        as_of(shop, 120)


def as_of(shop: EditedShop, csn: int) -> list[Row]:
    rows: list[Row] = read.as_of(shop.lake.pipeline, "lines", csn=csn, warehouse=shop.lake.paths.warehouse).to_pylist()
    return rows


@pytest.mark.parametrize("history", ["kept", "lines_changes"])
def test_a_table_that_gets_another_name_keeps_its_rows_without_messages(shop: EditedShop, history: str) -> None:
    shop.declare(BOTH, [OF_ORDERS, f"{{table: lines, history: {history}}}"])
    fill(shop)
    shop.forget("lines")
    named = {"orders": ORDERS, "items": LINES}
    kept = f"{{table: items, history: {history}}}" if history == "kept" else "{table: items}"
    shop.declare(named, [OF_ORDERS, kept], sources={"items": "APP.LINES"})
    shop.orders(4)
    shop.run()
    assert shop.shown("items") == shop.source("lines") and not incomplete(shop)


def test_a_member_that_gets_another_name_keeps_its_rows_without_messages(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    shop.forget()
    documents = DOCUMENTS.replace("table: lines", "table: rows").replace("as: items", "as: parts")
    shop.declare({"orders": ORDERS, "rows": LINES}, [], [documents], sources={"rows": "APP.LINES"})
    shop.orders(4)
    shop.run()
    named = [{"parts": row.pop("items"), **row} for row in shop.documents()]
    assert shop.shown("doc_current") == named and not incomplete(shop)


def test_a_history_of_another_table_is_not_written_into(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.declare(BOTH, ["{table: orders, history: lines_changes}"])
    with pytest.raises(ConfigurationError) as refused:
        shop.run()
    assert str(refused.value) == (
        "pipeline shop: targets.mirrors[orders].history: found lines_changes, expected changes of APP.LINES as before. "
        "Give the target another history, or move the folder lines_changes away. After the move, the next cycle "
        "rebuilds the rows from the messages that are still kept. A table needs a snapshot if some of its messages are "
        "gone."
    )
    lose(shop, "lines_changes")
    shop.run()
    assert shop.shown("orders") == shop.source("orders")


def test_documents_of_another_root_need_another_history(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    other = "{name: doc, root: lines, children: [{table: orders, as: of, relation: one, parent_key: [id]}]}"
    shop.declare(BOTH, [], [other])
    with pytest.raises(ConfigurationError, match=r"targets.aggregates\[doc\].root: found lines, expected transactions"):
        shop.run()
    shop.declare(BOTH, [], [other.replace("name: doc", "name: doc, history: by_line, current: lines_now")])
    shop.run()
    assert [row["id"] for row in shop.shown("lines_now") or ()] == [row["id"] for row in shop.source("lines")]
