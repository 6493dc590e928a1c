"""The rows that an audit found to differ are loaded as the source had them, and nothing else is."""

import json
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from steps.audit.test_audit import SLOT, Shop, shop
from txloom.errors import ConfigurationError
from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.steps.audit.undo_repair import undo_repair
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

__all__ = ["shop"]
VALUES = {
    "note": "'other'",
    "amount": "3.0001",
    "at": "timestamp '2020-01-01T00:00:00Z'",
    "day": "date '1970-01-01'",
    "weight": "1.4285714285714288",
    "ok": "null",
    "raw": "X'00fe'",
    "doc": "'{}'",
    "tags": "make_array('a', 'b')",
    "code": "'cd'",
    "at_time": "'23:59:59'",
    "uid": "'00000000-0000-0000-0000-000000000000'",
}
"""Another value of each column, as the lake's SQL writes it."""

LEFT = ("place=Läge 2, line=2", "place=Läge 33, line=33", "place=Läge 35, line=35")
"""Rows that were changed after their repair."""


def load(shop: Shop, allowed_rows: int | None = None, **chosen: Any) -> dict[str, Any]:
    step = step_of(shop.pipeline, shop.warehouse, f"repair-{shop.runs}")
    return dict(repair(step, Chosen(**chosen), allowed_rows))


def undo(shop: Shop, run_id: str) -> dict[str, Any]:
    return dict(undo_repair(step_of(shop.pipeline, shop.warehouse, "undo-of-repair"), run_id))


def values(shop: Shop, table: str) -> list[dict[str, Any]]:
    rows = [{name: row[name] for name in row if not name.startswith("_txloom_")} for row in shop.rows(table)]
    return sorted(rows, key=repr)


def test_rows_that_differ_are_loaded_and_the_next_audit_finds_all_equal(shop: Shop) -> None:
    before = {name: values(shop, name) for name in ("orders", "lines")}
    orders, lines = DeltaTable(shop.path("orders")), DeltaTable(shop.path("lines"))
    for key, (column, value) in enumerate(VALUES.items(), 10):
        orders.update(predicate=f"id = {key}", updates={column: value})
    orders.delete("id in (1, 2)")
    lines.delete("place = 'Läge 3' and line = 83")
    shop.sql("DELETE FROM orders WHERE id = 30; DELETE FROM lines WHERE line = 84")
    shop.sql("SELECT pg_logical_slot_get_changes('audited', NULL, NULL)")
    shop.audit_live()
    lost = {"orders": [{"id": 30}], "lines": [{"place": "Läge 4", "line": 84}]}
    counts = load(shop)
    assert (counts["tables"], counts["rows"], counts["more"]) == (2, len(VALUES) + 5, 0)
    assert (counts["changed_since"], counts["left_out"]) == (0, 0)
    assert "landing" not in load(shop), "a repeated call lands nothing more"
    shop.caught_up()
    for name, rows in before.items():
        gone = [row for row in rows if any(key.items() <= row.items() for key in lost[name])]
        assert values(shop, name) == [row for row in rows if row not in gone]
    assert shop.audit_live()["differing"] == 0
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


@pytest.mark.long
def test_what_the_source_says_after_the_audit_stands(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    DeltaTable(shop.path("orders")).update(predicate="id in (5, 6, 7)", updates={"note": "'planted'"})
    shop.audit_live()
    shop.sql("UPDATE orders SET note = 'later' WHERE id = 5; DELETE FROM orders WHERE id = 6")
    shop.deliver_changes()
    counts = load(shop, tables=["orders"])
    assert (counts["rows"], counts["changed_since"], counts["left_out"]) == (1, 2, 0)
    assert "orders: a row is left out: the source has other values by now: id=5" in caplog.text
    assert "orders: a row is left out: the source no longer has it: id=6" in caplog.text
    shop.caught_up()
    assert {row["id"]: row["note"] for row in shop.rows("orders") if row["id"] in (5, 6, 7)} == {5: "later", 7: "ž7"}
    assert shop.audit_live()["differing"] == 0


@pytest.mark.long
def test_what_the_stream_says_after_the_second_look_stands(shop: Shop) -> None:
    DeltaTable(shop.path("orders")).update(predicate="id in (5, 6, 7)", updates={"note": "'planted'"})
    shop.audit_live()
    assert load(shop, tables=["orders"])["rows"] == 3
    shop.sql("UPDATE orders SET note = 'later' WHERE id = 5; DELETE FROM orders WHERE id = 6")
    shop.caught_up()
    assert {row["id"]: row["note"] for row in shop.rows("orders") if row["id"] in (5, 6, 7)} == {5: "later", 7: "ž7"}
    assert shop.audit_live()["differing"] == 0


def test_rows_that_the_source_has_are_not_deleted_whatever_the_audit_found(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an audit that read an empty table: each row is extra, and the source has all of them."""
    before = values(shop, "lines")
    shop.sql("CREATE TABLE aside AS SELECT * FROM lines; DELETE FROM lines")
    shop.sql(SLOT)
    assert shop.audit_live(tables=["lines"])["differing"] == len(before)
    shop.sql("INSERT INTO lines SELECT * FROM aside; DROP TABLE aside")
    shop.sql(SLOT)
    counts = load(shop, allowed_rows=len(before))
    assert (counts["rows"], counts["changed_since"]) == (0, len(before)) and "landing" not in counts
    assert caplog.text.count("lines: a row is left out: the source has it: ") == len(before)
    shop.caught_up()
    assert values(shop, "lines") == before
    assert shop.audit_live(tables=["lines"])["differing"] == 0


@pytest.mark.long
def test_a_large_share_of_a_table_goes_only_with_a_persons_number_and_comes_back_when_it_is_undone(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    before, orders = values(shop, "lines"), values(shop, "orders")
    shop.sql("DELETE FROM lines WHERE line <= 31; INSERT INTO lines VALUES ('new', 1, 1)")
    shop.sql("UPDATE lines SET qty = -1 WHERE line BETWEEN 32 AND 40; DELETE FROM orders WHERE id = 9")
    shop.sql(SLOT)
    shop.audit_live()
    number = 40
    refused = (
        rf"lines: {number} of 200 rows \(20\.0%\) would be deleted or changed; audit\.repair\.max_share \(10%\) "
        rf"allows 20.*--allow-rows {number}"
    )
    for allowed in (None, number - 1):
        with pytest.raises(ConfigurationError, match=refused):
            load(shop, allowed)
    assert load(shop, tables=["orders"])["rows"] == 1, "a table below the limit needs no number"
    counts = load(shop, number)
    assert (counts["tables"], counts["rows"]) == (1, number + 1)
    repaired = f"repair-{shop.runs}"
    assert f"to undo it: jobs/repair.py --undo {repaired}" in caplog.text
    with pytest.raises(ConfigurationError, match="is not released yet"):
        undo(shop, repaired)
    shop.caught_up()
    assert shop.audit_live()["differing"] == 0
    shop.sql("UPDATE lines SET qty = 7 WHERE line = 33; UPDATE lines SET line = 1000 WHERE line = 35")
    shop.sql("INSERT INTO lines VALUES ('Läge 2', 2, 3)")
    shop.caught_up()
    undone = undo(shop, repaired)
    assert (undone["tables"], undone["rows"], undone["newer"]) == (2, number - 1, 3)
    assert all(f"left as it is: it was changed since: {key}" in caplog.text for key in LEFT)
    assert "landing" not in undo(shop, repaired), "a repeated call lands nothing more"
    shop.caught_up()
    changed = {2: 3, 33: 7, 35: None}
    stay = [row for row in before if row["line"] not in changed]
    moved = {"place": "Läge 35", "line": 1000, "qty": -1}
    later = [{"place": "Läge 2", "line": 2, "qty": 3}, {"place": "Läge 33", "line": 33, "qty": 7}, moved]
    assert values(shop, "lines") == sorted([*stay, *later], key=repr)
    assert values(shop, "orders") == orders
    again = undo(shop, "undo-of-repair")
    assert (again["rows"], again["newer"]) == (number - 1, 0), "an undo can be undone"
    shop.caught_up()
    assert {row["place"] for row in values(shop, "lines") if row["line"] <= 31} == {"Läge 2", "new"}
    assert shop.audit_live()["differing"] == 0
    with pytest.raises(ConfigurationError, match="run elsewhere landed no repair that could be undone"):
        undo(shop, "elsewhere")


def test_a_change_from_before_the_audit_that_comes_late_changes_nothing(shop: Shop) -> None:
    shop.sql("UPDATE orders SET note = 'lost' WHERE id = 5")
    lost = [row[0] for row in shop.sql(SLOT)]
    xid = json.loads(lost[0])["xid"]
    shop.sql("UPDATE orders SET note = 'newest' WHERE id = 5")
    shop.sql(SLOT)
    shop.audit_live()
    load(shop)
    (shop.folder / "inbox" / "shop" / "9999.jsonl").write_text("".join(f"{line}\n" for line in lost))
    shop.run()
    shop.caught_up()
    assert shop.query("transactions", f"select status from t where xid = '{xid}'") == [{"status": "released"}]
    assert [row["note"] for row in shop.rows("orders") if row["id"] == 5] == ["newest"]


def test_a_column_that_is_not_declared_keeps_what_it_has(shop: Shop) -> None:
    table = shop.pipeline.table("orders").model_copy(update={"undeclared_columns": "evolve"})
    others = [each for each in shop.pipeline.tables if each.name != "orders"]
    shop.pipeline = shop.pipeline.model_copy(update={"tables": (table, *others)})
    shop.sql("ALTER TABLE orders ADD COLUMN extra text")
    shop.sql("UPDATE orders SET extra = 'kept' WHERE id = 5")
    shop.caught_up()
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'planted'"})
    shop.audit_live()
    load(shop)
    shop.caught_up()
    assert [(row["note"], row["extra"]) for row in shop.rows("orders") if row["id"] == 5] == [("ž5", "kept")]


@pytest.mark.long
def test_a_row_that_the_declaration_cannot_hold_is_left_out_and_named(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.sql("UPDATE orders SET day = 'infinity' WHERE id = 5; UPDATE orders SET note = 'new' WHERE id = 6")
    shop.sql(SLOT)
    shop.audit_live()
    counts = load(shop)
    assert (counts["rows"], counts["left_out"]) == (1, 1)
    assert "orders: a row is left out: " in caplog.text and "id=5" in caplog.text
    shop.caught_up()
    assert shop.audit_live()["differing"] == 1


def test_where_nothing_differs_the_repair_says_so(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="the newest audit lists no rows that differ and can be repaired"):
        load(shop)
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'planted'"})
    shop.audit_live()
    with pytest.raises(
        ConfigurationError, match="no rows of lines that differ and can be repaired; it lists rows of orders"
    ):
        load(shop, tables=["lines", "orders"])
    with pytest.raises(ConfigurationError, match="audit elsewhere lists no rows that differ and can be repaired"):
        load(shop, audit="elsewhere")
