"""What is shown of a pipeline in lists: rows in, pages out, with totals that count everything."""

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from storage.views.booked import NOON, Shop, at
from txloom.errors import ConfigurationError
from txloom.quality.findings import CSN_BACK, Finding
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import Incident
from txloom.storage import system_tables
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.health import incidents as incident_table
from txloom.storage.views.paging import Page
from txloom.storage.views.pipeline import cuts, dead_letters, problems, runs
from txloom.storage.views.pipeline import waiting as module
from txloom.storage.views.pipeline.waiting import waiting

EMPTY = Page([], 0, 1, 100, None)
HOSTILE = "<script>alert(1)</script>'; drop table t; -- \u202e\x1b[31m"


def stuck(number: int, **more: Any) -> dict[str, Any]:
    cause = "table short" if number % 4 else "metadata never came"
    expected = [("items", 1), ("parts", 3)] if number % 4 else None
    row = {
        "transaction_id": f"x{number}:{number}",
        "xid": f"x{number}",
        "csn": number,
        "cause": cause,
        "as_of": at(200),
    }
    row |= {"first_landed_at": at(number / 100), "age_seconds": 12_000 - number, "expected": expected}
    return row | {"received": [("items", 1), ("parts", 2)], **more}


def test_a_pipeline_that_never_ran_has_empty_lists_and_no_age(shop: Shop) -> None:
    calls = (cuts.cuts, cuts.holds, runs.runs, runs.backfills, runs.edits, runs.partitions, dead_letters.dead_letters)
    calls += (problems.open_findings, problems.incidents)
    for ask in calls:
        assert ask(shop.pipeline, shop.warehouse) == EMPTY, ask.__name__
    nothing = waiting(shop.pipeline, shop.warehouse)
    assert (nothing.page, nothing.causes, nothing.total) == (EMPTY, {}, 0)
    listing = dead_letters.causes(shop.pipeline, shop.warehouse)
    assert (listing.listing.groups, listing.complete, listing.dag_id) == ((), [], "shop_dead_letters")
    page = problems.expectations(shop.pipeline, shop.warehouse)
    assert [(row["expectation"], row["success"], row["failed"]) for row in page.rows] == [
        ("orphans", None, None),
        ("stuck", None, None),
    ]
    assert page.as_of is None


def test_ten_thousand_stuck_transactions_are_pages_of_one_hundred_with_the_right_totals(shop: Shop) -> None:
    shop.wait(*(stuck(number) for number in range(10_000)))
    listing = waiting(shop.pipeline, shop.warehouse)
    assert (len(listing.page.rows), listing.page.total, listing.page.pages, listing.total) == (100, 10_000, 100, 10_000)
    assert listing.causes == {"table short": 7_500, "metadata never came": 2_500}
    assert [row["csn"] for row in listing.page.rows[:3]] == [0, 1, 2]
    last = waiting(shop.pipeline, shop.warehouse, number=25, cause="metadata never came")
    assert (last.page.total, last.page.pages, last.total) == (2_500, 25, 10_000)
    assert [row["csn"] for row in last.page.rows] == list(range(9_600, 10_000, 4))
    longer = waiting(shop.pipeline, shop.warehouse, longer=timedelta(seconds=11_990))
    assert [row["csn"] for row in longer.page.rows] == list(range(10))
    assert waiting(shop.pipeline, shop.warehouse, number=101).page.rows == []


def test_a_page_that_lies_deep_is_the_same_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.wait(*(stuck(number) | ({"csn": None} if number % 7 == 0 else {}) for number in range(60)))

    def pages() -> list[list[Any]]:
        pages_shown = [waiting(shop.pipeline, shop.warehouse, number=number, size=9).page for number in range(1, 9)]
        return [page.rows for page in pages_shown]

    near = pages()
    assert [len(rows) for rows in near] == [9] * 6 + [6, 0]
    monkeypatch.setattr(module, "DEEP", 0)
    assert pages() == near


def test_a_waiting_transaction_says_what_it_lacks_by_table(shop: Shop) -> None:
    shop.wait(stuck(1), stuck(4))
    short, unnamed = waiting(shop.pipeline, shop.warehouse).page.rows
    assert short["tables"] == [
        {"table": "parts", "expected": 3, "received": 2, "differs": True},
        {"table": "items", "expected": 1, "received": 1, "differs": False},
    ]
    assert [(row["table"], row["expected"], row["received"]) for row in unnamed["tables"]] == [
        ("items", None, 1),
        ("parts", None, 2),
    ]
    assert (short["age_seconds"], waiting(shop.pipeline, shop.warehouse).page.as_of) == (11_999, at(200))


def test_what_has_no_cause_yet_can_be_asked_for(shop: Shop) -> None:
    shop.wait(stuck(1, cause=None), stuck(2))
    listing = waiting(shop.pipeline, shop.warehouse, cause="not decided yet")
    assert (listing.causes, [row["csn"] for row in listing.page.rows]) == (
        {"not decided yet": 1, "table short": 1},
        [1],
    )


def test_a_hostile_cause_is_a_text_to_ask_for(shop: Shop) -> None:
    shop.wait(stuck(1, cause=HOSTILE), stuck(2))
    listing = waiting(shop.pipeline, shop.warehouse, cause=HOSTILE)
    assert [(row["csn"], row["cause"]) for row in listing.page.rows] == [(1, HOSTILE)]


@pytest.mark.parametrize(("number", "size"), [(0, 100), (-1, 1), (1, 0), (1, 1_001)])
def test_a_page_that_cannot_be_is_refused(shop: Shop, number: int, size: int) -> None:
    for ask in (cuts.cuts, runs.runs, dead_letters.dead_letters, waiting, problems.expectations):
        with pytest.raises(ConfigurationError) as refused:
            ask(shop.pipeline, shop.warehouse, number=number, size=size)
        assert str(refused.value) == f"page {number} of {size} rows: pages count from 1 and have 1 to 1000 rows"


def letter(number: int, cause: str, transaction: str | None = None) -> dict[str, Any]:
    identity = f"x{number // 2}:{number // 2}" if transaction is None else transaction
    row = {
        "transaction_id": identity,
        "csn": number // 2,
        "kind": "row",
        "table": "items",
        "cause": cause,
        "line": number,
    }
    return row | {"file": "rows/1.jsonl", "landing": 1, "row": number, "dead_at": at(number), "value": "a secret"}


def test_dead_letters_come_newest_first_by_cause_and_transaction_and_never_with_what_they_hold(shop: Shop) -> None:
    shop.write("dead_letters", *(letter(number, ("excess", "conflicting")[number % 2]) for number in range(300)))
    done = {"transaction_id": "x7:7", "csn": 7, "status": "released", "release": 2}
    shop.write("transactions", {"transaction_id": "x8:8", "csn": 8, "status": "dead", "cause": "complete now"}, done)
    page = dead_letters.dead_letters(shop.pipeline, shop.warehouse)
    assert (page.total, page.pages, [row["row"] for row in page.rows[:2]]) == (298, 3, [299, 298])
    assert not any("value" in row or "headers" in row for row in page.rows)
    second = dead_letters.dead_letters(shop.pipeline, shop.warehouse, cause="excess", number=2, size=50)
    assert (second.total, second.rows[0]["row"]) == (149, 198)
    of_one = dead_letters.dead_letters(shop.pipeline, shop.warehouse, transaction="x9:9")
    assert [row["row"] for row in of_one.rows] == [19, 18]
    listing = dead_letters.causes(shop.pipeline, shop.warehouse)
    assert [(each.cause, each.events, each.transactions) for each in listing.listing.groups] == [
        ("conflicting", 149, 149),
        ("excess", 149, 149),
    ]
    assert listing.complete == ["x8:8"]


def test_runs_show_their_steps_and_whether_the_ledger_balanced(shop: Shop) -> None:
    shop.step("land_events", 1, counts={"landed": 3})
    shop.step("balance", 2, balanced=True)
    shop.step("land_events", 11, "r2", counts={"landed": 4}, batch=2)
    shop.step("balance", 12, "r2", balanced=False, detail="1 events are not accounted for")
    shop.step("publish", 13, "r3", valid_through=7)
    shop.step("land_events", 0, "carried forward", counts={"landed": 900})
    page = runs.runs(shop.pipeline, shop.warehouse, size=2)
    assert (page.total, page.pages, page.as_of) == (3, 2, at(13))
    assert [(row["run_id"], row["began"], row["ended"], row["balanced"]) for row in page.rows] == [
        ("r3", at(13), at(13), None),
        ("r2", at(11), at(12), False),
    ]
    assert [(step["step"], step["counts"], step["detail"]) for step in page.rows[1]["steps"]] == [
        ("land_events", {"landed": 4}, None),
        ("balance", {}, "1 events are not accounted for"),
    ]
    assert [row["run_id"] for row in runs.runs(shop.pipeline, shop.warehouse, size=2, number=2).rows] == ["r1"]


def test_cuts_show_versions_and_count_all_gaps(shop: Shop) -> None:
    gaps = [{"xid": f"x{n}", "csn": n, "cause": "excess"} for n in range(50)]
    plain = {"valid_through": 7, "published_at": NOON, "versions": [("items", 3)], "gaps": [], "amends": []}
    shop.write(
        "cuts", {"cut_id": 1, **plain}, {"cut_id": 2, **plain, "gaps": gaps, "amends": [{"cut_id": 1, "csn": 5}]}
    )
    newest, first = cuts.cuts(shop.pipeline, shop.warehouse).rows
    assert (newest["cut_id"], newest["gap_count"], len(newest["gaps"]), newest["amend_count"]) == (2, 50, 20, 1)
    assert (newest["gaps"][0], newest["amends"]) == (gaps[0], [{"cut_id": 1, "xid": None, "csn": 5}])
    assert (first["gap_count"], first["gaps"], first["amends"], first["versions"]) == (0, [], [], {"items": 3})


def test_readers_are_shown_while_they_hold_a_cut(shop: Shop) -> None:
    later = NOON + timedelta(days=365 * 100)
    shop.write(
        "readers",
        {"reader": "month_end", "cut_id": 1, "at": NOON, "until": later},
        {"reader": "gone", "cut_id": 1, "at": NOON, "until": later},
        {"reader": "gone", "cut_id": 1, "at": at(1), "until": at(1)},
    )
    page = cuts.holds(shop.pipeline, shop.warehouse)
    assert [(row["reader"], row["cut_id"], row["since"], row["until"]) for row in page.rows] == [
        ("month_end", 1, NOON, later)
    ]


def result(expectation: str, minutes: float, success: bool, **more: Any) -> dict[str, Any]:
    row = {"expectation": expectation, "checked_at": at(minutes), "success": success, "checked": 9}
    row["run_id"] = f"run at {minutes}"
    return row | {"failed": 0 if success else 2, "sample": "[]", "severity": "warn", **more}


def test_failed_expectations_come_first_with_since_when_and_how_often(shop: Shop) -> None:
    shop.write("expectation_results", result("orphans", 1, True), result("orphans", 2, True), result("stuck", 1, False))
    shop.write("expectation_results", result("stuck", 2, True), result("stuck", 3, False), result("gone", 9, False))
    shop.write("expectation_results", result("stuck", 4, False, sample='[{"xid": "x1", "_txloom_csn": 4}]'))
    page = problems.expectations(shop.pipeline, shop.warehouse)
    shown = [(row["expectation"], row["success"], row["since"], row["last_good"], row["streak"]) for row in page.rows]
    assert shown == [("stuck", False, at(3), at(2), 2), ("orphans", True, None, at(2), 0)]
    assert (page.rows[0]["sample"], page.rows[0]["sentence"]) == (
        [{"xid": "x1", "_txloom_csn": 4}],
        "Nothing waits long.",
    )
    assert (page.total, page.as_of) == (2, at(4))


def test_an_expectation_that_never_passed_fails_since_its_first_check(shop: Shop) -> None:
    shop.write("expectation_results", result("orphans", 1, False), result("orphans", 2, False, sample="no JSON"))
    first = problems.expectations(shop.pipeline, shop.warehouse).rows[0]
    assert (first["since"], first["last_good"], first["streak"], first["sample"]) == (at(1), None, 2, [])


def test_what_a_result_says_of_the_past_counts_before_older_rows_which_may_be_forgotten(shop: Shop) -> None:
    schema = system_tables.EXPECTATION_RESULTS
    for name, kind in (
        ("first_seen", system_tables.INSTANT),
        ("last_good", system_tables.INSTANT),
        ("streak", pa.int64()),
    ):
        schema = schema if name in schema.names else schema.append(pa.field(name, kind))
    newest = result("orphans", 9, False, first_seen=at(-50), last_good=at(-60), streak=7)
    small_tables.append(shop.paths.table("expectation_results"), [result("orphans", 8, False), newest], schema)
    first = problems.expectations(shop.pipeline, shop.warehouse).rows[0]
    assert (first["since"], first["last_good"], first["streak"]) == (at(-50), at(-60), 7)


def test_open_findings_and_open_incidents_come_first(shop: Shop) -> None:
    findings.record(shop.paths, [Finding(CSN_BACK, None, None, 7, "x7", "x7 has csn 7")], "r1")
    page = problems.open_findings(shop.pipeline, shop.warehouse)
    assert [(row["code"], row["severity"], row["xid"], row["needs_snapshot"]) for row in page.rows] == [
        (CSN_BACK, "error", "x7", True)
    ]
    known = [
        IncidentLifecycle(Incident("finding", name, NOON, "error", "What.", "Do."), at(number), closed)
        for number, (name, closed) in enumerate([("old", at(5)), ("open", None), ("new", at(6))])
    ]
    incident_table.change(shop.paths, lambda _: known, checked_at=at(9))
    shown = problems.incidents(shop.pipeline, shop.warehouse)
    assert [(row["subject"], row["closed_at"]) for row in shown.rows] == [
        ("open", None),
        ("new", at(6)),
        ("old", at(5)),
    ]
    assert shown.as_of == at(9)


def test_a_backfill_is_one_row_with_its_tables(shop: Shop) -> None:
    def note(table: str | None, status: str, minutes: float, **counts: int) -> dict[str, Any]:
        row = {"run_id": "july", "table": table, "status": status, "at": at(minutes), "from_csn": 5}
        return row | {"counts": list(counts.items())}

    shop.write("backfills", note("items", "compared", 1, missing=2), note("items", "applied", 3, missing=2))
    shop.write("backfills", note(None, "applied", 4), {**note(None, "dropped", 2), "run_id": "june"})
    newest, oldest = runs.backfills(shop.pipeline, shop.warehouse).rows
    assert (newest["run_id"], newest["status"], newest["at"], newest["from_csn"]) == ("july", "applied", at(4), 5)
    assert [(each["table"], each["status"], each["counts"]) for each in newest["tables"]] == [
        ("items", "applied", {"missing": 2})
    ]
    assert (oldest["run_id"], oldest["tables"]) == ("june", [])


def test_a_backfill_to_the_end_has_no_last_csn(shop: Shop) -> None:
    row = {"run_id": "july", "status": "applied", "at": at(1), "from_csn": 5, "to_csn": 2**63 - 1}
    shop.write("backfills", row)
    assert [each["to_csn"] for each in runs.backfills(shop.pipeline, shop.warehouse).rows] == [None]


def test_what_a_merge_rebuilds_after_an_edit_is_not_a_backfill(shop: Shop) -> None:
    shop.write("backfills", {"run_id": "july", "status": "applied", "at": at(0), "from_csn": 5, "to_csn": 6})
    shop.write("backfills", edited("a3", "rebuilding", 1), edited("a4", "rebuilding", 2, "parts"))
    shop.write("backfills", edited("a4", "dropped", 3, "parts"), edited("a4", "rebuilding", 4, "items"))
    assert [row["run_id"] for row in runs.backfills(shop.pipeline, shop.warehouse).rows] == ["july"]
    assert [(row["run_id"], row["what"]) for row in runs.edits(shop.pipeline, shop.warehouse).rows] == [
        ("a4", "rebuilding after an edit: items, parts"),
        ("a3", "rebuilding after an edit was interrupted"),
    ]
    shop.write("backfills", edited("a4", "dropped", 5, "items"))
    assert runs.edits(shop.pipeline, shop.warehouse).rows[0]["what"] == "rebuilt after an edit: items, parts"


def edited(run_id: str, status: str, minutes: float, *tables: str) -> dict[str, Any]:
    """Return a row that a merge writes about its rebuild after an edit; without tables as an older version wrote it."""
    state = json.dumps({"tables": tables}) if tables else None
    row = {"run_id": run_id, "status": status, "at": at(minutes), "from_csn": 0, "to_csn": 2**63 - 1}
    return row | {"detail": "the declaration changed", "state": state}


def test_the_partition_that_is_furthest_behind_comes_first(shop: Shop) -> None:
    about = {"landing": 1, "at": NOON, "topic": "rows"}
    shop.write("source_partitions", {**about, "partition": 0, "csn": 9}, {**about, "partition": 1, "csn": 4})
    rows = runs.partitions(shop.pipeline, shop.warehouse).rows
    assert [(row["partition"], row["csn"], row["at"]) for row in rows] == [(1, 4, NOON), (0, 9, NOON)]
