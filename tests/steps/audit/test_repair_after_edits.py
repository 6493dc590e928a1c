"""A repair loads the rows of an audit only if the declaration of their table has not changed since the audit."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from called import step_of
from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from txloom.errors import ConfigurationError
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.storage.delta import small_tables
from txloom.storage.system_tables import AUDIT_RESULTS

EDITED = "the declaration was edited since the audit of orders (audit audit): audit again, then repair"
OTHER_COLUMNS = {"id": "long", "amount": "{type: long, source: total}"}


def declare(
    shop: EditedShop, name: str = "orders", columns: Mapping[str, str] = ORDERS, source: str = "APP.ORDERS"
) -> None:
    """Declare the orders with a table name, columns and a source, in addition to the lines."""
    shop.declare({name: columns, "lines": LINES}, [name, "lines"], sources={name: source})


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    """Return a shop in which an audit found one differing row in the orders and one in the lines."""
    made = EditedShop(tmp_path)
    declare(made)
    made.orders(1, 2)
    made.run()
    made.state["orders"][2]["total"] = 99
    made.state["lines"][10]["q"] = 98
    made.export("orders")
    choice = Choice(snapshot=made.export("lines"), csn=made.csn, wait=timedelta(0))
    assert audit(step_of(made.lake.pipeline, made.lake.warehouse, "audit"), choice)["differing"] == 2
    return made


def repaired(shop: EditedShop, *tables: str) -> int:
    """Repair some tables, or all that differ, and return how many rows the repair loads."""
    return repair(step_of(shop.lake.pipeline, shop.lake.warehouse, "repair"), Chosen(tables=tables), 9)["rows"]


EDITS = {
    "a column is renamed": lambda shop: declare(shop, columns=OTHER_COLUMNS),
    "a column is added": lambda shop: declare(shop, columns={**ORDERS, "note": "string"}),
    "the table is renamed": lambda shop: declare(shop, "sales"),
    "the source is another one": lambda shop: declare(shop, source="APP.OTHERS"),
    "the table is removed": lambda shop: shop.declare({"lines": LINES}, ["lines"]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_rows_of_a_table_that_was_edited_since_are_not_loaded(shop: EditedShop, edit: str) -> None:
    EDITS[edit](shop)
    with pytest.raises(ConfigurationError) as error:
        repaired(shop, "orders")
    assert str(error.value) == EDITED
    assert repaired(shop) == 1
    shop.run()
    assert shop.shown("lines") == [{**row, "q": 98} if row["id"] == 10 else row for row in shop.source("lines")]


def test_an_edit_that_is_taken_back_changes_nothing(shop: EditedShop) -> None:
    declare(shop, columns=OTHER_COLUMNS)
    declare(shop)
    assert repaired(shop) == 2
    shop.run()
    assert [row["total"] for row in shop.shown("orders") or []] == [1, 99]


def test_rows_of_an_audit_by_an_earlier_version_are_loaded_while_their_table_is_declared(shop: EditedShop) -> None:
    path = shop.lake.paths.table("audit_results")
    rows = small_tables.query(path, "select * from t")
    small_tables.replace(path, [row | {"declared": None} for row in rows], AUDIT_RESULTS, {})
    assert repaired(shop, "orders") == 1
    declare(shop, "sales")
    with pytest.raises(ConfigurationError, match="audit again"):
        repaired(shop, "orders")
