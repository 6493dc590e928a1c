"""Accounts of old runs go; what is still added up, decided or open stays."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import load, names
from txloom.config.models.pipeline import Pipeline
from txloom.storage import system_tables
from txloom.storage.checks import results
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.health.facts import facts
from txloom.storage.maintenance import expiry
from txloom.storage.paths import TablePaths
from txloom.storage.runs.job_results import JobResult, ResultFile
from txloom.storage.runs.ledger import balance
from txloom.storage.views.pipeline import problems

NOW = datetime(2026, 11, 20, tzinfo=UTC)
STEPS = ("land_events", "buffer_transactions", "merge_current", "balance", "publish", "accept_loss")


def entry(step: str, days_ago: int, **more: Any) -> dict[str, Any]:
    given = {"run_id": "r", "step": step, "generation": 1, "batch": 0, "at": NOW - timedelta(days=days_ago)}
    return {**given, "counts": [("landed", 1)], "valid_through": None, "balanced": None, "detail": None, **more}


def ledger(folder: Path, *rows: dict[str, Any]) -> TablePaths:
    paths = TablePaths(str(folder), "shop")
    small_tables.append(paths.table(names.LEDGER), rows, system_tables.LEDGER)
    return paths


def ledger_rows(paths: TablePaths) -> list[tuple[str, int, str, int]]:
    rows = small_tables.query(paths.table(names.LEDGER), "select * from t order by at, step")
    return [(row["step"], (NOW - row["at"]).days, row["run_id"], dict(row["counts"])["landed"]) for row in rows]


def test_old_rows_of_the_ledger_become_one_for_each_step_that_is_added_up(tmp_path: Path) -> None:
    lines = [entry(step, age) for step in ("land_events", "publish", "accept_loss") for age in (30, 20, 2)]
    paths = ledger(tmp_path, *lines)
    assert expiry.shorten_ledger(paths, NOW - timedelta(days=10)) == 3
    assert ledger_rows(paths) == [
        ("accept_loss", 30, "r", 1),
        ("accept_loss", 20, "r", 1),
        ("land_events", 20, "carried forward", 2),
        *((step, 2, "r", 1) for step in ("accept_loss", "land_events", "publish")),
    ]
    assert expiry.shorten_ledger(paths, NOW - timedelta(days=10)) == 0


def test_the_newest_row_of_each_step_stays_and_the_newest_good_one(tmp_path: Path) -> None:
    paths = ledger(
        tmp_path,
        entry("merge_current", 40),
        entry("merge_current", 30),
        entry("merge_current", 20, detail="accounts: torn"),
        entry("balance", 25),
    )
    assert expiry.shorten_ledger(paths, NOW) == 1
    assert [row[:2] for row in ledger_rows(paths)] == [("merge_current", 30), ("balance", 25), ("merge_current", 20)]


rows = st.builds(
    lambda step, days, generation, counts: entry(step, days, generation=generation, counts=list(counts.items())),
    st.sampled_from(STEPS),
    st.integers(0, 20),
    st.integers(1, 2),
    st.dictionaries(st.sampled_from(("landed", "released", "dead")), st.integers(0, 9)),
)


@given(lines=st.lists(rows, min_size=1, max_size=12), ages=st.lists(st.integers(0, 20), min_size=1, max_size=3))
@settings(max_examples=examples(25), deadline=None)
def test_what_is_added_up_stays_the_same_however_often_the_ledger_is_shortened(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]], ages: list[int]
) -> None:
    paths = ledger(tmp_path_factory.mktemp("books"), *lines)
    path = paths.table(names.LEDGER)
    newest = "select step, max(at) as at from t group by step order by step"
    generation = "select max(generation) as g from t where step = 'buffer_transactions'"

    def known() -> list[Any]:
        sums = balance(paths.warehouse, "shop", expiry.SUMMED)
        return [*sums, small_tables.query(path, newest), small_tables.query(path, generation)]

    before = known()
    for age in ages:
        size = len(small_tables.query(path, "select 1 from t"))
        gone = expiry.shorten_ledger(paths, NOW - timedelta(days=age))
        assert len(small_tables.query(path, "select 1 from t")) == size - gone
    assert known() == before


def test_a_row_that_another_run_appends_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ledger(tmp_path, *(entry("publish", age) for age in (30, 20)))
    ask = small_tables.ask

    def slow(table: DeltaTable, sql: str) -> list[dict[str, Any]]:
        rows = ask(table, sql)
        monkeypatch.undo()
        ledger(tmp_path, entry("publish", 1))
        return rows

    monkeypatch.setattr(small_tables, "ask", slow)
    assert expiry.shorten_ledger(paths, NOW) == 1
    assert [row[:2] for row in ledger_rows(paths)] == [("publish", 20), ("publish", 1)]


def test_reports_go_but_the_newest_of_each_and_what_is_open(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    ages = (40, 30, 20, 1)
    checks = [
        {"run_id": f"r{age}", "expectation": "orphans", "success": age != 20, "checked_at": NOW - timedelta(days=age)}
        for age in ages
    ]
    small_tables.append(paths.table(names.EXPECTATION_RESULTS), checks[:3], system_tables.EXPECTATION_RESULTS)
    sizes = [{"run_id": f"r{age}", "table": "a", "measured_at": NOW - timedelta(days=age)} for age in ages]
    small_tables.append(paths.table(names.TABLE_STATISTICS), sizes, system_tables.TABLE_STATISTICS)
    closed = [{"kind": "dead_letters", "closed_at": NOW - timedelta(days=a), "is_over": a != 30} for a in ages]
    small_tables.append(
        paths.table(names.INCIDENTS), [*closed, {"kind": "stuck", "is_over": False}], system_tables.INCIDENTS
    )
    assert expiry.drop_reports(paths, NOW - timedelta(days=10)) == 1 + 3 + 2
    left = small_tables.query(paths.table(names.EXPECTATION_RESULTS), "select run_id from t order by run_id")
    assert [row["run_id"] for row in left] == ["r20", "r30"], "the newest that failed and the newest that passed"
    left = small_tables.query(paths.table(names.TABLE_STATISTICS), "select run_id from t")
    assert [row["run_id"] for row in left] == ["r1"]
    left = small_tables.query(paths.table(names.INCIDENTS), "select kind, is_over from t order by kind, is_over")
    assert [(row["kind"], row["is_over"]) for row in left] == [
        ("dead_letters", False),
        ("dead_letters", True),
        ("stuck", False),
    ]
    assert expiry.drop_reports(paths, NOW - timedelta(days=10)) == 0


def test_a_pipeline_without_tables_has_nothing_to_forget(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    assert expiry.shorten_ledger(paths, NOW) == 0
    assert expiry.drop_reports(paths, NOW) == 0
    assert expiry.drop_checkpoints(paths, timedelta(0)) == 0
    assert expiry.expired_landing(paths, NOW) == 0


def test_landings_expire_behind_those_of_before(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    clocks = [
        {"landing": n, "row": -1, "kind": "clock", "landed_at": NOW - timedelta(days=20 - n)} for n in range(1, 11)
    ]
    small_tables.append(paths.change_events, clocks, system_tables.CHANGE_EVENTS)
    about = {"release": 1, "landing": 9}
    small_tables.replace(paths.table(names.PENDING_TRANSACTIONS), [], system_tables.PENDING_TRANSACTIONS, about)
    for since in range(6):
        assert expiry.expired_landing(paths, NOW - timedelta(days=14), since) == 5
    assert expiry.expired_landing(paths, NOW - timedelta(days=14), 8) == 8, "kept for longer by now"
    assert expiry.expired_landing(paths, NOW) == 9, "the last one is not buffered yet"


DECLARED = """
name: shop
source: {{format: change_sets, files: {{path: {folder}}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
expectations:
  - {{kind: stuck_transactions, id: stuck, older_than: 1h, severity: warn, sentence: Nobody waits., hint: Look.}}
alerts: {{source_quiet: 1d}}
"""


def declared(folder: Path) -> Pipeline:
    file = folder / "shop.yaml"
    file.write_text(DECLARED.format(folder=folder))
    return load(file)


def test_whoever_is_asked_says_since_when_an_expectation_fails_though_old_results_were_removed(tmp_path: Path) -> None:
    pipeline, paths = declared(tmp_path), TablePaths(str(tmp_path), "shop")
    same = {"expectation": "stuck", "kind": "stuck_transactions", "severity": "warn", "checked": 9, "sample": "[]"}
    same |= {"detail": "", "sentence": "Nobody waits.", "hint": "Look.", "versions": []}
    for age in (30, 20, 15, 1):
        at, success = NOW - timedelta(days=age), age == 30
        row = {**same, "run_id": f"r{age}", "checked_at": at, "success": success, "failed": 0 if success else 2}
        results.entered(paths, row, None)
    assert expiry.drop_reports(paths, NOW - timedelta(days=10)) == 2
    began, good = NOW - timedelta(days=20), NOW - timedelta(days=30)
    (row,) = problems.expectations(pipeline, str(tmp_path)).rows
    assert (row["since"], row["last_good"], row["streak"]) == (began, good, 3)
    (fact,) = facts(pipeline, paths, NOW).expectations
    assert fact["since"] == began
    again = {**same, "run_id": "r0", "checked_at": NOW, "success": False, "failed": 2}
    entered = results.entered(paths, again, None)
    assert (entered["first_seen"], entered["last_good"], entered["streak"]) == (began, good, 4)


@pytest.mark.parametrize("redriven", [False, True])
def test_a_quiet_source_is_quiet_since_its_last_landing_though_the_ledger_was_shortened(
    tmp_path: Path, redriven: bool
) -> None:
    """Landings that bring nothing, and a redrive, are no sign of life."""
    lines = [
        entry("land_events", age, batch=30 - age, counts=[("landed", int(age in (25, 20)))]) for age in (25, 20, 8, 2)
    ]
    paths = ledger(tmp_path, *lines)
    if redriven:
        small_tables.append(paths.table(names.LEDGER), [entry("land_events", 12, batch=18)], system_tables.LEDGER)
        again = {"landing": 18, "file_number": 0, "topic": open_letters.REDRIVE}
        small_tables.append(paths.landed_files, [again], system_tables.LANDED_FILES)
    quiet = NOW - timedelta(days=20)
    assert facts(declared(tmp_path), paths, NOW).landed_at == quiet
    assert expiry.shorten_ledger(paths, NOW - timedelta(days=7)) > 0
    assert facts(declared(tmp_path), paths, NOW).landed_at == quiet
    assert balance(str(tmp_path), "shop", ["land_events"])[0]["landed"] == 2 + redriven


def test_results_of_jobs_go_with_the_run_that_wrote_nothing_since(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    for run_id, age in (("old", 30), ("cleared", 30), ("new", 1)):
        ResultFile(paths, run_id, "publish").write(JobResult({"cut_id": 1}))
        file = tmp_path / "shop" / names.RUNS / run_id / "publish.json"
        for each in (file, file.parent):
            os.utime(each, ((NOW - timedelta(days=age)).timestamp(),) * 2)
    ResultFile(paths, "cleared", "merge_current").write(JobResult({}))
    assert expiry.drop_run_folders(paths, names.RUNS, NOW - timedelta(days=10)) == 1
    there = {run_id: ResultFile(paths, run_id, "publish").read() for run_id in ("old", "cleared", "new")}
    assert [run_id for run_id, result in there.items() if result is not None] == ["cleared", "new"]
