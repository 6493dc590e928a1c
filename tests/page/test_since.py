"""What a page compares with: failed runs among the changes, and a page for each kind of change."""

from datetime import UTC, datetime, timedelta

from txloom.page import pages
from txloom.page.since import PARTS, EndedRuns, Since, shown_by
from txloom.storage.views.pipeline.changes import ACT, MOVED, OVER, RUN, WAITING, Change, Changes

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_failed_runs_are_to_act_on_until_a_later_one_succeeds() -> None:
    runs = (
        EndedRuns("shop_cdc", 2, NOON, None),
        EndedRuns("shop_maintenance", 1, NOON, NOON + HOUR),
        EndedRuns("shop_backfill", 1, NOON, NOON - HOUR),
        EndedRuns("other_cdc", 1, NOON, None),
    )
    moved = Change(MOVED, WAITING, "", "1 transaction began to wait", NOON)
    news = Since(NOON - HOUR, runs=runs).with_runs(Changes(NOON - HOUR, (moved,)), {each.dag_id for each in runs[:3]})
    assert [(row.urgency, row.kind, row.what) for row in news.rows] == [
        (ACT, RUN, "2 runs of shop_cdc failed"),
        (ACT, RUN, "1 run of shop_backfill failed"),
        (OVER, RUN, "1 run of shop_maintenance failed; a later one succeeded"),
        (MOVED, WAITING, "1 transaction began to wait"),
    ]


def test_each_kind_of_change_has_a_page_that_exists() -> None:
    assert {part for part, _ in PARTS.values()} <= pages.PARTS.keys()
    waits = Change(ACT, WAITING, "table short", "12 transactions began to wait", NOON)
    assert shown_by(waits) == ("waiting", {"cause": "table short"})
    assert shown_by(Change(ACT, "pipeline broken", "", "pipeline broken", NOON)) == ("incidents", {})
