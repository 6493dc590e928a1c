"""Expectations over tables that are not complete are not judged: they neither pass nor fail, and people see why."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from steps.settling.edited_shop import DOCUMENTS, LINES, ORDERS, EditedShop
from txloom.page import pages
from txloom.page.links import Links
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.publish.validate import validate
from txloom.storage.checks import results
from txloom.storage.health.facts import failing_expectations
from txloom.storage.views.pipeline import problems
from txloom.terminal import status

pytestmark = pytest.mark.filterwarnings("default")
"""Great Expectations imports modules that Python deprecates."""
BOTH = {"orders": ORDERS, "lines": LINES}
MIRRORS = ("{table: orders}", "{table: lines}")
END = "severity: block, sentence: It holds., hint: Look."
KEPT = f"{{id: kept, kind: invariant, sql: select id from orders where total < 0, {END}}}"
POSITIVE = f"{{id: positive, kind: invariant, sql: select id from lines where q < 0, {END}}}"
SMALL = f"{{id: small, kind: invariant, sql: select id from lines where q >= 2, {END}}}".replace("block", "warn")
FILLED = f"{{id: filled, kind: great_expectation, table: lines, expectation: ExpectColumnValuesToNotBeNull, \
arguments: {{column: q}}, {END}}}"
PARENTS = f"{{id: parents, kind: orphans, child: lines, parent: orders, parent_key: [o_id], {END}}}"
FRESH = f"{{id: fresh, kind: valid_through_age, older_than: 3650d, {END}}}"
REASON = "not judged: lines is not complete"


def make_incomplete(folder: Path, *expectations: str, aggregates: Sequence[str] = ()) -> EditedShop:
    """Return a shop whose lines got another key after their messages were removed, one cycle after the edit."""
    shop = EditedShop(folder)
    mirrors = MIRRORS if not aggregates else MIRRORS[:1]
    declared = f"[{', '.join(expectations)}]"
    shop.declare(BOTH, mirrors, aggregates, expectations=declared)
    shop.orders(1, 2, 3)
    shop.run()
    check(shop, "r1")
    shop.forget()
    shop.declare(BOTH, mirrors, aggregates, keys={"lines": "[id, o_id]"}, expectations=declared)
    shop.orders(4)
    shop.run()
    return shop


def check(shop: EditedShop, run_id: str) -> dict[str, Any]:
    shop.lake.runs += 1
    return check_expectations(step_of(shop, run_id))


def step_of(shop: EditedShop, run_id: str) -> Any:
    from called import step_of as of

    return of(shop.lake.pipeline, Path(shop.lake.warehouse), run_id)


def result_of(shop: EditedShop, name: str) -> dict[str, Any]:
    return results.newest(shop.lake.paths)[name]


def test_an_expectation_over_a_table_that_is_not_complete_is_not_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = make_incomplete(tmp_path, KEPT, POSITIVE, FILLED, PARENTS, FRESH)
    caplog.set_level("INFO")
    assert shop.shown("lines") is None
    assert check(shop, "r2") == {"checked": 2, "failed": 0, "unjudged": 3, "rows": 0}
    assert f"block: positive: {REASON}" in caplog.messages
    newest = results.newest(shop.lake.paths)
    assert {name: (row["success"], row["detail"]) for name, row in newest.items()} == {
        "kept": (True, None),
        "fresh": (True, None),
        **dict.fromkeys(("positive", "filled", "parents"), (None, REASON)),
    }


def test_last_good_stays_while_an_expectation_is_not_judged(tmp_path: Path) -> None:
    shop = make_incomplete(tmp_path, POSITIVE)
    good = max(row["checked_at"] for row in shop.lake.rows("expectation_results") if row["success"])
    check(shop, "r2")
    check(shop, "r3")
    row = result_of(shop, "positive")
    assert (row["success"], row["last_good"], row["since"], row["streak"]) == (None, good, None, 0)
    shop.load("lines")
    check(shop, "r4")
    assert result_of(shop, "positive")["last_good"] > good


def test_a_failure_goes_on_while_an_expectation_is_not_judged(tmp_path: Path) -> None:
    shop = make_incomplete(tmp_path, SMALL)
    failed = min((row for row in shop.lake.rows("expectation_results")), key=lambda row: row["checked_at"])
    (before,) = failing_expectations(shop.lake.pipeline, shop.lake.paths)
    check(shop, "r2")
    row = result_of(shop, "small")
    assert (row["success"], row["since"], row["streak"]) == (None, failed["checked_at"], 1)
    assert failing_expectations(shop.lake.pipeline, shop.lake.paths) == [before]
    shop.load("lines")
    check(shop, "r3")
    row = result_of(shop, "small")
    assert (row["success"], row["since"], row["streak"]) == (False, failed["checked_at"], 2)


def test_rows_that_only_documents_need_are_not_judged_while_they_are_not_complete(tmp_path: Path) -> None:
    shop = make_incomplete(tmp_path, PARENTS, aggregates=[DOCUMENTS])
    check(shop, "r2")
    assert result_of(shop, "parents")["detail"] == REASON
    validate(step_of(shop, "m1"))
    assert result_of(shop, "parents")["success"] is None


def test_page_terminal_and_report_say_that_an_expectation_was_not_judged(tmp_path: Path) -> None:
    shop = make_incomplete(tmp_path, KEPT, POSITIVE)
    check(shop, "r2")
    listing = problems.expectations(shop.lake.pipeline, shop.lake.warehouse)
    console = Console(width=200, record=True)
    console.print(*status.expectations(listing))
    text = console.export_text()
    assert f"positive: {REASON}" in text
    assert "0 of 0" not in text
    view = pages.View.of(shop.lake.pipeline, shop.lake.warehouse, Links())
    for html in (pages.expectations(view, page=1), pages.now(view, span="1d")):
        assert REASON in html
        assert "Not judged: " in html
        assert "0 of 0 rows fail" not in html
    assert "1 of 2 was not judged" in pages.now(view, span="1d")
    report = Path(shop.lake.paths.table("_reports")) / "r2"
    assert "1 passed, 1 not judged" in (report / "report.html").read_text()
    assert "Not judged: positive" in (report / "report.html").read_text()
    assert REASON in (report / "report.md").read_text().replace("\\", "")


def test_data_docs_show_no_success_for_a_table_that_the_cut_lacks(tmp_path: Path) -> None:
    shop = make_incomplete(tmp_path, KEPT, POSITIVE, FILLED)
    counts = validate(step_of(shop, "m1"))
    assert (counts["validated"], counts["unjudged"], counts["judged"]) == (1, 2, 1)
    index = results.data_docs_page(shop.lake.paths, "m1", "index.html")
    assert index is not None
    assert index.count("Not judged") == 2
    assert index.count("Holds") == 1
    assert index.count(REASON) == 2
    assert results.data_docs_page(shop.lake.paths, "m1", "of_filled.html") is None
