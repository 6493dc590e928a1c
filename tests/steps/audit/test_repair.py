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


def load(shop: Shop, **chosen: Any) -> dict[str, Any]:
    return dict(repair(step_of(shop.pipeline, shop.warehouse, f"repair-{shop.runs}"), Chosen(**chosen)))


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
    assert (counts["tables"], counts["rows"], counts["left_out"], counts["more"]) == (2, len(VALUES) + 5, 0, 0)
    assert "landing" not in load(shop), "a repeated call lands nothing more"
    shop.caught_up()
    for name, rows in before.items():
        gone = [row for row in rows if any(key.items() <= row.items() for key in lost[name])]
        assert values(shop, name) == [row for row in rows if row not in gone]
    assert shop.audit_live()["differing"] == 0
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


def test_what_the_stream_says_after_the_audit_stands(shop: Shop) -> None:
    DeltaTable(shop.path("orders")).update(predicate="id in (5, 6, 7)", updates={"note": "'planted'"})
    shop.audit_live()
    shop.sql("UPDATE orders SET note = 'later' WHERE id = 5; DELETE FROM orders WHERE id = 6")
    shop.deliver_changes()
    assert load(shop, tables=["orders"])["rows"] == 3
    shop.caught_up()
    assert {row["id"]: row["note"] for row in shop.rows("orders") if row["id"] in (5, 6, 7)} == {5: "later", 7: "ž7"}
    assert shop.audit_live()["differing"] == 0


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
    with pytest.raises(ConfigurationError, match="the newest audit lists no rows that differ"):
        load(shop)
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'planted'"})
    shop.audit_live()
    with pytest.raises(ConfigurationError, match="no rows of lines that differ; it lists rows of orders"):
        load(shop, tables=["lines", "orders"])
    with pytest.raises(ConfigurationError, match="audit elsewhere lists no rows that differ"):
        load(shop, audit="elsewhere")
