"""Findings after an edit of the declaration: they follow renamed tables and columns, and close with removed ones."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from called import step_of
from steps.settling.edited_shop import LINES, ORDERS, EditedShop
from steps.snapshots.test_columns_declared_later import RIDES, TRIPS, Club
from txloom.config import load
from txloom.config.contents import table_content
from txloom.quality import findings as f
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.steps.landing.silent_requests import note_silent
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r
from txloom.storage.declarations.undeclared_columns import first_seen
from txloom.storage.health.incidents import lifecycles
from txloom.storage.landing import requested_snapshots
from txloom.storage.landing.requested_snapshots import SENT, Request
from txloom.storage.views.pipeline.overview import health

SOURCE = {"sales": "APP.ORDERS"}
"""The source of `orders` after the table got another name."""
RENAMED = {"sum": "{type: long, source: total}"}
REQUESTED = """
name: shop
source:
  format: debezium
  kafka: {{brokers: 'localhost:1', topics: [shop.public.orders]}}
  signals: {{topic: signals, notifications: notices, prefix: shop, answer_within: 1s}}
  transaction_topic: transactions
completeness: {{rule: counts, patience: 2h}}
tables:
- {{name: {name}, source: public.{source}, key: [id], columns: {{id: long}}}}
targets: {{mirrors: ["*"]}}
"""


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def declare(shop: EditedShop, name: str = "orders", columns: Mapping[str, str] = ORDERS) -> None:
    """Declare the table of orders under a name with some columns, in addition to the lines."""
    sources = {name: "APP.ORDERS"}
    shop.declare({name: columns, "lines": LINES}, ["lines", name], sources=sources)


def without_orders(shop: EditedShop) -> None:
    shop.declare({"lines": LINES}, ["lines"])


def open_of(shop: EditedShop | Club) -> list[tuple[str, str | None, str | None]]:
    """Return code, table and column of each open finding."""
    return [(row["code"], row["table"], row["column"]) for row in findings.open_findings(shop.lake.paths)]


def miss_a_row(shop: EditedShop) -> None:
    """Change an order that the lake never got."""
    declare(shop)
    shop.orders(1)
    shop.state["orders"][9] = {"id": 9, "total": 9}
    shop.commit(("U", "orders", {"id": 9, "total": 10}))
    shop.run()
    assert open_of(shop) == [(f.UNKNOWN_ROW, "orders", None)]


def miss_a_change(shop: EditedShop) -> None:
    """Change a value without an event, and then with one."""
    declare(shop)
    shop.orders(1)
    shop.run()
    shop.state["orders"][1]["total"] = 77
    shop.commit(("U", "orders", {"id": 1, "total": 78}))
    shop.run()
    assert open_of(shop) == [(f.CHANGED, "orders", "total")]


def add_a_column(shop: EditedShop) -> None:
    """Send a column that is not declared."""
    declare(shop)
    shop.orders(1)
    shop.commit(("I", "orders", {"id": 2, "total": 2, "gift": 5}))
    shop.run()
    assert open_of(shop) == [(f.ADDED, "orders", "gift")]


def drop_a_column(shop: EditedShop) -> None:
    """Insert an order without its total."""
    declare(shop)
    shop.orders(1)
    shop.commit(("I", "orders", {"id": 2}))
    shop.run()
    assert open_of(shop) == [(f.DROPPED, "orders", "total")]


FAULTS = [miss_a_row, miss_a_change, add_a_column, drop_a_column]


def test_a_needed_snapshot_is_loaded_under_the_new_name_of_its_table(shop: EditedShop) -> None:
    miss_a_row(shop)
    (before,) = findings.open_findings(shop.lake.paths)
    declare(shop, "sales")
    shop.run()
    (row,) = findings.open_findings(shop.lake.paths)
    same = ("code", "column", "since_csn", "xid", "evidence", "hint", "severity", "needs_snapshot")
    assert (row["table"], {name: row[name] for name in same}) == ("sales", {name: before[name] for name in same})
    shown = health(shop.lake.pipeline, shop.lake.warehouse)
    assert ([reason.subject for reason in shown.reasons], shown.needs_snapshot) == (
        [f"{f.UNKNOWN_ROW}: sales"],
        ("sales",),
    )
    shop.load("orders", name="sales")
    assert open_of(shop) == []
    assert shop.shown("sales") == shop.source("orders")
    assert health(shop.lake.pipeline, shop.lake.warehouse).color == "green"
    assert lifecycles(shop.lake.paths) == []


def test_a_load_of_the_cycle_that_follows_the_edit_closes_the_finding(shop: EditedShop) -> None:
    miss_a_row(shop)
    declare(shop, "sales")
    shop.load("orders", name="sales")
    assert open_of(shop) == []
    assert shop.shown("sales") == shop.source("orders")


def test_a_change_without_an_event_follows_its_column_and_its_table(shop: EditedShop) -> None:
    miss_a_change(shop)
    declare(shop, columns={"id": "long"} | RENAMED)
    shop.run()
    assert open_of(shop) == [(f.CHANGED, "orders", "sum")]
    declare(shop, "sales", {"id": "long", "total": "{type: long, source: NEW, source_aliases: [total]}"})
    shop.run()
    assert open_of(shop) == [(f.CHANGED, "sales", "total")]
    shop.load("orders", name="sales")
    assert open_of(shop) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_a_column_that_is_declared_after_its_table_was_renamed_closes_its_finding(
    shop: EditedShop, *, at_once: bool
) -> None:
    add_a_column(shop)
    since = first_seen(shop.lake.paths, ["orders"], "gift")
    if not at_once:
        declare(shop, "sales")
        shop.run()
        assert open_of(shop) == [(f.ADDED, "sales", "gift")]
    declare(shop, "sales", ORDERS | {"gift": "long"})
    shop.run()
    assert open_of(shop) == []
    assert [row["gift"] for row in shop.shown("sales") or []] == [None, 5]
    assert first_seen(shop.lake.paths, ["orders", "sales"], "gift") == since


def test_a_dropped_column_stays_dropped_under_its_new_name_until_inserts_have_it_again(shop: EditedShop) -> None:
    drop_a_column(shop)
    declare(shop, "sales", {"id": "long"} | RENAMED)
    shop.commit(("I", "orders", {"id": 3}))
    shop.run()
    assert open_of(shop) == [(f.DROPPED, "sales", "sum")]
    assert shop.shown("sales") == [{"id": number, "sum": None} for number in (1, 2, 3)]
    shop.commit(("I", "orders", {"id": 4, "total": 4}))
    shop.run()
    assert open_of(shop) == []


def test_a_column_that_the_source_and_the_lake_renamed_has_its_values_and_no_finding(shop: EditedShop) -> None:
    declare(shop)
    shop.orders(1)
    shop.run()
    shop.renamed["total"] = "amount"
    shop.commit(("I", "orders", {"id": 2, "total": 2}))
    shop.run()
    assert (f.RENAMED, "orders", "total") in open_of(shop)
    declare(shop, "sales", {"id": "long", "sum": "{type: long, source: amount, source_aliases: [total]}"})
    shop.run()
    assert open_of(shop) == []
    assert shop.shown("sales") == [{"id": 1, "sum": 1}, {"id": 2, "sum": 2}]


@pytest.mark.parametrize("fault", FAULTS)
def test_findings_of_a_removed_table_close_with_the_reason(shop: EditedShop, fault: Any) -> None:
    fault(shop)
    without_orders(shop)
    shop.run()
    assert open_of(shop) == []
    newest = max(shop.lake.rows("findings"), key=lambda row: row["at"])
    assert (newest["status"], newest["evidence"].endswith("; no declared target has it")) == ("closed", True)
    assert health(shop.lake.pipeline, shop.lake.warehouse).color == "green"


@pytest.mark.parametrize("name", ["orders", "sales"])
@pytest.mark.parametrize("fault", [miss_a_row, miss_a_change, drop_a_column])
def test_findings_come_again_with_their_table_where_the_fault_is_still_there(
    shop: EditedShop, fault: Any, name: str
) -> None:
    fault(shop)
    ((code, _, column),) = open_of(shop)
    without_orders(shop)
    shop.run()
    shop.orders(5)
    shop.run()
    declare(shop, name)
    shop.run()
    is_back = fault is drop_a_column  # The order that came meanwhile has the column.
    assert open_of(shop) == ([] if is_back else [(code, name, column)])
    shop.load("orders", name=name)
    assert open_of(shop) == []
    without_orders(shop)
    shop.run()
    declare(shop, name)
    shop.run()
    assert open_of(shop) == [], "the load closed it"


def test_a_finding_of_a_removed_column_closes_and_comes_again_with_the_column(shop: EditedShop) -> None:
    miss_a_change(shop)
    declare(shop, columns={"id": "long"})
    shop.run()
    assert open_of(shop) == []
    declare(shop, columns={"id": "long"} | RENAMED)
    shop.run()
    assert open_of(shop) == [(f.CHANGED, "orders", "sum")]


def test_a_dropped_column_that_was_removed_for_a_while_is_no_second_finding(shop: EditedShop) -> None:
    drop_a_column(shop)
    declare(shop, columns={"id": "long"})
    shop.run()
    assert open_of(shop) == []
    declare(shop)
    shop.commit(("I", "orders", {"id": 3}))
    shop.run()
    assert open_of(shop) == [(f.DROPPED, "orders", "total")]


def test_a_table_that_gets_the_name_of_a_renamed_one_has_none_of_its_findings(shop: EditedShop) -> None:
    miss_a_row(shop)
    tables = {"sales": ORDERS, "orders": LINES}
    shop.declare(tables, ["sales", "{table: orders, history: of_lines}"], sources=SOURCE | {"orders": "APP.LINES"})
    shop.run()
    assert open_of(shop) == [(f.UNKNOWN_ROW, "sales", None)]


def test_findings_of_columns_that_exchange_their_names_are_exchanged(shop: EditedShop) -> None:
    shop.declare({"lines": LINES}, ["lines"])
    for number in (1, 2):
        shop.commit(("I", "lines", {"id": number, "o_id": number, "q": number}))
    shop.run()
    for column, number in (("o_id", 1), ("q", 2)):
        shop.state["lines"][number][column] = 77
        shop.commit(("U", "lines", {"id": number, column: 78}))
    shop.run()
    before = {row["column"]: row["evidence"] for row in findings.open_findings(shop.lake.paths)}
    assert set(before) == {"o_id", "q"}
    exchanged = {"id": "long", "o_id": "{type: long, source: q}", "q": "{type: long, source: o_id}"}
    shop.declare({"lines": exchanged}, ["lines"])
    shop.run()
    after = {row["column"]: row["evidence"] for row in findings.open_findings(shop.lake.paths)}
    assert after == {"o_id": before["q"], "q": before["o_id"]}


def test_a_finding_of_an_audit_closes_with_a_load_of_the_renamed_table(shop: EditedShop) -> None:
    declare(shop)
    shop.orders(1, 2)
    shop.run()
    shop.state["orders"][2]["total"] = 99
    exported = shop.export("orders")
    choice = Choice(snapshot=exported, csn=shop.csn, wait=timedelta(0), tables=("orders",))
    assert audit(step_of(shop.lake.pipeline, shop.lake.warehouse, "audit"), choice)["differing"] == 1
    assert open_of(shop) == [(f.DIFFERS, "orders", None)]
    declare(shop, "sales")
    shop.run()
    assert open_of(shop) == [(f.DIFFERS, "sales", None)]
    rmtree(exported)
    shop.load("orders", name="sales")
    assert open_of(shop) == []
    assert shop.shown("sales") == [{"id": 1, "total": 1}, {"id": 2, "total": 99}]


def test_a_date_that_has_the_renamed_table_closes_its_finding(tmp_path: Path) -> None:
    club = Club(tmp_path, "full")
    club.declare(TRIPS, RIDES)
    club.put(1, trips=[{"key": 1, "city": "a"}], rides=[{"key": 1}])
    club.cycle(1)
    club.put(2, trips=[{"key": 1}])
    club.cycle(2, without=("rides",))
    lacking = [(f.NOT_EXTRACTED, "trips", "city"), (f.TABLE_NOT_EXTRACTED, "rides", None)]
    assert sorted(open_of(club)) == lacking
    club.declare(TRIPS.replace("city: string", "town: {type: string, source: city}"), RIDES.replace("rides,", "runs,"))
    club.put(3, trips=[{"key": 1}])
    club.cycle(3, without=("runs",))
    assert sorted(open_of(club)) == [(f.NOT_EXTRACTED, "trips", "town"), (f.TABLE_NOT_EXTRACTED, "runs", None)]
    assert {row["since_csn"] for row in findings.open_findings(club.lake.paths)} == {20261102}
    club.declare(TRIPS.replace("trips,", "tours,"), RIDES)
    club.put(4, tours=[{"key": 1, "city": "a"}], rides=[{"key": 1}])
    club.land(4)
    assert open_of(club) == []
    club.show()
    assert open_of(club) == []


def test_a_date_that_is_compared_before_the_merge_closes_the_finding_of_a_renamed_column(tmp_path: Path) -> None:
    """Only the merge that follows gives the finding the new name."""
    club = Club(tmp_path, "full")
    club.declare(TRIPS)
    club.put(1, trips=[{"key": 1, "city": "a"}])
    club.cycle(1)
    club.put(2, trips=[{"key": 1}])
    club.cycle(2)
    assert open_of(club) == [(f.NOT_EXTRACTED, "trips", "city")]
    club.declare(TRIPS.replace("city: string", "town: {type: string, source: city}"))
    club.put(3, trips=[{"key": 1, "city": "a"}])
    club.land(3)
    assert open_of(club) == []
    club.show()
    assert open_of(club) == []


def test_a_finding_of_an_extract_closes_with_its_column_or_table(tmp_path: Path) -> None:
    club = Club(tmp_path, "full")
    club.declare(TRIPS, RIDES)
    club.put(1, trips=[{"key": 1, "city": "a"}], rides=[{"key": 1}])
    club.cycle(1)
    club.put(2, trips=[{"key": 1}])
    club.cycle(2, without=("rides",))
    club.declare(TRIPS.replace(", city: string", ""))
    club.put(3, trips=[{"key": 1}])
    club.cycle(3)
    assert open_of(club) == []


def test_a_silent_request_is_shown_under_the_present_name_of_its_table(tmp_path: Path) -> None:
    """After its table was removed, the finding names only the request."""
    file = tmp_path / "shop.yaml"
    for name, source, shown in (("orders", "orders", "orders"), ("sales", "orders", "sales"), ("lines", "lines", None)):
        file.write_text(REQUESTED.format(name=name, source=source))
        step = step_of(load(file), tmp_path / "lake", name)
        if name == "orders":
            content = table_content(step.pipeline, step.pipeline.table(name))
            r.append(step.paths, [r.Record("orders_changes", name, r.COMPLETE, content)], "run")
            requested_snapshots.write(step.paths, Request("r1", "run", ("orders",), 0), SENT)
        (request,) = requested_snapshots.open_requests(step.paths)
        while not findings.open_findings(step.paths):
            note_silent(step, {})
        note_silent(step, {"r1": request.at})
        (row,) = findings.open_findings(step.paths)
        assert (row["code"], row["table"]) == (f.UNANSWERED, shown)
