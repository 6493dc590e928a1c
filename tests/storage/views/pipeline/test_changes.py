"""What changed since a moment: each kind of change once, before the moment never, what is to be done first."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from storage.views.booked import ALERTS, Shop, at
from txloom.errors import ConfigurationError
from txloom.quality.findings import ADDED, CSN_BACK, RUNS_OVERLAP, Finding
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import BROKEN, FINDING, TASK, Incident
from txloom.storage import system_tables
from txloom.storage.checks import findings
from txloom.storage.delta import read_session, small_tables
from txloom.storage.health import incidents
from txloom.storage.targets import schemas
from txloom.storage.views.pipeline.changes import brief, changes, moment_of
from txloom.storage.views.pipeline.overview import overview

SINCE, NOW = at(0), at(60)


def texts(shop: Shop, since: datetime = SINCE, now: datetime = NOW) -> list[tuple[str, str]]:
    shown = changes(shop.pipeline, shop.warehouse, since=since, now=now)
    return [(row.urgency, row.what) for row in shown.rows]


def cut(number: int, minutes: float, through: int) -> dict[str, Any]:
    row = {"cut_id": number, "valid_through": through, "release": number, "published_at": at(minutes)}
    return row | {"versions": [("items", number)], "gaps": [], "amends": []}


def letter(number: int, minutes: float, **more: Any) -> dict[str, Any]:
    row = {"transaction_id": f"x{number}:{number}", "xid": f"x{number}", "csn": number, "kind": "row", "landing": 1}
    return row | {"cause": "table short", "row": number, "dead_at": at(minutes), "file": "f", "line": number, **more}


def result(minutes: float, success: bool, **more: Any) -> dict[str, Any]:
    row = {"expectation": "orphans", "kind": "orphans", "severity": "block", "success": success, "checked": 9}
    row |= {"failed": 0 if success else 2, "sample": "[]", "checked_at": at(minutes), "run_id": f"r{minutes}"}
    return row | more


def test_a_pipeline_that_never_ran_has_no_changes(shop: Shop) -> None:
    assert changes(shop.pipeline, shop.warehouse, since=SINCE).rows == ()


def test_cuts_say_how_many_and_how_far_valid_through_moved(shop: Shop) -> None:
    shop.write("cuts", cut(1, -5, 7), cut(2, 5, 9), cut(3, 10, 12))
    assert texts(shop) == [("moved", "2 cuts published: valid-through moved from 7 to 12")]
    assert texts(shop, at(-10)) == [("moved", "3 cuts published: valid-through is 12; there was none before")]
    assert texts(shop, at(10)) == []
    shop.write("cuts", cut(4, 20, 12))
    assert texts(shop, at(10)) == [("moved", "1 cut published: valid-through stays at 12")]


def test_a_backfill_has_its_newest_state_and_an_edit_is_not_a_backfill(shop: Shop) -> None:
    backfill = [{"run_id": "july", "status": status, "at": at(n)} for n, status in enumerate(("rebuilt", "applied"), 1)]
    edit = {"run_id": "a4", "detail": "the declaration changed", "state": '{"tables": ["items"]}'}
    shop.write("backfills", *backfill, {**edit, "status": "rebuilding", "at": at(3)})
    assert texts(shop) == [("over", "backfill july: applied"), ("over", "rebuilding after an edit: items")]
    shop.write("backfills", {**edit, "status": "dropped", "at": at(4)})
    assert texts(shop, at(3)) == [("over", "rebuilt after an edit: items")]


def test_an_expectation_that_was_not_judged_goes_on_as_before(shop: Shop) -> None:
    unjudged = {"detail": "not judged: items is not complete", "checked": 0, "failed": 0}
    failed = result(5, False, first_seen=at(5), streak=1)
    shop.write("expectation_results", result(-5, True), failed)
    said = texts(shop)
    assert said == [("act", "orphans fails: 2 of 9 rows")]
    carried = {"first_seen": at(5), "streak": 1}
    shop.write("expectation_results", result(6, False, **carried) | {"success": None, **unjudged})
    assert texts(shop) == said


def test_dead_letters_that_came_are_counted_by_cause_until_they_are_released_or_dismissed(shop: Shop) -> None:
    shop.write("dead_letters", letter(1, -5), letter(2, 5), letter(3, 6), letter(4, 7, cause="excess"))
    assert texts(shop) == [
        ("act", "2 dead letters of 2 transactions: table short"),
        ("act", "1 dead letter of 1 transaction: excess"),
    ]
    done = {"status": "released", "release": 9, "rows": 1}
    released = [
        {"transaction_id": f"x{n}:{n}", "xid": f"x{n}", "csn": n, "finished_at": at(8), **done} for n in (1, 2, 8)
    ]
    shop.write("transactions", *released)
    dismissal = {"landing": 1, "row": 4, "person": "ada", "reason": "sent again", "cause": "excess", "at": at(9)}
    small_tables.append(shop.paths.table("dismissals"), [dismissal], system_tables.DISMISSALS)
    assert texts(shop) == [
        ("act", "1 dead letter of 1 transaction: table short"),
        ("over", "1 dead letter dismissed by ada"),
        ("over", "2 dead transactions redriven and released"),
    ]
    assert texts(shop, at(9)) == []


def test_transactions_that_began_to_wait_are_to_act_on_once_they_are_stuck(tmp_path: Path) -> None:
    shop = Shop(tmp_path, alerts=ALERTS)
    waits = [
        {"transaction_id": f"x{n}", "csn": n, "cause": "table short", "first_landed_at": at(n)} for n in (-1, 1, 2)
    ]
    shop.wait(*waits)
    assert texts(shop, now=at(10)) == [("moved", "2 transactions began to wait: table short")]
    assert texts(shop, now=at(12)) == [("act", "2 transactions began to wait: table short")]
    assert texts(shop, at(2), now=at(12)) == []


def test_findings_that_opened_or_were_closed_are_told_and_harmless_notes_are_not(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(minutes: float, step: Any) -> None:
        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return at(minutes)

        with monkeypatch.context() as patched:
            patched.setattr(findings, "datetime", Clock)
            step()

    back = Finding(CSN_BACK, None, None, 7, "x7", "x7 has csn 7")
    new = Finding(ADDED, "items", "gift", 8, "x8", "items has gift")
    record(-5, lambda: findings.record(shop.paths, [back], "r1"))
    record(5, lambda: findings.record(shop.paths, [new], "r2"))
    record(6, lambda: findings.note(shop.paths, [Finding(RUNS_OVERLAP, "items", None, 9, "x9", "again")], "r3"))
    assert texts(shop, at(-10)) == [("act", f"finding: {CSN_BACK}"), ("over", f"finding: {ADDED}, items.gift")]
    assert texts(shop) == [("over", f"finding: {ADDED}, items.gift")]
    (row,) = [each for each in findings.open_findings(shop.paths) if each["code"] == CSN_BACK]
    record(7, lambda: findings.close(shop.paths, [row], "r4", "a snapshot was loaded"))
    assert texts(shop, at(6)) == [("over", f"finding: {CSN_BACK} is closed")]
    (closed,) = changes(shop.pipeline, shop.warehouse, since=at(6), now=NOW).rows
    assert closed.detail == "x7 has csn 7; a snapshot was loaded"
    record(8, lambda: findings.record(shop.paths, [back], "r5"))
    assert texts(shop, at(6)) == [("act", f"finding: {CSN_BACK}")]


def test_an_expectation_that_began_to_fail_or_holds_again_is_told(shop: Shop) -> None:
    shop.write("expectation_results", result(-5, success=True), result(5, success=False, first_seen=at(5), streak=1))
    shop.write("expectation_results", result(10, success=False, first_seen=at(5), streak=2))
    assert texts(shop) == [("act", "orphans fails: 2 of 9 rows")]
    assert texts(shop, at(7)) == [], "it failed before already"
    shop.write("expectation_results", result(20, success=True))
    assert texts(shop, at(7)) == [("over", "orphans holds again")]
    assert texts(shop) == [("over", "orphans holds again")], "also where it began to fail since"
    assert texts(shop, at(20)) == []


def test_incidents_that_opened_and_those_that_are_over_are_told_but_for_those_whose_rows_are(shop: Shop) -> None:
    def lasted(kind: str, subject: str, opened: float, closed: float | None = None) -> IncidentLifecycle:
        incident = Incident(kind, subject, at(opened), "error", f"{kind}.", "Look.")
        return IncidentLifecycle(incident, at(opened), None if closed is None else at(closed))

    every = [lasted(TASK, "shop_cdc.publish", 5), lasted(BROKEN, "", -9, 6), lasted(BROKEN, "", -20, -10)]
    incidents.change(shop.paths, lambda _: [*every, lasted(FINDING, "x", 7), lasted(TASK, "shop_cdc.late", -5)])
    assert texts(shop) == [("act", "failed task shop_cdc.publish"), ("over", "pipeline broken is over")]


def test_columns_that_were_taken_up_or_declared_since_are_told(shop: Shop) -> None:
    adopted = {"table": "items", "column": "gift", "source": "GIFT", "since_csn": 3, "added_at": at(4)}
    small_tables.append(shop.paths.table("evolved_columns"), [adopted], system_tables.EVOLVED_COLUMNS)
    items = shop.paths.table("items")
    small_tables.ensure(items, schemas.current_schema(shop.pipeline.table("items")))
    shop.write("cuts", cut(1, -5, 7) | {"versions": [("items", 0)]})
    wider = pa.schema([*small_tables.schema_of(items), pa.field("gift", pa.string())])
    write_deltalake(items, wider.empty_table(), mode="append", schema_mode="merge")
    shop.write("cuts", cut(2, 5, 9) | {"versions": [("items", 1)]})
    assert texts(shop) == [
        ("over", "items took up the column gift"),
        ("over", "items has 1 new column: gift"),
        ("moved", "1 cut published: valid-through moved from 7 to 9"),
    ]


def test_a_table_without_a_commit_since_is_not_asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.write("cuts", cut(1, -5, 7))
    shop.write("dead_letters", letter(1, -5))
    shop.wait({"transaction_id": "x9", "csn": 9, "first_landed_at": at(1)})
    monkeypatch.setattr(read_session, "answer", lambda *_: pytest.fail("a query was run"))
    later = datetime.now(UTC) + timedelta(hours=1)
    assert changes(shop.pipeline, shop.warehouse, since=later, now=later).rows == ()


def test_the_overview_says_of_each_pipeline_what_its_own_page_says_in_brief(shop: Shop) -> None:
    shop.write("cuts", cut(1, -5, 7), cut(2, 5, 9))
    shop.write("dead_letters", letter(2, 5))
    shown = overview([shop.pipeline], shop.warehouse, since=SINCE, now=NOW)
    assert shown.changes == {"shop": brief(shop.pipeline, shop.warehouse, since=SINCE, now=NOW)}
    assert [row.what for row in shown.changes["shop"].rows] == [text for _, text in texts(shop)]
    assert overview([shop.pipeline], shop.warehouse, now=NOW).changes == {}


@pytest.mark.parametrize(
    "text", ["", "2", "yesterday", "999999d", "2026-13-01", "2026-01-03", "0001-01-01T00:00+14:00"]
)
def test_a_text_that_names_no_moment_or_one_to_come_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^since: "):
        moment_of(text, at(0))
