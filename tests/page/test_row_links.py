"""From each incident and each finding its rows are one click away, or the page says why there are none."""

from pathlib import Path

import pytest

from storage.views.booked import Shop
from txloom.config import load
from txloom.config.project import PROJECT
from txloom.page.pages import PARTS
from txloom.page.row_links import NO_ROWS, RowLink, keyed_tables, of_finding, of_incident
from txloom.quality.findings import DIFFERS, HINTS, LOST, NOT_EXTRACTED, TABLE_NOT_EXTRACTED, UNANSWERED, UNREADABLE
from txloom.quality.incidents import FINDING, JUDGED, TASK

SHIPPED = load(PROJECT / "include" / "pipelines" / "orders.yaml")


@pytest.mark.parametrize("code", HINTS)
def test_each_finding_leads_to_its_rows_or_says_why_there_are_none(code: str) -> None:
    row = {"code": code, "table": "items", "column": None, "xid": "x7", "since_csn": 7}
    link = of_finding(row)
    if code in (UNREADABLE, NOT_EXTRACTED, TABLE_NOT_EXTRACTED, UNANSWERED):
        assert link == NO_ROWS[code]
        return
    assert isinstance(link, RowLink) and link.part in PARTS
    part = {DIFFERS: "audit", LOST: "cuts"}.get(code, "transaction")
    assert (link.part, link.query) == (part, {"xid": "x7"} if part == "transaction" else {})
    assert of_incident(FINDING, f"{code}: items", [row]) == link, "its incident leads there too"
    by_csn = of_finding(row | {"xid": None})
    assert isinstance(by_csn, RowLink) and by_csn.query == ({"csn": 7} if part == "transaction" else {})


def test_a_finding_without_a_transaction_says_so() -> None:
    row = {"code": "csn jumped back", "table": None, "column": None, "xid": None, "since_csn": None}
    assert of_finding(row) == "It names no transaction: what shows it stands above."
    assert of_incident(FINDING, "csn jumped back", []) == "The finding is closed."


@pytest.mark.parametrize("kind", [each for each in (*JUDGED, TASK) if each != FINDING])
def test_each_kind_of_incident_leads_to_its_rows_or_says_why_there_are_none(kind: str) -> None:
    link = of_incident(kind, "", [])
    if kind in NO_ROWS:
        assert link == NO_ROWS[kind]
    else:
        assert isinstance(link, RowLink) and link.part in PARTS


def test_rows_that_fail_an_expectation_have_a_story_by_the_key_of_their_table(tmp_path: Path) -> None:
    assert keyed_tables(Shop(tmp_path).pipeline) == {"orphans": ("parts", ("id",))}
    assert keyed_tables(SHIPPED)["orphan_line_items"] == ("order_line_items", ("line_item_id",))
