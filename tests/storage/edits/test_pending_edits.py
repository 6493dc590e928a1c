"""Between an edit and the next cycle, nothing is read or compared by names that histories do not have yet."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from called import step_of
from steps.settling.edited_shop import DOCUMENTS, LINE, LINES, ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill
from txloom import read
from txloom.cli import main
from txloom.errors import BeforeHistory, ConfigurationError, TxloomError
from txloom.steps.backfill.backfill import Range, backfill
from txloom.storage.declarations import records as r

LINES_AGAIN = {LINE: "{type: long, source: id}", "o_id": "long", "amount": "{type: long, source: q}"}
KEY_RENAMED = {"orders": ORDERS, "lines": LINES_AGAIN}
PLAIN_RENAMED = {"orders": ORDERS, "lines": {"id": "long", "o_id": "long", "amount": "{type: long, source: q}"}}
Targets = tuple[list[str], list[str]]
TARGETS: Targets = ([OF_ORDERS, OF_LINES], [DOCUMENTS])


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    made = EditedShop(tmp_path)
    made.declare(BOTH, *TARGETS)
    fill(made)
    return made


@pytest.mark.parametrize(("tables", "key"), [(KEY_RENAMED, LINE), (PLAIN_RENAMED, "id")], ids=["key", "plain column"])
@pytest.mark.parametrize("table", ["lines", "doc_current"])
def test_a_renamed_column_is_read_after_the_next_cycle(
    shop: EditedShop, tables: dict[str, dict[str, str]], key: str, table: str
) -> None:
    shop.declare(tables, *TARGETS, keys={"lines": f"[{key}]"})
    where = {"warehouse": str(shop.lake.paths.warehouse)}
    for pending in (lambda: read.as_of(shop.lake.pipeline, table, csn=shop.csn, **where), _intervals(shop, table)):
        with pytest.raises(
            BeforeHistory, match=r"lines was edited, and lines_changes has (line, )?amount only after the next"
        ):
            pending()
    shop.run()
    assert read.as_of(shop.lake.pipeline, table, csn=shop.csn, **where).num_rows == len(shop.lake.rows(table))
    current = _intervals(shop, table)()
    if table == "lines":
        values = {row[key]: row["amount"] for row in current.to_pylist() if row["_txloom_is_current"]}
        assert values == {row["id"]: row["q"] for row in shop.source("lines")}


def test_a_new_name_of_a_key_is_compared_and_looked_up_after_the_next_cycle(
    shop: EditedShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.declare(KEY_RENAMED, *TARGETS, keys={"lines": f"[{LINE}]"})
    step = step_of(shop.lake.pipeline, str(shop.lake.paths.warehouse), "early")
    with pytest.raises(ConfigurationError, match="the key of lines under earlier names, not yet as line: run a cycle"):
        backfill(step, "rebuild")
    for question in (["--csn", "120"], ["--key", "lines", "line=20"]):
        capsys.readouterr()
        command = ["explain", str(shop.folder / "shop.yaml"), *question, "--warehouse", str(shop.lake.paths.warehouse)]
        assert main(command) == 2
        assert "the key of lines under earlier names, not yet as line: run a cycle" in capsys.readouterr().err
    shop.run()
    assert main(command) == 0


def test_a_key_that_swaps_names_with_a_column_is_compared_after_the_next_cycle(shop: EditedShop) -> None:
    swapped = {"q": "{type: long, source: id}", "o_id": "long", "id": "{type: long, source: q}"}
    shop.declare({"orders": ORDERS, "lines": swapped}, *TARGETS, keys={"lines": "[q]"})
    with pytest.raises(ConfigurationError, match="the key of lines under earlier names, not yet as q: run a cycle"):
        backfill(step_of(shop.lake.pipeline, str(shop.lake.paths.warehouse), "early"), "rebuild")
    shop.run()
    rows = shop.lake.rows("lines", dict(shop.cut["versions"])["lines"])
    assert {row["q"]: row["id"] for row in rows} == {row["id"]: row["q"] for row in shop.source("lines")}


def test_a_history_is_cleaned_by_the_present_key_after_the_next_cycle(shop: EditedShop) -> None:
    before = len(shop.lake.rows("lines_changes"))
    shop.declare(KEY_RENAMED, *TARGETS, keys={"lines": f"[{LINE}]"})
    shop.clean()
    assert len(shop.lake.rows("lines_changes")) == before
    shop.lake.land()
    shop.lake.buffer()
    shop.clean()
    assert len(shop.lake.rows("lines_changes")) == before
    shop.run()
    shop.clean()
    left = shop.lake.rows("lines_changes")
    assert len(left) < before
    assert all(row[LINE] for row in left)


def _intervals(shop: EditedShop, table: str) -> Callable[[], pa.Table]:
    return lambda: read.intervals(shop.lake.pipeline, table, warehouse=str(shop.lake.paths.warehouse))


def test_an_edit_of_one_table_keeps_no_row_of_another_from_being_looked_up(
    shop: EditedShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.declare(KEY_RENAMED, [OF_ORDERS, OF_LINES], keys={"lines": f"[{LINE}]"})
    assert explain(shop, "--key", "orders", "id=1") == 0
    assert explain(shop, "--key", "lines", "line=20") == 2
    step = step_of(shop.lake.pipeline, shop.lake.warehouse, "orders alone")
    assert backfill(step, "rebuild", Range(tables=["orders"]))["transactions"] > 0


def test_a_renamed_key_is_looked_up_and_compared_while_messages_are_waited_for(
    shop: EditedShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    new = ("I", "orders", {"id": 7, "total": 7}), ("I", "lines", {"id": 70, "o_id": 7, "q": 7})
    held = shop.commit(*new, late=["lines"])
    shop.run()
    shop.declare(KEY_RENAMED, TARGETS[0], keys={"lines": f"[{LINE}]"})
    shop.run()
    assert shop.states_of()["lines_changes", "lines"].newest.status == r.WAITING
    capsys.readouterr()
    assert explain(shop, "--key", "lines", "line=20") == 0
    shown = capsys.readouterr().out
    assert "no row is known, because its history lacks changes" in shown
    assert "amount: 2 -> 5" in shown
    assert explain(shop, "--csn", "120") == 0
    assert "line=20" in capsys.readouterr().out
    early = step_of(shop.lake.pipeline, shop.lake.warehouse, "early", shop.lake.session)
    assert backfill(early, "rebuild")["transactions"] > 0
    assert backfill(early, "compare")["changes"] == 0
    assert {row["table"] for row in shop.lake.rows("backfills")} == {None, "orders", "orders_changes"}
    with pytest.raises(ConfigurationError, match="rows of lines lack the new names of the key until the messages"):
        backfill(early, "rebuild", Range(tables=["lines"]))
    backfill(early, "drop")
    shop.send("lines", *held["lines"])
    shop.run()
    rows = shop.shown("lines") or []
    assert {row[LINE]: row["amount"] for row in rows} == {row["id"]: row["q"] for row in shop.source("lines")}
    late = step_of(shop.lake.pipeline, shop.lake.warehouse, "late", shop.lake.session)
    backfill(late, "rebuild")
    assert backfill(late, "compare")["changes"] == 0


def explain(shop: EditedShop, *question: str) -> int:
    """Return the exit code of `txloom explain`."""
    return main(["explain", str(shop.folder / "shop.yaml"), *question, "--warehouse", shop.lake.warehouse])


def test_a_table_and_its_key_that_get_other_names_at_once_are_read_after_the_next_cycle(shop: EditedShop) -> None:
    mirrors, name = [OF_ORDERS, "{table: items, history: lines_changes}"], "items"
    renamed = {"orders": ORDERS, name: LINES_AGAIN}
    shop.declare(renamed, mirrors, sources={name: "APP.LINES"}, keys={name: f"[{LINE}]"})
    for pending in (_as_of(shop, name), _intervals(shop, name)):
        with pytest.raises(BeforeHistory, match="items was edited, and lines_changes has line, amount only after"):
            pending()
    assert explain(shop, "--key", name, "line=20") == 2
    with pytest.raises(ConfigurationError, match="the key of items under earlier names, not yet as line: run a cycle"):
        backfill(step_of(shop.lake.pipeline, shop.lake.warehouse, "early"), "rebuild")
    shop.run()
    assert _as_of(shop, name)().num_rows == len(shop.source("lines"))


@pytest.mark.parametrize(
    ("table", "tables", "targets", "keys", "lacking"),
    [
        ("orders", {"orders": {**ORDERS, "total": "'decimal(38,0)'"}, "lines": LINES}, TARGETS, {}, "total"),
        (
            "orders",
            BOTH,
            ([OF_ORDERS], []),
            {"orders": "[id, total]"},
            "the rows of its new source, key, dropped_columns or source.debezium",
        ),
        ("doc_current", BOTH, ([], [DOCUMENTS.replace("items", "parts")]), {}, "parts"),
        ("log_current", BOTH, ([], ["{name: log, root: orders, children: []}"]), {}, "the rows of orders"),
    ],
    ids=["type", "key", "field", "history"],
)
def test_a_history_is_read_as_declared_after_the_next_cycle(
    shop: EditedShop,
    table: str,
    tables: dict[str, dict[str, str]],
    targets: Targets,
    keys: dict[str, str],
    lacking: str,
) -> None:
    shop.declare(tables, *targets, keys=keys)
    for pending in (_as_of(shop, table), _intervals(shop, table)):
        with pytest.raises(BeforeHistory, match=f"has {lacking} only after the next cycle"):
            pending()
    shop.run()
    assert _as_of(shop, table)().num_rows == len(shop.source("orders"))


def test_a_text_that_was_taken_up_is_read_as_the_declared_array_after_the_next_cycle(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": {"id": "long"}}, [OF_ORDERS], evolve="orders")
    shop.commit(("I", "orders", {"id": 1, "tags": ["a", "b"]}))
    shop.run()
    assert [row["tags"] for row in _as_of(shop, "orders")().to_pylist()] == ['["a", "b"]']
    shop.declare({"orders": {"id": "long", "tags": "'array<string>'"}}, [OF_ORDERS])
    for pending in (_as_of(shop, "orders"), _intervals(shop, "orders")):
        with pytest.raises(BeforeHistory, match="orders_changes has tags only after the next cycle"):
            pending()
    shop.run()
    assert [row["tags"] for row in _as_of(shop, "orders")().to_pylist()] == [["a", "b"]]


@pytest.mark.parametrize(
    ("tables", "documents", "error"),
    [
        (PLAIN_RENAMED, DOCUMENTS, "lines_changes has amount only after the next cycle"),
        (BOTH, DOCUMENTS.replace("relation: many", "relation: one"), "doc_current has not taken up its declaration"),
    ],
    ids=["rows", "documents"],
)
def test_a_backfill_compares_a_table_as_it_is_declared_after_the_next_cycle(
    tmp_path: Path, tables: dict[str, dict[str, str]], documents: str, error: str
) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, *TARGETS)
    shop.orders(1, 2)
    shop.run()
    shop.declare(tables, TARGETS[0], [documents])
    step = step_of(shop.lake.pipeline, shop.lake.warehouse, "early", shop.lake.session)
    with pytest.raises(TxloomError, match=error):
        backfill(step, "rebuild")
    shop.run()
    backfill(step, "rebuild")
    assert backfill(step, "compare")["changes"] == 0


def test_a_backfill_moves_earlier_changes_of_a_child_to_the_parents_that_another_key_gives_them(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, *TARGETS)
    shop.orders(1, 2)
    shop.run()
    shop.declare(BOTH, TARGETS[0], [DOCUMENTS.replace("[o_id]", "[id]")])
    step = step_of(shop.lake.pipeline, shop.lake.warehouse, "early", shop.lake.session)
    with pytest.raises(TxloomError, match="doc_current has not taken up its declaration yet: run a cycle"):
        backfill(step, "rebuild")
    shop.run()
    shown = shop.shown("doc_current")
    for changes in (4, 0):
        backfill(step, "rebuild")
        counts = backfill(step, "compare")
        assert (counts["changes"], counts["missing"] + counts["different"]) == (changes, changes)
        backfill(step, "apply")
    assert shop.shown("doc_current") == shown == [{"id": n, "total": n, "items": []} for n in (1, 2)]


def _as_of(shop: EditedShop, table: str) -> Callable[[], pa.Table]:
    return lambda: read.as_of(shop.lake.pipeline, table, csn=shop.csn, warehouse=shop.lake.warehouse)
