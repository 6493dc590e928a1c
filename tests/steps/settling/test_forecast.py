"""What `txloom plan` says of an edit is what the next cycle does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill
from txloom import read
from txloom.errors import ConfigurationError
from txloom.steps.settling.forecast import Forecast, forecast
from txloom.steps.settling.planned_tables import PlannedTable, planned_tables
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import incomplete_tables
from txloom.storage.views.pipeline import problems
from txloom.storage.views.pipeline.histories import histories

MIRRORS = [OF_ORDERS, OF_LINES]
NOTED = {"orders": {**ORDERS, "note": "string"}, "lines": LINES}
RENAMED = {"orders": {"id": "long", "amount": "{type: long, source: total}"}, "lines": LINES}
NO_CHILD = "{name: doc, root: orders, children: []}"
NARROW = {"orders": {"id": "long", "total": "int"}, "lines": {**LINES, "q": "int"}}
KEYED = {"orders": {"id": "long"}, "lines": LINES}


def shop_of(folder: Path, mirrors: list[str], aggregates: list[str], tables: dict[str, dict[str, str]]) -> EditedShop:
    shop = EditedShop(folder)
    shop.declare(tables, mirrors, aggregates)
    fill(shop)
    return shop


def _add_again(shop: EditedShop) -> None:
    """Remove the mirror of lines, run a cycle without it, and declare it again."""
    shop.declare(BOTH, [OF_ORDERS])
    shop.orders(9)
    shop.run()
    shop.declare(BOTH, MIRRORS)


EDITS: dict[str, tuple[list[str], list[str], Callable[[EditedShop], None]]] = {
    "mirror": ([OF_ORDERS], [], lambda shop: shop.declare(BOTH, MIRRORS)),
    "mirror of a document's member": ([], [DOCUMENTS], lambda shop: shop.declare(BOTH, [OF_LINES], [DOCUMENTS])),
    "child that has a mirror": (MIRRORS, [NO_CHILD], lambda shop: shop.declare(BOTH, MIRRORS, [DOCUMENTS])),
    "documents": (MIRRORS, [], lambda shop: shop.declare(BOTH, MIRRORS, [DOCUMENTS])),
    "column": (MIRRORS, [], lambda shop: shop.declare(NOTED, MIRRORS)),
    "renamed column": (MIRRORS, [DOCUMENTS], lambda shop: shop.declare(RENAMED, MIRRORS, [DOCUMENTS])),
    "removed column": (MIRRORS, [DOCUMENTS], lambda shop: shop.declare(KEYED, MIRRORS, [DOCUMENTS])),
    "removed mirror": (MIRRORS, [], lambda shop: shop.declare(BOTH, [OF_ORDERS])),
    "wider columns": (MIRRORS, [], lambda shop: shop.declare(BOTH, MIRRORS)),
    "wider columns of documents": ([], [DOCUMENTS], lambda shop: shop.declare(BOTH, [], [DOCUMENTS])),
    "renamed child": ([], [DOCUMENTS], lambda shop: shop.declare(BOTH, [], [DOCUMENTS.replace("items", "parts")])),
    "mirrors of documents removed": (MIRRORS, [DOCUMENTS], lambda shop: shop.declare(BOTH, [], [DOCUMENTS])),
    "mirror added again": (MIRRORS, [], _add_again),
    "other key": (MIRRORS, [], lambda shop: shop.declare(BOTH, MIRRORS, keys={"lines": "[id, o_id]"})),
    "other source": (MIRRORS, [], lambda shop: shop.declare(BOTH, MIRRORS, sources={"lines": "APP.OTHER"})),
    "nothing": (MIRRORS, [DOCUMENTS], lambda shop: None),
}


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("name", EDITS)
def test_what_a_plan_says_is_what_the_next_cycle_does(tmp_path: Path, name: str, forgets: bool) -> None:
    mirrors, aggregates, edit = EDITS[name]
    shop = shop_of(tmp_path, mirrors, aggregates, NARROW if name.startswith("wider") else BOTH)
    if forgets:
        shop.forget()
    edit(shop)
    expected, planned = forecast(shop.lake.pipeline, shop.lake.paths), _planned(shop)
    before = {history: _rows(shop, history) for history, _ in expected.made}
    versions = {table.name: _version(shop, table.name) for table in planned}
    shop.run()
    rewritten = {name: _overwritten(shop, name, version) for name, version in versions.items() if version is not None}
    for table in planned:
        if table.name in rewritten and table.state.startswith(("renames", "is written anew")):
            assert (table.rows, table.seconds) == (sum(rewritten[table.name]), 1), table
        elif "every" in table.what and table.state == "as it is":
            assert not rewritten[table.name], table
    states = shop.states_of()
    assert [*expected.incomplete] == incomplete_tables(shop.lake.pipeline, states)
    assert len(expected.anew) == _merged(shop).get("anew", 0)
    assert len(shop.lake.rows("findings")) == len(expected.incomplete)
    assert {pair for pair, each in expected.made.items() if each.missing.transactions} == {
        pair for pair, state in states.items() if not state.is_complete and state.newest.status != r.LEFT_OUT
    }
    for (history, _), made in expected.made.items():
        assert made.rows + made.staying == _rows(shop, history), history
        assert made.rows or made.replaced or made.staying == before[history]
    left = Forecast(left_out=expected.left_out, incomplete=expected.incomplete, waiting=expected.waiting)
    assert forecast(shop.lake.pipeline, shop.lake.paths) == left


def _version(shop: EditedShop, table: str) -> int | None:
    """Return the version of a table; None: it does not exist."""
    path = shop.lake.paths.table(table)
    return DeltaTable(path).version() if DeltaTable.is_deltatable(path) else None


def _overwritten(shop: EditedShop, table: str, since: int) -> list[int]:
    """Return how many rows each commit wrote that replaced all rows of a table after a version."""
    log = Path(shop.lake.paths.table(table)) / "_delta_log"
    written = list[int]()
    for version in range(since + 1, DeltaTable(log.parent).version() + 1):
        actions = [json.loads(line) for line in (log / f"{version:020}.json").read_text().splitlines()]
        if any(each["commitInfo"]["operationParameters"].get("mode") == "Overwrite" for each in actions[:1]):
            written.append(sum(json.loads(each["add"]["stats"])["numRecords"] for each in actions if "add" in each))
    return written


def _rows(shop: EditedShop, table: str) -> int:
    return len(shop.lake.rows(table))


def _merged(shop: EditedShop) -> dict[str, int]:
    """Return the counts of the newest merge."""
    ledger = [row for row in shop.lake.rows("ledger") if row["step"] == "merge_current"]
    return dict(max(ledger, key=lambda row: row["entered"])["counts"])


def test_a_table_says_what_becomes_of_it_with_rows(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [], BOTH)
    shop.declare(RENAMED, MIRRORS)
    planned = {table.name: (table.state, table.rows) for table in _planned(shop)}
    assert planned == {
        "orders": ("is computed anew from 4 rows; renames total to amount", 4),
        "orders_changes": ("renames total to amount", 4),
        "lines": ("new", 5),
        "lines_changes": ("new; gets 5 rows from messages", 5),
    }
    shop.forget()
    missing = "of 5 transactions (csn 110 to 150), messages are not kept any more, or cannot be read"
    planned = {table.name: (table.state, table.rows) for table in _planned(shop)}
    assert planned["lines"] == ("new; left out of cuts until a snapshot is loaded", 0)
    refused = "after that, read.as_of refuses every csn below it"
    assert planned["lines_changes"] == (f"new; needs a snapshot: {missing}; {refused}", 0)
    shop.declare(BOTH, [OF_LINES])
    stays = {table.name: table.state for table in _planned(shop) if table.what == "no longer declared"}
    assert stays == {
        "orders": "leaves the cuts; its folder stays as it is, and gets nothing more",
        "orders_changes": "stays, and gets nothing more",
    }


def test_documents_say_what_becomes_of_the_columns_of_their_children(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [DOCUMENTS], BOTH)
    more = {"id": "long", "o_id": "long", "number": "{type: long, source: q}", "note": "string"}
    shop.declare({"orders": RENAMED["orders"], "lines": more}, [OF_ORDERS], [DOCUMENTS])
    (state,) = (table.state for table in _planned(shop) if table.name == "doc_current")
    assert state == "is computed anew from 8 rows; renames total to amount, items.q to items.number; gets items.note"
    shop.run()
    shop.declare({"orders": RENAMED["orders"], "lines": LINES}, [OF_ORDERS], [DOCUMENTS])
    (state,) = (table.state for table in _planned(shop) if table.name == "doc_current")
    assert state == "is computed anew from 8 rows; renames items.number to items.q; loses items.note"


def test_a_table_whose_messages_may_still_arrive_asks_for_no_snapshot(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [], BOTH)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.run()
    shop.commit(("I", "orders", {"id": 8, "total": 8}), ("I", "lines", {"id": 80, "o_id": 8, "q": 8}), late=["lines"])
    shop.run()
    shop.declare(BOTH, MIRRORS)
    for _ in ("before the cycle", "after it"):
        (state,) = (table.state for table in _planned(shop) if table.name == "lines")
        until = "the missing messages arrive or, if they do not arrive within 30m, a snapshot is loaded"
        assert state.endswith(f"left out of cuts until {until}")
        shop.run()


def test_a_snapshot_that_was_loaded_and_waits_for_the_stream_is_not_asked_for_again(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [], BOTH)
    shop.forget()
    shop.declare(BOTH, MIRRORS)
    shop.run()
    missing = "of 5 transactions (csn 110 to 150), messages are not kept any more, or cannot be read"
    assert _states_of_lines(shop) == ("left out of cuts until a snapshot is loaded", missing)
    folder = shop.export("lines")
    shop.lake.step(load_snapshot, shop.lake.session, Snapshot(folder, 140, ahead=True))
    assert _states_of_lines(shop)[0] == "left out of cuts until a snapshot is loaded", "below the last missing csn"
    shop.csn += 10
    shop.lake.step(load_snapshot, shop.lake.session, Snapshot(folder, shop.csn, ahead=True))
    shop.run()
    reached = f"the stream reaches csn {shop.csn}, as of which a snapshot has been loaded"
    (finding,) = problems.open_findings(shop.lake.pipeline, shop.lake.warehouse).rows
    assert finding["hint"] == f"No action is needed: the table is complete, and this finding closes, when {reached}."
    assert _states_of_lines(shop) == (
        f"left out of cuts until {reached}",
        f"{missing}. The table is not complete until {reached}",
    )
    shop.orders(9)
    shop.run()
    assert _states_of_lines(shop) == ("as it is", None)
    assert shop.shown("lines") == shop.source("lines")


def test_a_snapshot_that_a_history_was_made_again_without_is_not_awaited(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_LINES], [], BOTH)
    shop.load("orders")
    shop.forget()
    shop.declare(BOTH, MIRRORS)
    for _ in ("before the cycle", "after it"):
        (state,) = (table.state for table in _planned(shop) if table.name == "orders")
        assert state.endswith("left out of cuts until a snapshot is loaded")
        shop.run()
    shop.load("orders")
    assert shop.shown("orders") == shop.source("orders")


def test_a_snapshot_that_waits_for_the_stream_is_awaited_before_the_cycle_that_follows_the_edit(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_LINES], [], BOTH)
    shop.forget()
    folder = shop.export("orders")
    shop.csn += 10
    shop.lake.step(load_snapshot, shop.lake.session, Snapshot(folder, shop.csn, ahead=True))
    shop.run()
    reached = f"until the stream reaches csn {shop.csn}, as of which a snapshot has been loaded"
    shop.declare(BOTH, MIRRORS)
    for _ in ("before the cycle", "after it"):
        (state,) = (table.state for table in _planned(shop) if table.name == "orders")
        assert state.endswith(reached)
        shop.run()
    shop.orders(9)
    shop.run()
    assert shop.shown("orders") == shop.source("orders")


def _states_of_lines(shop: EditedShop) -> tuple[str, str | None]:
    """Return the planned state of lines, and the description of what lines_changes lacks."""
    planned = {table.name: table.state for table in _planned(shop)}
    rows = histories(shop.lake.pipeline, str(shop.lake.paths.warehouse)).rows
    lacking = {row["history"]: row["missing"] for row in rows}
    return planned["lines"], lacking["lines_changes"]


def test_transactions_that_are_decoded_again_are_named(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [], {"orders": ORDERS})
    shop.commit(("I", "orders", {"id": 8, "total": 8}), ("I", "lines", {"id": 80, "o_id": 8, "q": 8}), late=["orders"])
    shop.run()
    assert not any(table.name == "change_events" for table in _planned(shop))
    shop.declare(BOTH, MIRRORS)
    (again,) = (table.state for table in _planned(shop) if table.name == "change_events")
    assert again == "messages of 1 transaction that may still wait are decoded again"
    shop.run()
    assert not any(table.name == "change_events" for table in _planned(shop))


def test_a_wider_column_of_a_document_is_named_with_its_field(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [], [DOCUMENTS], NARROW)
    shop.declare(BOTH, [], [DOCUMENTS])
    assert {table.name: table.state for table in _planned(shop)} == {
        "doc_current": "is written anew: total from int to long, items.q from int to long",
        "doc_stream": "is written anew: orders.total from int to long, items.q from int to long",
    }


def test_a_child_whose_rows_a_mirror_has_needs_no_snapshot(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, MIRRORS, [NO_CHILD], BOTH)
    shop.forget()
    shop.declare(BOTH, MIRRORS, [DOCUMENTS])
    says = (
        "doc_stream lacks changes of lines below csn 151; no action is needed: documents are computed from "
        "lines_changes, and are correct as of every csn that lines_changes covers"
    )
    planned = {table.name: table.state for table in _planned(shop)}
    assert planned["doc_stream"] == f"gets items; {says}"
    shop.run()
    where = (shop.lake.pipeline, shop.lake.paths.warehouse)
    missing = {row["history"]: row["missing"] for row in histories(*where).rows if row["missing"]}
    gone = "of 5 transactions (csn 110 to 150), messages are not kept any more, or cannot be read"
    assert missing == {"doc_stream": f"{gone}. {says}"}
    assert shop.shown("doc_current") == shop.documents()
    earlier = read.as_of(shop.lake.pipeline, "doc_current", csn=120, warehouse=where[1])
    assert earlier.num_rows == len(shop.source("orders", 120))


def test_a_column_of_an_earlier_edit_is_not_named_again(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, MIRRORS, [], BOTH)
    for tables in (RENAMED, BOTH):
        shop.declare(tables, MIRRORS)
        assert any("total" in table.state and "amount" in table.state for table in _planned(shop))
        shop.run()
    assert {table.state for table in _planned(shop)} == {"as it is"}
    shop.declare(NOTED, MIRRORS)
    assert not any("amount" in table.state for table in _planned(shop))
    shop.declare(KEYED, MIRRORS)
    kept = {table.name: table.state for table in _planned(shop)}
    assert kept["orders_changes"] == "keeps total with the earlier values"


def test_a_refused_edit_is_named_with_its_line(tmp_path: Path) -> None:
    shop = shop_of(tmp_path, [OF_ORDERS], [], BOTH)
    shop.declare(BOTH, ["{table: orders, partition_by: total}"])
    with pytest.raises(ConfigurationError) as refused:
        _planned(shop)
    assert str(refused.value).startswith(
        f"{tmp_path}/shop.yaml:10: targets.mirrors[0].partition_by: found total, expected nothing. The rows of orders"
    )


def _planned(shop: EditedShop) -> list[PlannedTable]:
    return planned_tables(shop.lake.pipeline, shop.lake.paths.warehouse, str(shop.folder / "shop.yaml"))
