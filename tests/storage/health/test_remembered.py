"""What is remembered of a pipeline counts only while the tables that it was read of are as they were."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.views.booked import ALERTS, Shop, at
from txloom.quality.findings import CSN_BACK, Finding
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import TASK, Incident
from txloom.storage import system_tables
from txloom.storage.checks import findings
from txloom.storage.delta import read_session, small_tables
from txloom.storage.health import incidents
from txloom.storage.health.remembered import FORMAT, File
from txloom.storage.runs.lease import held
from txloom.storage.views.pipeline.changes import brief
from txloom.storage.views.pipeline.overview import UNREADABLE, health, overview, remember

NOW = at(60)
Write = Callable[[Shop, int], Any]


def landed(folder: Path) -> Shop:
    """Return a pipeline that has landed something once, with alerts."""
    shop = Shop(folder, alerts=ALERTS)
    small_tables.ensure(shop.paths.change_events, system_tables.CHANGE_EVENTS)
    return shop


def append(name: str, /, **columns: Any) -> Write:
    schema = getattr(system_tables, name.upper())
    return lambda shop, number: small_tables.append(
        shop.paths.table(name),
        [{column: each(number) if callable(each) else each for column, each in columns.items()}],
        schema,
    )


def cut(shop: Shop, number: int) -> None:
    row = {"cut_id": number, "valid_through": number, "release": number, "published_at": at(number)}
    shop.write("cuts", row | {"committed_at": at(number - 1), "versions": [("items", 1)], "gaps": [], "amends": []})


def hold(shop: Shop, number: int) -> None:
    with held(shop.paths, f"r{number}", "publish"):
        pass


def finding(shop: Shop, number: int) -> None:
    findings.record(shop.paths, [Finding(CSN_BACK, None, f"c{number}", 7, "x7", "x7 has csn 7")], "r1")


def close(shop: Shop, number: int) -> None:
    findings.close(shop.paths, findings.open_findings(shop.paths), f"r{number}", "over")


def task(shop: Shop, number: int) -> None:
    failed = Incident(TASK, f"shop_cdc.t{number}", at(number), "error", "It failed.", "Clear it.")
    incidents.change(shop.paths, lambda known: [*known, IncidentLifecycle(failed, at(number))])


def wait(shop: Shop, number: int) -> None:
    rows = [
        {"transaction_id": f"w{n}", "csn": n, "cause": "table short", "first_landed_at": at(n)} for n in range(number)
    ]
    shop.wait(*rows, release=number, landing=number)


LETTER = {"kind": "row", "cause": "table short", "landing": 1, "file": "f", "line": 1}
RESULT = {"kind": "orphans", "severity": "block", "checked": 9, "failed": 1, "sample": '[{"id": 1}]', "hint": "Look."}
OF = {"transaction_id": lambda n: f"x{n % 3}:{n % 3}", "xid": lambda n: f"x{n % 3}", "csn": lambda n: n % 3}
WRITES: dict[str, Write] = {
    "cut": cut,
    "lease": hold,
    "finding": finding,
    "closed finding": close,
    "failed task": task,
    "waiting": wait,
    "dead letter": append("dead_letters", **OF, row=lambda n: n, dead_at=at, **LETTER),
    "released": append("transactions", **OF, status="released", release=lambda n: n, finished_at=at),
    "dismissal": append("dismissals", landing=1, row=lambda n: n - 1, person="ada", reason="sent", at=at),
    "landing": append("landed_files", landing=lambda n: n, at=at, topic="rows", file="f"),
    "redrive": append("landed_files", landing=lambda n: n, at=at, topic="_txloom_redrive"),
    "read again": append("file_positions", landing=lambda n: n, at=at, topic="t", read_again=True),
    "failed": append("expectation_results", expectation="orphans", success=False, checked_at=at, **RESULT),
    "passed": append("expectation_results", expectation="orphans", success=True, checked_at=at, **RESULT),
    "column": append("evolved_columns", table="items", column=lambda n: f"c{n}", added_at=at),
    "backfill": append("backfills", run_id=lambda n: f"b{n}", status="applied", at=at),
    "snapshot": append("source_snapshots", landing=lambda n: n, left_out=False, rows=1, lowest=9, highest=9, ended=-1,
                       closed=-1, since=at),
    "landed": lambda shop, n: shop.step("land_events", n, f"r{n}", counts={"landed": n}, batch=n),
    "balance": lambda shop, n: shop.step("balance", n, f"r{n}", balanced=bool(n % 2), detail="1 event is lost"),
    "merged": lambda shop, n: shop.step("merge_current", n, f"r{n}", counts={"release": n}, valid_through=n),
    "gone": lambda shop, _: shutil.rmtree(shop.paths.table("items"), ignore_errors=True),
    "ledger gone": lambda shop, _: shutil.rmtree(shop.paths.table("ledger"), ignore_errors=True),
}  # fmt: skip
"""Whatever changes what the overview reads, by name; each gets a number that grows."""


def refuse_other_answers(shop: Shop) -> None:
    """Compare the overview with what the pipeline's own page reads, both as a new process would."""
    for since in (at(0), at(3), at(1_000_000)):
        now = max(NOW, since)
        read_session._TABLES.clear()
        read_session._ANSWERS.clear()
        shown = overview([shop.pipeline], shop.warehouse, since=since, now=now)
        assert UNREADABLE not in [each.kind for each in shown.rows[0].reasons], shown.rows[0].reasons
        assert shown.rows == [health(shop.pipeline, shop.warehouse, now=now)]
        assert shown.changes["shop"] == brief(shop.pipeline, shop.warehouse, since=since, now=now)


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(["remember", *WRITES]), min_size=2, max_size=10))
def test_the_overview_says_what_the_details_say_whatever_was_written_since(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    shop = landed(tmp_path_factory.mktemp("lake"))
    for number, name in enumerate(steps, 1):
        if name == "remember":
            remember(shop.pipeline, shop.warehouse)
        else:
            WRITES[name](shop, number)
    refuse_other_answers(shop)


@pytest.mark.parametrize("name", WRITES)
def test_each_write_shows_behind_what_is_remembered(tmp_path: Path, name: str) -> None:
    shop = landed(tmp_path)
    for number, write in enumerate((*(each for each in WRITES if "gone" not in each), "passed"), 1):
        WRITES[write](shop, number)
    remember(shop.pipeline, shop.warehouse)
    refuse_other_answers(shop)
    WRITES[name](shop, 50)
    refuse_other_answers(shop)


def test_what_is_remembered_opens_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = landed(tmp_path)
    for number, name in enumerate(("landed", "waiting", "balance", "merged", "cut", "passed"), 1):
        WRITES[name](shop, number)
    WRITES["waiting"](shop, 0)
    remember(shop.pipeline, shop.warehouse)
    expected = overview([shop.pipeline], shop.warehouse, since=at(2), now=NOW)
    read_session._TABLES.clear()
    monkeypatch.setattr(read_session, "table_at", lambda *_, **__: pytest.fail("a table was opened"))
    assert overview([shop.pipeline], shop.warehouse, since=at(2), now=NOW) == expected
    assert expected.rows[0].cut_id == 5 and expected.changes["shop"].rows


@pytest.mark.parametrize(
    "content", [b"", b"no messagepack", msgspec.msgpack.encode(File(FORMAT + 1, {})), msgspec.msgpack.encode([1])]
)
def test_a_file_that_cannot_be_read_or_is_of_another_version_is_as_none(tmp_path: Path, content: bytes) -> None:
    shop = landed(tmp_path)
    cut(shop, 3)
    Path(shop.paths.table("_overview")).write_bytes(content)
    refuse_other_answers(shop)
    remember(shop.pipeline, shop.warehouse)
    assert Path(shop.paths.table("_overview")).read_bytes() != content
    refuse_other_answers(shop)


def test_no_run_fails_where_nothing_can_be_remembered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shop = landed(tmp_path)
    cut(shop, 3)
    Path(shop.paths.table("_overview")).mkdir()
    remember(shop.pipeline, shop.warehouse)
    assert "_overview was not written: " in caplog.text
    refuse_other_answers(shop)


def test_a_time_that_passes_shows_behind_what_is_remembered(tmp_path: Path) -> None:
    shop = landed(tmp_path)
    for number, name in enumerate(("landed", "waiting", "cut"), 10):
        WRITES[name](shop, number)
    remember(shop.pipeline, shop.warehouse)
    for minutes in (12, 15, 25, 60, 600):
        now = at(0) + timedelta(minutes=minutes)
        assert overview([shop.pipeline], shop.warehouse, now=now).rows == [
            health(shop.pipeline, shop.warehouse, now=now)
        ]
