"""What a person reads before rows that an audit found to differ are loaded."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from txloom.config.models.audit import Repair as Declared
from txloom.errors import ConfigurationError
from txloom.steps.audit.differing_rows import SHOWN, markdown, snapshot_of
from txloom.steps.audit.repair_limit import Share, exceeding, refusal
from txloom.storage.checks.audited_rows import AuditedTable, Repair

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def difference(kind: str, column: str | None = None, lake: str | None = None, source: str | None = None) -> Any:
    return {"key": [("id", "7")], "kind": kind, "column": column, "lake": lake, "source": source, "csn": 3}


def audited(*differences: Any, differing: int | None = None) -> AuditedTable:
    ops = {"missing": "r", "changed": "U", "extra": "D"}
    repairs = tuple(Repair(ops[each["kind"]], '{"ID":"7"}', 70, NOON) for each in differences)
    return AuditedTable("audit-1", "orders", NOON, differing or len(repairs), repairs, differences)


def test_it_says_which_rows_come_as_of_when_and_what_does_not_change() -> None:
    changed = difference("changed", "note", "a|b", None)
    page = markdown([audited(difference("missing"), changed, difference("extra"))])
    assert page.startswith("**3 rows are loaded as the source had them.**")
    assert "**orders** 1 added, 1 changed, 1 removed, as of csn 70, 2026-06-01 12:00" in page
    assert "| id\\=7 | added | no row | a row |" in page or "| id=7 | added | no row | a row |" in page
    assert r"| note | a\|b | null |" in page and "| removed | a row | no row |" in page
    assert "No other row changes." in page and "`jobs/repair.py --undo`" in page
    assert "A row that the source has is not deleted" in page and "no second look" not in page
    assert "allow_rows" not in page


def test_a_secret_is_masked_by_its_name_and_by_declaration() -> None:
    rows = [difference("changed", "api_token", "s3cret", None), difference("changed", "note", "hidden", "other")]
    page = markdown([audited(*rows)], {"note"})
    assert "s3cret" not in page and "hidden" not in page and page.count("***") == 3


def test_a_key_that_is_a_secret_is_masked() -> None:
    row = {**difference("missing"), "key": [("id", "7"), ("card_pin", "0815")]}
    assert "0815" not in markdown([audited(row)]) and "0815" not in markdown([audited(row)], {"card_pin"})


def test_rows_that_were_compared_with_several_sources_are_not_repaired_together() -> None:
    by_files = replace(audited(difference("missing")), table="lines", snapshot=("/exports/monday", 7))
    assert snapshot_of([by_files]) == ("/exports/monday", 7)
    assert snapshot_of([audited(difference("missing"))]) is None
    with pytest.raises(ConfigurationError, match="lines with /exports/monday; orders with the database"):
        snapshot_of([audited(difference("missing")), by_files])


def test_what_is_not_listed_is_counted() -> None:
    page = markdown([audited(*[difference("missing")] * (SHOWN + 2), differing=SHOWN + 5)])
    assert "and 2 more, which the page lists" in page and "3 more rows differ that are not listed" in page


def test_it_says_that_rows_of_files_are_not_looked_at_again() -> None:
    page = markdown([replace(audited(difference("missing")), snapshot=("/exports/monday", 7))])
    assert "**There is no second look**" in page and "is not deleted" not in page


def test_it_names_the_number_of_rows_that_a_person_has_to_allow() -> None:
    page = markdown([audited(difference("extra"))], large=[Share("orders", 200, 0, 200, 20, "10%")])
    assert "enter 200 as allow_rows" in page and "orders: 200 of 200 rows (100.0%)" in page


@pytest.mark.parametrize(
    ("rows", "going", "unlisted", "is_refused"),
    [
        (200, 20, 0, False),
        (200, 21, 0, True),
        (3, 3, 0, False),
        (3, 11, 0, True),
        (200, 10, 11, True),
        (9, 0, 99, False),
    ],
)
def test_a_share_counts_what_goes_and_what_is_not_listed_and_a_tiny_table_as_a_hundred_rows(
    rows: int, going: int, unlisted: int, is_refused: bool
) -> None:
    share = Share("orders", going, unlisted, rows, Declared().limit(rows), "10%")
    assert (exceeding([share]) == [share]) is is_refused


def test_the_refusal_names_table_number_share_limit_and_the_way_out() -> None:
    text = refusal([Share("orders", 30, 0, 200, 20, "10%"), Share("lines", 9, 3, 50, 10, "10%")], 41)
    assert "orders: 30 of 200 rows (15.0%) would be deleted or changed; audit.repair.max_share (10%) allows 20" in text
    assert "lines: 12 of 50 rows (24.0%) would be deleted or changed, with 3 that differ and are not listed" in text
    assert "(10% of 100 rows) allows 10, and 41 were allowed" in text and "--allow-rows 42" in text
