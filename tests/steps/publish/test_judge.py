"""Expectations on small tables, without Spark: what each kind finds, what a result tells, and what it never tells."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from steps.publish.checked_tables import TABLES, order
from txloom.config import load, names
from txloom.errors import ConfigurationError, ExpectationFailed
from txloom.quality.findings import DROPPED, UNKNOWN_ROW, Finding
from txloom.steps.publish.check_expectations import check_expectations, hold
from txloom.storage import system_tables
from txloom.storage.checks import data_checks, findings, results
from txloom.storage.delta import small_tables
from txloom.storage.maintenance import expiry
from txloom.storage.paths import TablePaths

HEAD = """
name: shop
source: {{format: {source}, files: {{path: {folder}}}{more}}}
completeness: {{rule: single}}
{tables}
expectations:
  - {{id: it, severity: {severity}, sentence: It holds., hint: Look., {expectation}}}
"""
NOW = datetime.now(UTC)
PROJECT = Path(__file__).resolve().parents[3]


class Shop:
    """A warehouse into which a test writes tables as the steps leave them."""

    def __init__(
        self, folder: Path, expectation: str, *, severity: str = "warn", source: str = "change_events"
    ) -> None:
        self.folder, self.runs = folder, 0
        self.paths = TablePaths(str(folder), "shop")
        self.declare(expectation, severity, source)

    def declare(self, expectation: str, severity: str = "warn", source: str = "change_events") -> None:
        more = ", snapshots: {extracts: full}" if source == "snapshots" else ""
        file = self.folder / "shop.yaml"
        head = {"source": source, "folder": self.folder, "more": more, "tables": TABLES}
        file.write_text(HEAD.format(**head, severity=severity, expectation=expectation))
        self.pipeline = load(file)

    def store(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Replace a current table's rows."""
        system_columns = {"_txloom_csn": 7, "_txloom_pos": 1, "_txloom_xid": "x7"}
        full = [{**system_columns, **row} for row in rows]
        small_tables.replace(self.paths.table(table), full, data_checks.schema_of(self.pipeline, table), {})

    def check(self, run_id: str = "") -> tuple[bool, int, list[dict[str, Any]]]:
        """Check; return success, how many rows fail, the sample."""
        self.runs += 1
        run = run_id or f"r{self.runs}"
        check_expectations(step_of(self.pipeline, self.folder, run))
        row = self.result(run)
        return row["success"], row["failed"], json.loads(row["sample"])

    def result(self, run_id: str) -> dict[str, Any]:
        return results.of_run(self.paths, run_id)["it"]

    def report(self, run_id: str, page: str) -> str:
        return (self.folder / "shop" / "_reports" / run_id / page).read_text()


def great(name: str, *arguments: str, where: str = "") -> str:
    given = f"kind: great_expectation, table: orders, expectation: {name}, arguments: {{{', '.join(arguments)}}}"
    return given + (f', where: "{where}"' if where else "")


def invariant(sql: str) -> str:
    return f"kind: invariant, sql: {json.dumps(sql)}"


@pytest.mark.parametrize(
    ("expectation", "bad"),
    [
        (great("ExpectColumnValuesToNotBeNull", "column: email"), {"email": None}),
        (great("ExpectColumnValuesToBeBetween", "column: total", "min_value: 0"), {"total": Decimal("-0.01")}),
        (great("ExpectColumnValuesToMatchRegex", "column: email", "regex: '^[^@]+@[^@]+$'"), {"email": "<script>"}),
        (great("ExpectColumnValuesToBeInSet", "column: version", "value_set: [1, 2]"), {"version": 2**60 + 1}),
    ],
)
def test_an_expectation_of_great_expectations_names_exactly_the_rows_that_fail(
    tmp_path: Path, expectation: str, bad: dict[str, Any]
) -> None:
    shop = Shop(tmp_path, expectation)
    shop.store("orders", [order(1), order(2, **bad), order(3), order(4, **bad)])
    (column, value), *_ = bad.items()
    shown = str(value) if isinstance(value, Decimal) else value
    assert shop.check() == (False, 2, [{"id": 2, column: shown}, {"id": 4, column: shown}])
    shop.store("orders", [order(1), order(2), order(3), order(4)])
    assert shop.check() == (True, 0, [])


def test_a_number_of_a_whole_column_is_told_beside_the_rows_it_comes_from(tmp_path: Path) -> None:
    shop = Shop(tmp_path, great("ExpectColumnSumToBeBetween", "column: total", "max_value: 20"))
    shop.store("orders", [order(1), order(2), order(3)])
    assert shop.check() == (False, 1, [{"column": "total", "observed": 30.0}])
    assert shop.result("r1")["detail"] == "observed 30.0"
    shop.store("orders", [order(1), order(2)])
    assert shop.check() == (True, 0, [])


def test_only_the_chosen_rows_are_judged_and_an_empty_table_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path, great("ExpectColumnValuesToNotBeNull", "column: email", where="id > 1"))
    shop.store("orders", [order(1, email=None), order(2), order(3)])
    assert shop.check() == (True, 0, [])
    assert shop.result("r1")["checked"] == 2
    shop.declare(great("ExpectTableRowCountToBeBetween", "min_value: 1"))
    shop.store("orders", [])
    assert shop.check() == (False, 1, [{"observed": 0}])


def test_columns_are_judged_without_reading_rows(tmp_path: Path) -> None:
    shop = Shop(tmp_path, great("ExpectColumnToExist", "column: gift_note"))
    shop.store("orders", [order(1)])
    assert shop.check()[:2] == (False, 1)
    shop.declare(great("ExpectColumnToExist", "column: email"))
    assert shop.check() == (True, 0, [])


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        (
            great("ExpectColumnMaxToBeBetween", "column: email", "min_value: 1"),
            "expectation it: ExpectColumnMaxToBeBetween cannot judge this table: ",
        ),
        (
            great("ExpectColumnValuesToBeBetween", "column: total", "min_value: tomorrow"),
            "expectation it: ExpectColumnValuesToBeBetween cannot judge this table: min_value: ",
        ),
        (
            invariant("select idd from orders"),
            "expectation it: its SQL is refused: Schema error: No field named idd. Did you mean 'orders.id'? Valid "
            "fields are orders.id, orders.version, orders.total, orders.email, orders.api_token, orders._txloom_csn, "
            "orders._txloom_pos, orders._txloom_xid.",
        ),
        (
            invariant("select * from orders join change_events on true"),
            "expectation it: its SQL is refused: Error during planning: table 'change_events' not found",
        ),
        (
            invariant("with x as (select 1) delete from orders"),
            "expectation it: its SQL is refused: ",
        ),
        (
            great("ExpectColumnValuesToNotBeNull", "column: email", where="idd > 1"),
            "expectation it: its SQL is refused: Schema error: No field named idd.",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(tmp_path: Path, expectation: str, message: str) -> None:
    shop = Shop(tmp_path, expectation)
    shop.store("orders", [order(1), order(2)])
    with pytest.raises(ConfigurationError) as error:
        shop.check()
    assert str(error.value).startswith(message)
    assert not DeltaTable.is_deltatable(shop.paths.table(names.EXPECTATION_RESULTS))


def test_sql_is_refused_before_there_are_tables(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select idd from orders"))
    with pytest.raises(ConfigurationError, match="No field named idd"):
        shop.check()


def test_values_that_cannot_be_computed_with_are_not_shown(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select cast(email as int) as n from orders"))
    shop.store("orders", [order(1, email="hidden@value")])
    with pytest.raises(ConfigurationError) as error:
        shop.check()
    assert str(error.value) == (
        "expectation it: its SQL is refused: External error: Arrow error: Cast error: Cannot cast string '...' to "
        "value of Int32 type"
    )


def test_an_invariant_counts_all_and_shows_the_first_in_its_own_order(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0 order by id desc"))
    shop.store("orders", [order(number, total=Decimal(-1)) for number in range(1000)] + [order(1000)])
    success, failed, sample = shop.check()
    assert (success, failed, [row["id"] for row in sample]) == (False, 1000, list(range(999, 979, -1)))
    assert shop.result("r1")["checked"] == 1001


def test_no_sample_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASS", "hunter-2-hunter")
    shop = Shop(
        tmp_path, invariant("select id, api_token, email, concat(api_token, '') as other from orders -- ${SHOP_PASS}")
    )
    shop.store("orders", [order(1, api_token="tok-4711", email="mail hunter-2-hunter now")])
    assert shop.check() == (False, 1, [{"id": 1, "api_token": "***", "email": "mail *** now", "other": "***"}])
    reports = (
        shop.report("r1", "report.html") + shop.report("r1", "report.md") + json.dumps(shop.result("r1"), default=str)
    )
    assert "4711" not in reports and "hunter" not in reports
    shop.declare(great("ExpectColumnValuesToBeInSet", "column: api_token", "value_set: [a]"))
    assert shop.check("again") == (False, 1, [{"id": 1, "api_token": "***"}])
    shop.declare(great("ExpectColumnMostCommonValueToBeInSet", "column: api_token", "value_set: [a]"))
    assert shop.check("once more") == (False, 1, [{"column": "api_token", "observed": "***"}])


def test_dead_letters_fail_above_the_limit(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: dead_letters, at_most: 1")
    letter = {
        "transaction_id": "x1:1",
        "xid": "x1",
        "csn": 1,
        "kind": "poison",
        "cause": "no object",
        "value": "hidden",
    }
    where = {"topic": "t", "partition": 0, "dead_at": NOW}
    small_tables.append(shop.paths.dead_letters, [letter | where | {"offset": 0}], system_tables.DEAD_LETTERS)
    assert shop.check() == (True, 0, [])
    small_tables.append(shop.paths.dead_letters, [letter | where | {"offset": 1}], system_tables.DEAD_LETTERS)
    success, failed, sample = shop.check()
    assert (success, failed, [row["offset"] for row in sample]) == (False, 2, [0, 1])
    assert "hidden" not in json.dumps(sample)
    done = {"transaction_id": "x1:1", "xid": "x1", "csn": 1, "status": "released", "release": 2}
    small_tables.append(shop.paths.table(names.TRANSACTIONS), [done], system_tables.TRANSACTIONS)
    assert shop.check() == (True, 0, [])


def test_an_unbalanced_ledger_fails_until_it_balances(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: unbalanced_ledger")
    line = {"run_id": "r", "step": "balance", "counts": {"landed": 3}, "generation": 0, "batch": 0}
    path = shop.paths.table(names.LEDGER)
    small_tables.append(
        path, [line | {"at": NOW, "balanced": False, "detail": "3 landed, 2 accounted for"}], system_tables.LEDGER
    )
    success, failed, (row,) = shop.check()
    assert (success, failed, row["detail"]) == (False, 1, "3 landed, 2 accounted for")
    small_tables.append(path, [line | {"at": NOW + timedelta(seconds=1), "balanced": True}], system_tables.LEDGER)
    assert shop.check() == (True, 0, [])


def reached(shop: Shop, csn: int, committed: datetime) -> None:
    line = {"run_id": "r", "step": "merge_current", "counts": {"release": csn}, "generation": 0, "batch": 0}
    small_tables.append(
        shop.paths.table(names.LEDGER), [line | {"at": datetime.now(UTC), "valid_through": csn}], system_tables.LEDGER
    )
    done = {"xid": f"x{csn}", "csn": csn, "status": "released", "committed_at": committed, "release": csn}
    small_tables.append(shop.paths.table(names.TRANSACTIONS), [done], system_tables.TRANSACTIONS)


def test_an_old_valid_through_names_who_waits(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: valid_through_age, older_than: 1h")
    shop.store("orders", [order(1)])
    reached(shop, 7, NOW - timedelta(hours=2))
    waits = [{"xid": "x8", "csn": 8, "cause": "table short"}, {"xid": "x9", "csn": 9, "cause": "metadata missing"}]
    small_tables.append(shop.paths.table(names.PENDING_TRANSACTIONS), waits, system_tables.PENDING_TRANSACTIONS)
    success, failed, (row,) = shop.check()
    assert (success, failed, row["valid_through"], row["waiting"]) == (False, 1, 7, 2)
    assert (row["first_waiting"], row["cause"]) == ("x8", "table short")
    assert 7200 <= row["age_seconds"] < 10_800
    reached(shop, 8, NOW)
    assert shop.check() == (True, 0, [])


def test_open_findings_fail_by_need_or_by_code(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: drift")
    dropped = Finding(DROPPED, "orders", "email", 5, "x5", "no email")
    findings.record(shop.paths, [dropped], "r")
    assert shop.check() == (True, 0, [])
    findings.record(shop.paths, [Finding(UNKNOWN_ROW, "orders", None, 7, "x7", "id 99 was never seen")], "r")
    success, failed, (row,) = shop.check()
    assert (success, failed, row["code"], row["evidence"]) == (False, 1, UNKNOWN_ROW, "id 99 was never seen")
    shop.declare(f"kind: drift, codes: [{DROPPED}]")
    assert shop.check()[2][0]["code"] == DROPPED
    shop.declare("kind: drift")
    findings.close(
        shop.paths, [row for row in findings.open_findings(shop.paths) if row["code"] == UNKNOWN_ROW], "r", "loaded"
    )
    assert shop.check() == (True, 0, [])


def test_an_old_result_table_is_read_and_grows(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0"))
    shop.store("orders", [order(1, total=Decimal(-1))])
    before = [
        name for name in system_tables.EXPECTATION_RESULTS.names if name not in ("first_seen", "last_good", "streak")
    ]
    schema = system_tables.EXPECTATION_RESULTS.empty_table().select(before).schema
    rows = [
        {"run_id": f"old{age}", "expectation": "it", "success": age == 5, "checked_at": NOW - timedelta(days=age)}
        for age in (5, 3, 2)
    ]
    small_tables.append(shop.paths.table(names.EXPECTATION_RESULTS), rows, schema)
    shop.check("new")
    row = shop.result("new")
    assert (row["streak"], row["first_seen"], row["last_good"]) == (3, NOW - timedelta(days=3), NOW - timedelta(days=5))
    assert small_tables.query(
        shop.paths.table(names.EXPECTATION_RESULTS), "select count(*) as n from t where streak is null"
    ) == [{"n": 3}]


def test_a_check_that_is_cleared_and_passes_is_written_down_beside_its_failure(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0"))
    shop.store("orders", [order(1, total=Decimal(-1))])
    assert shop.check("r")[0] is False
    assert shop.check("r")[0] is False
    shop.store("orders", [order(1)])
    assert shop.check("r")[0] is True
    rows = small_tables.query(shop.paths.table(names.EXPECTATION_RESULTS), "select success from t order by checked_at")
    assert [row["success"] for row in rows] == [False, True]


def test_publish_is_held_by_tables_that_came_after_the_check(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0"), severity="block")
    shop.store("orders", [order(1)])
    shop.check("r")
    hold(shop.pipeline, shop.paths, "r")
    shop.store("orders", [order(1, total=Decimal(-1))])
    with pytest.raises(ExpectationFailed) as error:
        hold(shop.pipeline, shop.paths, "r")
    assert str(error.value) == "it: 1 of 1 rows fail (id=1) in orders version 1. Look."
    with pytest.raises(ExpectationFailed):
        hold(shop.pipeline, shop.paths, "another run")
    shop.declare(invariant("select id from orders where total < 0"), severity="warn")
    hold(shop.pipeline, shop.paths, "r")


def test_extracts_that_stop_coming_are_named_by_their_newest_date(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: snapshot_age, older_than: 2d", source="snapshots")
    assert shop.check() == (True, 0, [])
    today = datetime.now(UTC)  # not NOW: an extract's age begins with its date, and midnight may lie between
    old, new = today - timedelta(days=4), today
    for day in (old, new):
        done = {"xid": f"snapshot:{day:%Y-%m-%d}", "csn": int(f"{day:%Y%m%d}"), "status": "released", "release": 1}
        small_tables.append(shop.paths.table(names.TRANSACTIONS), [done], system_tables.TRANSACTIONS)
        if day is old:
            success, failed, (row,) = shop.check()
            assert (success, failed, row["newest_date"]) == (False, 1, f"{old:%Y-%m-%d}")
    assert shop.check() == (True, 0, [])


def test_a_runs_report_tells_what_failed_first_and_grows_with_the_run(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id, email from orders where total < 0"), severity="block")
    shop.store("orders", [order(1, total=Decimal(-1), email="<script>alert(1)</script>"), order(2)])
    with pytest.raises(ExpectationFailed):
        shop.check("../r<1>")
    (folder,) = (tmp_path / "shop" / "_reports").iterdir()
    assert folder.name.startswith("_.._r_1_-"), "nothing lies outside the warehouse"
    page, chat = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http" not in page.replace("http-equiv", ""), "it stands alone"
    assert "<h1>shop: 1 failed (1 of them hold publish back), 0 passed</h1>" in page
    lines = chat.splitlines()
    assert lines[0] == "**shop** run ../r\\<1\\>: 1 failed (1 of them hold publish back), 0 passed"
    assert lines[2] == "**it** (block): It holds."
    assert lines[3] == "- What: 1 of 2 rows fail"
    assert lines[4].startswith("- Since: ") and lines[4].endswith("1 run in a row")
    assert lines[5:9] == [
        "- Last passed: never",
        "- Do: Look.",
        "- Looked at: orders version 0",
        "- `1` id=1, email=\\<script\\>alert(1)\\</script\\>",
    ]
    shop.store("orders", [order(1)])
    shop.check("../r<1>")
    assert "<h1>shop: 1 passed</h1>" in (folder / "report.html").read_text()


def test_reports_are_kept_as_long_as_declared(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "kind: drift")
    for run in ("old", "new"):
        shop.check(run)
    old = tmp_path / "shop" / "_reports" / "old"
    for each in (*old.iterdir(), old):
        os.utime(each, (0, 0))
    assert expiry.drop_run_folders(shop.paths, names.REPORTS, NOW - timedelta(days=1)) == 1
    assert [each.name for each in (tmp_path / "shop" / "_reports").iterdir()] == ["new"]
    assert expiry.drop_run_folders(shop.paths, names.REPORTS, NOW - timedelta(days=1)) == 0


LIGHT = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert not {"pyspark", "py4j", "great_expectations"} & set(sys.modules)
"""


def job(shop: Shop, run_id: str, program: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        *program,
        str(PROJECT / "jobs" / "check_expectations.py"),
        "--warehouse",
        str(shop.folder),
    ]
    command += ["--pipeline", str(shop.folder / "shop.yaml"), "--run-id", run_id]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_job_that_finds_nothing_loads_neither_spark_nor_great_expectations(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0"), severity="block")
    shop.store("orders", [order(1)])
    done = job(shop, "r", ("-c", LIGHT))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "txloom check_expectations: pipeline=shop run_id=r checked=1 failed=0 rows=0\n"


def test_a_job_that_is_blocked_ends_with_20_and_says_which_rows_of_which_versions(tmp_path: Path) -> None:
    shop = Shop(tmp_path, invariant("select id from orders where total < 0"), severity="block")
    shop.store("orders", [order(1, total=Decimal(-1))])
    done = job(shop, "r")
    assert done.returncode == 20
    assert done.stderr == (
        "txloom check_expectations failed (ExpectationFailed, exit code 20): it: 1 of 1 rows fail (id=1) in orders "
        "version 0. Look.\n"
    )
