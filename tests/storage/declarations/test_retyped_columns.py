"""Edits of a column's type: rows of before have the values that a lake of the new declaration alone would have."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from steps.settling.edited_shop import DOCUMENTS, LINES, EditedShop, Row
from steps.settling.test_settle import OF_LINES, OF_ORDERS
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.quality.findings import INCOMPLETE
from txloom.steps.settling.planned_tables import planned_tables
from txloom.storage.checks import findings
from workloads.small_lake import SmallLake

MIRRORS = (OF_ORDERS, OF_LINES)
LOWER, UPPER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12"
THIRD = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A13"
EDITS = {
    "string to uuid": ("string", "uuid", [LOWER, UPPER]),
    "uuid to string": ("uuid", "string", [LOWER, UPPER]),
    "string to time": ("string", "time", ["12:00:00.500000", "08:00:00"]),
    "time to string": ("time", "string", ["12:00:00.500000"]),
    "float to double": ("float", "double", [0.1, 2.5]),
    "array of string to uuid": ("array<string>", "array<uuid>", [[UPPER]]),
    "array of float to double": ("array<float>", "array<double>", [[0.1]]),
    "string to long": ("string", "long", ["007", "12"]),
    "string to decimal": ("string", '"decimal(10,2)"', [1.5, "2.50"]),
    "string to timestamptz": ("string", "timestamptz", ["2026-01-01 10:00:00+02:00"]),
    "string to json": ("string", "json", ['{"b":  1, "a": 2}']),
    "int to double": ("int", "double", [3]),
    "int to decimal": ("int", '"decimal(12,2)"', [7]),
    "decimal to decimal": ('"decimal(10,2)"', '"decimal(20,4)"', [1.25]),
}


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def declare(shop: EditedShop, kind: str) -> None:
    shop.declare({"orders": {"id": "long", "total": kind}, "lines": LINES}, MIRRORS, [DOCUMENTS])


def fill(shop: EditedShop, values: Sequence[Any]) -> None:
    for value in values:
        shop.commit(("I", "orders", {"id": shop.csn, "total": value}))


def rows(lake: SmallLake, table: str) -> list[Row]:
    """Return the rows of a table in the newest cut, without txloom's columns."""
    cut = max(lake.rows("cuts"), key=lambda each: int(each["cut_id"]))
    shown = lake.rows(table, dict(cut["versions"])[table])
    plain = ({name: value for name, value in row.items() if not name.startswith("_txloom_")} for row in shown)
    return sorted(plain, key=lambda row: str(row["id"]))


def fresh(shop: EditedShop) -> SmallLake:
    """Return a lake of the present declaration alone, over all messages."""
    folder = shop.folder / "fresh"
    folder.mkdir()
    lake = SmallLake(folder, load(shop.folder / "shop.yaml"))
    for _ in range(3):
        lake.run()
    return lake


@pytest.mark.parametrize("edit", EDITS)
def test_tables_are_those_of_a_lake_without_the_edit(shop: EditedShop, edit: str) -> None:
    before, after, values = EDITS[edit]
    declare(shop, before)
    fill(shop, values)
    shop.run()
    declare(shop, after)
    fill(shop, values)
    shop.run()
    other = fresh(shop)
    for table in ("orders", "doc_current"):
        assert rows(shop.lake, table) == rows(other, table)
    assert not findings.open_findings(shop.lake.paths)


@pytest.mark.parametrize("kinds", [("string", "uuid"), ("uuid", "string")])
def test_a_key_of_another_type_finds_its_rows(shop: EditedShop, kinds: tuple[str, str]) -> None:
    def declare_key(kind: str) -> None:
        tables = {
            "orders": {"id": kind, "total": "long"},
            "lines": {"id": "long", "o_id": kind, "q": "long"},
        }
        shop.declare(tables, MIRRORS, [DOCUMENTS])

    declare_key(kinds[0])
    for number, key in enumerate((LOWER, UPPER, THIRD)):
        shop.commit(
            ("I", "orders", {"id": key, "total": number}),
            ("I", "lines", {"id": number, "o_id": key, "q": number}),
        )
    shop.run()
    declare_key(kinds[1])
    shop.commit(("U", "orders", {"id": UPPER, "total": 100}))
    shop.commit(("D", "orders", THIRD))  # type: ignore[arg-type]  # its key is a text here
    shop.run()
    other = fresh(shop)
    for table in ("orders", "lines", "doc_current"):
        assert rows(shop.lake, table) == rows(other, table)
    assert not findings.open_findings(shop.lake.paths)


def test_a_column_that_comes_back_as_another_type_is_read_as_that_type(shop: EditedShop) -> None:
    declare(shop, "string")
    fill(shop, [UPPER])
    shop.run()
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, MIRRORS, [DOCUMENTS])
    fill(shop, [UPPER])
    shop.run()
    declare(shop, "uuid")
    shop.run()
    assert rows(shop.lake, "orders") == rows(fresh(shop), "orders")


def test_a_type_that_is_taken_back_leaves_no_value_of_it(shop: EditedShop) -> None:
    declare(shop, "string")
    fill(shop, [UPPER])
    shop.run()
    declare(shop, "uuid")
    fill(shop, [UPPER])
    shop.lake.land()
    shop.lake.buffer()
    declare(shop, "string")
    shop.run()
    assert [row["total"] for row in rows(shop.lake, "orders")] == [UPPER, UPPER]


def test_a_column_that_was_taken_up_as_text_is_read_as_the_declared_type(shop: EditedShop) -> None:
    shop.declare({"orders": {"id": "long"}, "lines": LINES}, MIRRORS, [DOCUMENTS], evolve="orders")
    fill(shop, [UPPER])
    shop.run()
    shop.run()
    declare(shop, "uuid")
    fill(shop, [LOWER])
    shop.run()
    assert [row["total"] for row in rows(shop.lake, "orders")] == [UPPER.lower(), LOWER]


def test_without_messages_the_table_needs_a_snapshot_and_no_cut_mixes_spellings(shop: EditedShop) -> None:
    declare(shop, "string")
    fill(shop, [UPPER])
    shop.run()
    shop.forget()
    declare(shop, "uuid")
    fill(shop, [LOWER])
    shop.run()
    assert {row["table"] for row in findings.open_findings(shop.lake.paths)} == {"orders"}
    assert {row["code"] for row in findings.open_findings(shop.lake.paths)} == {INCOMPLETE}
    assert shop.shown("orders") is None
    shop.load("orders", shop.csn)
    shop.run()
    shop.commit(("I", "lines", {"id": 1, "o_id": 1, "q": 1}))
    shop.run()
    assert [row["total"] for row in rows(shop.lake, "orders")] == [UPPER.lower(), LOWER]


@pytest.mark.parametrize(
    ("kind", "text"), [("int", "abc"), ("time", "12:00"), ("uuid", "no uuid"), ('"array<long>"', "{1,x}")]
)
def test_a_type_that_cannot_read_a_text_is_refused_before_anything_is_written(
    shop: EditedShop, kind: str, text: str
) -> None:
    declare(shop, "string")
    fill(shop, [text])
    shop.run()
    known = shop.lake.rows("completeness")
    declare(shop, kind)
    fill(shop, [None])
    message = f"expected a type that reads '{text}', such as string. orders_changes has this text in csn 110."
    shop.lake.land()
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        shop.lake.buffer()
    with pytest.raises(
        ConfigurationError, match=r"shop.yaml:\d+: tables\[0\].columns.total: found .*" + re.escape(message)
    ):
        list(planned_tables(shop.lake.pipeline, shop.lake.paths.warehouse, str(shop.folder / "shop.yaml")))
    assert shop.lake.rows("completeness") == known
    declare(shop, "string")
    shop.run()
    assert [row["total"] for row in rows(shop.lake, "orders")] == [text, None]
