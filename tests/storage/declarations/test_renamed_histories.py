"""Histories that get other names: their rows are copied, also without messages, and also after a cleaning."""

from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest import mock

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop, Row
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill, incomplete
from txloom import read
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.steps.settling import copying, settle
from txloom.steps.settling.planned_tables import planned_tables
from txloom.storage.checks.findings import open_findings
from txloom.storage.declarations import records as r
from txloom.storage.delta import small_tables
from txloom.storage.targets.history_reader import CLEANED as CLEANED_UP_TO

BY_Q = DOCUMENTS.replace("[o_id]", "[q]").replace("name: doc", "name: by_q")
LOGGED = DOCUMENTS.replace("name: doc,", "name: doc, history: doc_log,")
ITEMS = {"orders": ORDERS, "rows": LINES}
OF_ITEMS = {"rows": "APP.LINES"}


class Killed(Exception):
    """The run that died."""


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def documents(shop: EditedShop, field: str | None = "items") -> list[Row]:
    """Return the documents of the source, whose lines are in a field; None: without the lines."""
    rows = [{**row} for row in shop.documents()]
    lines = [row.pop("items") for row in rows]
    return [row | ({} if field is None else {field: each}) for row, each in zip(rows, lines, strict=True)]


def states(shop: EditedShop) -> set[str]:
    """Return the statuses of all declared members of histories."""
    known = shop.states_of()
    return {known[pair].newest.status for pair in r.declared_pairs(shop.lake.pipeline)}


def plans(shop: EditedShop) -> dict[str, str]:
    return {each.name: each.state for each in planned_tables(shop.lake.pipeline, str(shop.lake.paths.warehouse))}


RENAMED: dict[str, tuple[str, str, str | None, Mapping[str, str]]] = {
    "its history": (LOGGED, "doc_current", "items", {}),
    "its history and its table": (LOGGED.replace("doc_log,", "doc_log, current: doc_now,"), "doc_now", "items", {}),
    "the aggregate": (DOCUMENTS.replace("name: doc", "name: sheet"), "sheet_current", "items", {}),
    "a child too": (LOGGED.replace("as: items", "as: parts"), "doc_current", "parts", {}),
    "a child's table too": (LOGGED.replace("table: lines", "table: rows"), "doc_current", "items", OF_ITEMS),
    "it loses a child too": ("{name: doc, history: doc_log, root: orders, children: []}", "doc_current", None, {}),
}
"""By what gets another name: the aggregate, its current table, its field with lines, and sources of tables."""


@pytest.mark.parametrize("renamed", RENAMED)
def test_an_aggregate_with_another_history_keeps_its_documents_without_messages(
    shop: EditedShop, tmp_path_factory: pytest.TempPathFactory, renamed: str
) -> None:
    aggregate, current, field, sources = RENAMED[renamed]
    histories = list[list[Row]]()
    for lake, forgets in ((shop, True), (EditedShop(tmp_path_factory.mktemp("whole")), False)):
        lake.declare(BOTH, [], [DOCUMENTS])
        fill(lake)
        first = lake.csn
        if forgets:
            lake.forget()
        before = lake.lake.rows("doc_stream")
        lake.declare(ITEMS if sources else BOTH, [], [aggregate], sources)
        history = lake.lake.pipeline.targets.aggregates[0].history
        if forgets:
            assert "rows out of doc_stream" in plans(lake)[history]
        lake.orders(4)
        lake.run()
        assert lake.shown(current) == documents(lake, field)
        assert states(lake) == {r.COMPLETE} and not open_findings(lake.lake.paths)
        assert lake.lake.rows("doc_stream") == before
        earlier = read.as_of(lake.lake.pipeline, current, csn=first, warehouse=lake.lake.warehouse).num_rows
        assert earlier == len(lake.source("orders", first))
        if not forgets:  # what messages make of the history
            rmtree(lake.lake.paths.table("doc_stream"))
            rmtree(lake.lake.paths.table(history))
            lake.run()
        histories.append(sorted(lake.lake.rows(history), key=str))
    assert histories[0] == histories[1]


def test_an_aggregate_goes_back_to_its_earlier_history_without_messages(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    for number, aggregate in enumerate((LOGGED, DOCUMENTS), 4):
        shop.forget()
        shop.declare(BOTH, [], [aggregate])
        shop.run()
        shop.orders(number)
        shop.run()
        assert shop.shown("doc_current") == shop.documents() and states(shop) == {r.COMPLETE}
    rows = [(row["_txloom_csn"], row["id"]) for row in shop.lake.rows("doc_stream")]
    assert len(rows) == len({*rows}) and {*rows} >= {
        (row["_txloom_csn"], row["id"]) for row in shop.lake.rows("doc_log")
    }


def test_a_copy_that_a_killed_run_made_is_not_made_again(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, [], [LOGGED])
    with mock.patch.object(settle, "settled_by", side_effect=Killed), pytest.raises(Killed):
        shop.run()
    copied = sorted(shop.lake.rows("doc_log"), key=str)
    shop.run()
    assert sorted(shop.lake.rows("doc_log"), key=str) == copied and len(copied) == len(shop.lake.rows("doc_stream"))
    assert shop.shown("doc_current") == shop.documents()


def test_a_child_that_no_history_has_still_needs_messages(shop: EditedShop) -> None:
    shop.declare(BOTH, [], ["{name: doc, root: orders, children: []}"])
    fill(shop)
    shop.forget()
    shop.declare(BOTH, [], [LOGGED])
    shop.run()
    assert {row["table"] for row in incomplete(shop)} == {"orders", "lines"} and shop.shown("doc_current") is None


def test_a_history_with_other_parents_is_not_copied(shop: EditedShop) -> None:
    shop.declare(BOTH, [], [DOCUMENTS])
    fill(shop)
    shop.declare(BOTH, [], [DOCUMENTS, BY_Q])
    shop.run()
    of_child = {row["id"]: {each["id"] for each in row["items"]} for row in shop.lake.rows("by_q_stream")}
    assert of_child[5] == {20}


CLEANED: dict[str, tuple[str, str, Callable[[EditedShop], None]]] = {
    "the history": (
        "lines",
        "log",
        lambda shop: shop.declare(BOTH, [OF_ORDERS, "{table: lines, history: log}"]),
    ),
    "the table": (
        "rows",
        "rows_changes",
        lambda shop: shop.declare(ITEMS, [OF_ORDERS, "{table: rows}"], sources=OF_ITEMS),
    ),
}


@pytest.mark.parametrize("renamed", CLEANED)
def test_a_cleaned_history_with_another_name_needs_no_messages(shop: EditedShop, renamed: str) -> None:
    table, history, edit = CLEANED[renamed]
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.clean()
    cleaned = shop.csn
    shop.forget()
    before = shop.lake.rows("lines_changes")
    edit(shop)
    assert f"{len(before)} rows out of lines_changes" in plans(shop)[history]
    shop.orders(4)
    shop.run()
    assert shop.shown(table) == shop.source("lines")
    assert states(shop) == {r.COMPLETE} and not open_findings(shop.lake.paths)
    assert [row for row in before if row not in shop.lake.rows(history)] == []

    def as_of(csn: int) -> list[Any]:
        rows = read.as_of(shop.lake.pipeline, table, csn=csn, warehouse=shop.lake.warehouse).to_pylist()
        return sorted(row["id"] for row in rows)

    assert as_of(cleaned) == [row["id"] for row in shop.source("lines", cleaned)]
    with pytest.raises(BeforeHistory, match=f"the history of {table} was cleaned up to {cleaned}"):
        as_of(cleaned - 10)


def test_a_history_is_marked_as_cleaned_before_it_gets_the_rows_of_a_cleaned_one(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.clean()
    cleaned = shop.csn
    shop.forget()
    shop.declare(BOTH, [OF_ORDERS, "{table: lines, history: log}"])
    with mock.patch.object(copying, "_write", side_effect=Killed), pytest.raises(Killed):
        shop.run()
    assert small_tables.last_written(shop.lake.paths.table("log"), CLEANED_UP_TO) == cleaned
    shop.run()
    assert shop.shown("lines") == shop.source("lines")
    assert len(shop.lake.rows("log")) == len(shop.lake.rows("lines_changes"))


def current_renamed(shop: EditedShop) -> str:
    shop.declare(BOTH, [OF_ORDERS, "{table: lines, current: now}"])
    return "now"


def folder_lost(shop: EditedShop) -> str:
    rmtree(shop.lake.paths.table("lines"))
    return "lines"


def history_renamed(shop: EditedShop) -> str:
    shop.forget()
    shop.declare(BOTH, [OF_ORDERS, "{table: lines, history: log, current: now}"])
    return "now"


@pytest.mark.parametrize("cause", [current_renamed, folder_lost, history_renamed])
def test_rows_that_cleaning_removed_were_seen(shop: EditedShop, cause: Callable[[EditedShop], str]) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.clean()
    name = cause(shop)
    shop.run()
    assert shop.shown(name) == shop.source("lines") and not open_findings(shop.lake.paths)
    # A change of a row that the source never sent is still found.
    shop.state["lines"][90] = {"id": 90, "o_id": 1, "q": 9}
    shop.commit(("U", "lines", {"id": 90, "q": 10}))
    shop.run()
    shown = [(row["code"], row["since_csn"]) for row in open_findings(shop.lake.paths)]
    assert shown == [(f.UNKNOWN_ROW, shop.csn)]


def test_a_row_that_was_never_seen_is_found_in_a_table_that_is_computed_again(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    fill(shop)
    shop.clean()
    shop.state["lines"][90] = {"id": 90, "o_id": 1, "q": 9}
    shop.commit(("U", "lines", {"id": 90, "q": 10}))
    name = current_renamed(shop)
    shop.run()
    assert shop.shown(name) == shop.source("lines")
    shown = [(row["code"], row["since_csn"]) for row in open_findings(shop.lake.paths)]
    assert shown == [(f.UNKNOWN_ROW, shop.csn)]
