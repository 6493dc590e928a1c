"""How pipelines fare: what colors them, and why, in words."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.views.booked import ALERTS, NOON, Shop, at
from txloom.quality.findings import CSN_BACK, Finding
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import TASK, Incident
from txloom.storage.checks import findings
from txloom.storage.health import incidents
from txloom.storage.runs.lease import held
from txloom.storage.views.pipeline.lag_series import series
from txloom.storage.views.pipeline.overview import Health, health, overview

NOW = at(20)


def run(shop: Shop, minutes: float = 10, **balance: Any) -> None:
    """Write what a good run leaves."""
    shop.step("land_events", minutes, counts={"landed": 5}, batch=1, generation=0)
    shop.wait()
    shop.step("balance", minutes, **{"balanced": True, **balance})
    shop.step("merge_current", minutes, counts={"release": 1}, valid_through=7)
    cut = {"cut_id": 3, "valid_through": 7, "release": 1, "committed_at": at(minutes - 2), "published_at": at(minutes)}
    shop.write("cuts", cut | {"versions": [("items", 4)], "gaps": [], "amends": []})


def judged(shop: Shop) -> Health:
    return health(shop.pipeline, shop.warehouse, now=NOW)


def reason_texts(finding: Health) -> list[tuple[str, str, str]]:
    return [(each.kind, each.severity, each.what) for each in finding.reasons]


def test_a_pipeline_that_never_ran_is_grey_unless_alerts_expect_something(tmp_path: Path) -> None:
    silent = judged(Shop(tmp_path))
    assert (silent.color, silent.reasons, silent.valid_through, silent.age_seconds) == ("grey", (), None, None)
    assert (silent.waiting, silent.dead_letters, silent.cut_id, silent.as_of, silent.lease) == (0, 0, None, None, None)
    assert silent.empty_at == f"{tmp_path}/lake/shop"
    awaited = judged(Shop(tmp_path, alerts=ALERTS))
    assert (awaited.color, reason_texts(awaited)) == (
        "red",
        [("pipeline broken", "error", "Nothing was ever landed. Nothing is published yet.")],
    )


def test_a_pipeline_that_works_is_green_and_says_what_readers_see(tmp_path: Path) -> None:
    shop = Shop(tmp_path, alerts=ALERTS)
    run(shop)
    health_shown = judged(shop)
    assert (health_shown.color, health_shown.reasons, health_shown.dag_id, health_shown.pipeline) == (
        "green",
        (),
        "shop_cdc",
        "shop",
    )
    assert health_shown.empty_at == ""
    assert (health_shown.valid_through, health_shown.committed_at, health_shown.age_seconds) == (7, at(8), 12 * 60)
    assert (
        health_shown.cut_id,
        health_shown.published_at,
        health_shown.gaps,
        health_shown.landed_at,
        health_shown.as_of,
    ) == (
        3,
        at(10),
        0,
        at(10),
        at(10),
    )


def test_an_unbalanced_ledger_is_red(shop: Shop) -> None:
    run(shop, balanced=False, detail="1 events are not accounted for")
    health_shown = judged(shop)
    assert (health_shown.color, reason_texts(health_shown)) == (
        "red",
        [("ledger unbalanced", "error", "1 events are not accounted for.")],
    )
    assert health_shown.reasons[0].todo.startswith("Events are unaccounted for: clear nothing")


@pytest.mark.parametrize(("severity", "color"), [("block", "red"), ("warn", "amber"), ("info", "green")])
def test_a_failed_expectation_colors_by_its_severity(shop: Shop, severity: str, color: str) -> None:
    run(shop)
    row = {"expectation": "orphans", "severity": severity, "success": False, "checked": 9, "failed": 2, "hint": "Look."}
    shop.write("expectation_results", row | {"sentence": "All.", "sample": '[{"id": 7}]', "checked_at": at(9)})
    health_shown = judged(shop)
    held_back = " Nothing is published until it passes." if severity == "block" else ""
    reasons = [] if color == "green" else [f"All. 2 of 9 rows fail.{held_back}"]
    assert (health_shown.color, [each.what for each in health_shown.reasons]) == (color, reasons)
    if reasons:
        first = health_shown.reasons[0]
        assert (first.subject, first.since, first.rows, first.total) == ("orphans", at(9), ("id=7",), 2)


def test_dead_letters_are_amber_where_they_are_no_incident_and_red_where_they_are(tmp_path: Path) -> None:
    letter = {"transaction_id": "x1:1", "kind": "row", "table": "items", "cause": "excess", "dead_at": at(1)}
    for number, (alerts, color, severity, what) in enumerate(
        (
            ("", "amber", "warn", "1 dead letter is open."),
            ("alerts: {dead_letters: 1}\n", "amber", "warn", "1 dead letter is open."),
            ("alerts: {dead_letters: 0}\n", "red", "error", "1 dead letter is open; 0 may be."),
        )
    ):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        shop = Shop(folder, alerts=alerts)
        run(shop)
        shop.write("dead_letters", letter | {"file": "rows/1.jsonl", "line": 3})
        health_shown = judged(shop)
        assert (health_shown.color, health_shown.dead_letters, reason_texts(health_shown)) == (
            color,
            1,
            [("dead letters", severity, what)],
        )
        assert health_shown.reasons[0].page == "dags/shop_dead_letters"


def test_stuck_transactions_are_amber_and_old_ones_make_valid_through_red(tmp_path: Path) -> None:
    shop = Shop(tmp_path, alerts=ALERTS)
    run(shop)
    for minutes, there in ((5, False), (9.9, True)):
        waits = {
            "transaction_id": "x9:9",
            "csn": 9,
            "cause": "table short",
            "first_landed_at": NOW - timedelta(minutes=minutes),
        }
        shop.wait(waits | {"received": [("items", 1)]})
        health_shown = health(shop.pipeline, shop.warehouse, now=NOW + timedelta(minutes=0.2))
        kinds = [each.kind for each in health_shown.reasons]
        assert (health_shown.waiting, kinds) == (1, ["stuck transactions"] if there else [])
    later = health(shop.pipeline, shop.warehouse, now=at(39))
    assert (later.color, [each.kind for each in later.reasons]) == ("red", ["valid-through old", "stuck transactions"])


def test_stuck_are_those_that_wait_longer_and_no_others(tmp_path: Path) -> None:
    shop = Shop(tmp_path, alerts=ALERTS)
    run(shop)
    shop.wait(*({"transaction_id": f"x{n}", "csn": n, "first_landed_at": at(n)} for n in range(10, 20)))
    stuck = health(shop.pipeline, shop.warehouse, now=at(25)).reasons[0]
    assert (stuck.kind, stuck.total, stuck.since) == ("stuck transactions", 5, at(10))


def test_open_findings_failed_tasks_and_the_lease_are_told(shop: Shop) -> None:
    run(shop)
    findings.record(shop.paths, [Finding(CSN_BACK, None, None, 7, "x7", "x7 has csn 7")], "r1")
    failed = Incident(TASK, "shop_cdc.publish", at(3), "error", "It failed.", "Clear it.")
    incidents.change(shop.paths, lambda _: [IncidentLifecycle(failed, at(3)), IncidentLifecycle(failed, at(1), at(2))])
    with held(shop.paths, "r4", "merge_current"):
        health_shown = judged(shop)
    assert health_shown.lease is not None
    assert (
        health_shown.color,
        health_shown.needs_snapshot,
        health_shown.lease["run_id"],
        health_shown.lease["step"],
    ) == (
        "red",
        ("*",),
        "r4",
        "merge_current",
    )
    assert [(each.kind, each.subject) for each in health_shown.reasons] == [
        ("finding", CSN_BACK),
        (TASK, "shop_cdc.publish"),
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_work_that_waits_since_long_is_found_behind_many_small_files(tmp_path: Path, whole: bool) -> None:
    shop = Shop(tmp_path, alerts=ALERTS)
    run(shop, 0)
    shop.step("land_events", 1, "r2", counts={"landed": 2}, batch=2)
    for number in range(60):
        shop.step("land_events", 25 + number / 100, f"r{number + 3}", counts={"landed": 1}, batch=number + 3)
    if whole:
        shop.step("balance", 26, balanced=True)
        shop.step("merge_current", 26, counts={"release": 1}, valid_through=7)
    health_shown = health(shop.pipeline, shop.warehouse, now=at(31.5))
    seen = "Readers see valid-through 7, the source as of 2026-01-01 11:58:00 UTC."
    what = f"What was landed was not buffered for 30 minutes. {seen}"
    assert reason_texts(health_shown) == [("pipeline broken", "error", what)]
    assert (health_shown.as_of, health_shown.landed_at) == (at(26 if whole else 25.59), at(25.59))


def test_the_worst_come_first_and_what_cannot_be_read_hides_nobody(tmp_path: Path) -> None:
    shops = {}
    for name in ("fine", "torn", "bad"):
        (tmp_path / name).mkdir()
        shops[name] = Shop(tmp_path / name)
        run(shops[name], balanced=name != "bad", detail="it is lost")
    pipelines = []
    for name, shop in shops.items():
        (tmp_path / "lake").mkdir(exist_ok=True)
        (Path(shop.warehouse) / "shop").rename(tmp_path / "lake" / name)
        pipelines.append(shop.pipeline.model_copy(update={"name": name}))
    for file in (tmp_path / "lake" / "torn" / "cuts").glob("*.parquet"):
        file.write_bytes(b"no parquet")
    shown = overview(pipelines, str(tmp_path / "lake"), refused={"typo": "typo.yaml:1: wrong"}, now=NOW)
    assert [(row.pipeline, row.color, row.reasons[0].kind if row.reasons else None) for row in shown.rows] == [
        ("bad", "red", "ledger unbalanced"),
        ("torn", "red", "tables cannot be read"),
        ("typo", "red", "declaration refused"),
        ("fine", "green", None),
    ]
    assert (shown.counts, shown.as_of) == ({"red": 3, "amber": 0, "green": 1, "grey": 0}, NOW)
    assert (shown.rows[1].waiting, shown.rows[1].dead_letters, shown.rows[1].dag_id) == (None, None, "torn_cdc")
    assert shown.rows[2].reasons[0].what == "typo.yaml:1: wrong"


def test_no_pipeline_is_an_empty_overview(tmp_path: Path) -> None:
    assert overview([], str(tmp_path), now=NOW).rows == []


def test_the_series_shows_lag_and_what_went_through_by_time(shop: Shop) -> None:
    cut = {"versions": [], "gaps": [], "amends": []}
    shop.write("cuts", cut | {"cut_id": 1, "valid_through": 5, "committed_at": at(-70), "published_at": at(-65)})
    shop.write("cuts", cut | {"cut_id": 2, "valid_through": 9, "committed_at": at(-18), "published_at": at(-15)})
    shop.step("land_events", -35, counts={"landed": 7})
    shop.step("buffer_transactions", -34, counts={"released": 3, "dead": 1})
    shop.step("land_events", -31, counts={"landed": 2})
    shop.step("land_events", 0, counts={"landed": 4})
    shop.step("land_events", 0.1, counts={"landed": 5})
    shop.step("land_events", -31, "carried forward", counts={"landed": 900})
    lag = series(shop.pipeline, shop.warehouse, span=timedelta(hours=1), points=6, now=NOON)
    assert (lag.bucket_seconds, lag.since, lag.until, lag.as_of) == (600, at(-60), NOON, at(0.1))
    shown = [(p["at"], p["lag_seconds"], p["valid_through"], p["landed"], p["released"], p["dead"]) for p in lag.points]
    assert shown == [
        (at(-50), 20 * 60, 5, 0, 0, 0),
        (at(-40), 30 * 60, 5, 0, 0, 0),
        (at(-30), 40 * 60, 5, 9, 3, 1),
        (at(-20), 50 * 60, 5, 0, 0, 0),
        (at(-10), 8 * 60, 9, 0, 0, 0),
        (at(0), 18 * 60, 9, 4, 0, 0),
    ]


def test_a_series_before_the_first_cut_has_no_lag_and_as_many_points_as_asked_for(shop: Shop) -> None:
    lag = series(shop.pipeline, shop.warehouse, points=500, now=datetime(2026, 5, 1, tzinfo=UTC))
    assert (len(lag.points), lag.as_of) == (500, None)
    assert {(p["lag_seconds"], p["landed"]) for p in lag.points} == {(None, 0)}
