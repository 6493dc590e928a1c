"""What a person reads before rows that an audit found to differ are loaded."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from txloom.errors import ConfigurationError
from txloom.steps.audit.differing_rows import SHOWN, markdown, snapshot_of
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
    assert "No other row changes." in page and "there is no undo" in page


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
