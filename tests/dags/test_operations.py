"""docs/operations.md tried in a real Airflow, line by line: each exit code is made, read and repaired as it says."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.airflow.instance import Airflow
from services.process import wait_until
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.lease import held

pytestmark = [pytest.mark.long, pytest.mark.random_order(disabled=True), pytest.mark.timeout(1800)]
"""The tests are steps of one story: a run takes as many JVMs as it has steps."""
LONG = 900
DECLARATION = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}}}
completeness: {{rule: single}}
tables:
  - {{name: orders, source: S.ORDERS, key: [id], columns: {{id: long}}}}
  - {{name: lines, source: S.LINES, key: [line], columns: {{line: long, id: long}}}}
targets: {{mirrors: [orders, lines]}}
expectations:
  - kind: orphans
    id: orphan_lines
    child: lines
    parent: orders
    parent_key: [id]
    severity: block
    sentence: Every line belongs to an order
    hint: Look for the order at the source.
{more}"""


class Shop:
    """A pipeline of orders and lines."""

    def __init__(self, airflow: Airflow, folder: Path) -> None:
        self.airflow, self.folder, self.sent = airflow, folder, 0
        self.paths = TablePaths(str(airflow.warehouse), "shop")
        self.declare()

    @property
    def inbox(self) -> Path:
        return self.folder / "inbox"

    def declare(self, more: str = "") -> None:
        text = DECLARATION.format(inbox=self.inbox, more=more)
        (self.folder / "pipelines" / "shop.yaml").write_text(text)

    def send(self, table: str, **row: int) -> None:
        self.sent += 1
        folder = self.inbox / table
        folder.mkdir(parents=True, exist_ok=True)
        line = {"FLAG": "I", "CDC_TIMESTAMP": 1000 + self.sent, **row}
        (folder / f"{self.sent:05}.jsonl").write_text(f"{json.dumps(line)}\n")

    def start(self) -> str:
        self.airflow.unpause("shop_cdc")
        return self.airflow.trigger("shop_cdc")

    def run(self, ends: str = "success") -> dict[str, str]:
        """Run a cycle by hand, to the end that is expected; return how each task ended."""
        run_id = self.start()
        assert self.airflow.wait("shop_cdc", run_id, LONG) == ends
        return self.states(run_id) | {"run_id": run_id}

    def states(self, run_id: str) -> dict[str, str]:
        return {task: each["state"] for task, each in self.airflow.tasks("shop_cdc", run_id).items()}

    def retried(self, run_id: str, task: str) -> str:
        """Wait until a task is up for its retry; return what its first attempt said."""
        self.airflow.wait_for("shop_cdc", run_id, task, "up_for_retry", within=LONG)
        return self.airflow.log("shop_cdc", run_id, task)

    def keys(self, table: str, key: str) -> list[int]:
        return [row[key] for row in small_tables.query(self.paths.table(table), f"select {key} from t order by {key}")]

    def cuts(self) -> int:
        return len(small_tables.query(self.paths.table("cuts"), "select 1 from t"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("operations")
    (folder / "pipelines").mkdir()
    made = Shop(Airflow(folder / "airflow", folder / "pipelines", folder / "lake"), folder)
    made.send("orders", id=1)
    made.send("lines", line=11, id=1)
    with made.airflow:
        yield made


def test_a_run_by_hand_with_nothing_new_skips_publish_alone(shop: Shop) -> None:
    assert set(shop.run().values()) - {"success"} == {shop.airflow.runs("shop_cdc")[-1]["dag_run_id"]}
    states = shop.run()
    assert [task for task, state in states.items() if state == "skipped"] == ["publish"]


def test_12_a_folder_that_is_gone_is_retried_and_found_again(shop: Shop) -> None:
    shop.inbox.rename(shop.folder / "away")
    run_id = shop.start()
    said = shop.retried(run_id, "check_source")
    assert "txloom check_source failed (SourceUnavailable, exit code 12): " in said
    assert str(shop.inbox) in said
    (shop.folder / "away").rename(shop.inbox)
    assert shop.airflow.wait("shop_cdc", run_id, LONG) == "success"


def test_10_a_lease_that_is_taken_is_waited_for_and_its_holder_named(shop: Shop) -> None:
    shop.send("orders", id=2)
    with held(shop.paths, "month_end", "backfill"):
        run_id = shop.start()
        said = shop.retried(run_id, "land_events")
    assert "txloom land_events failed (LeaseTaken, exit code 10): " in said
    assert "month_end" in said
    assert shop.airflow.wait("shop_cdc", run_id, LONG) == "success"
    assert shop.keys("orders", "id") == [1, 2]


def test_14_a_table_that_cannot_be_merged_holds_up_no_other_and_the_retry_merges_it(shop: Shop) -> None:
    log = sorted(Path(shop.paths.table("orders"), "_delta_log").glob("*.json"))[-1]
    whole = log.read_bytes()
    shop.send("orders", id=3)
    shop.send("lines", line=31, id=3)
    log.write_bytes(b"{")
    run_id = shop.start()
    said = shop.retried(run_id, "merge_current")
    log.write_bytes(whole)
    assert "exit code 14): the others are merged, but not orders: " in said
    assert shop.airflow.wait("shop_cdc", run_id, LONG) == "success"
    assert (shop.keys("orders", "id"), shop.keys("lines", "line")) == ([1, 2, 3], [11, 31])


def test_20_rows_that_violate_an_expectation_hold_the_cut_back_until_they_are_repaired(shop: Shop) -> None:
    cuts = shop.cuts()
    shop.send("lines", line=91, id=9)
    states = shop.run("failed")
    assert (states["check_expectations.orphan_lines"], states["publish"]) == ("failed", "upstream_failed")
    said = shop.airflow.log("shop_cdc", states["run_id"], "check_expectations.orphan_lines")
    assert "exit code 20): orphan_lines: 1 of 3 rows fail (line=91, id=9) in lines version " in said
    assert ". Look for the order at the source." in said
    assert shop.airflow.tasks("shop_cdc", states["run_id"])["check_expectations.orphan_lines"]["try_number"] == 1
    assert (shop.cuts(), shop.keys("lines", "line")) == (cuts, [11, 31, 91])
    shop.send("orders", id=9)
    shop.run()
    assert shop.cuts() == cuts + 1


def test_2_a_declaration_that_is_wrong_is_an_import_error_with_file_and_line(shop: Shop) -> None:
    shop.declare("patience: 3\n")
    line = DECLARATION.count("\n") + 1

    def errors() -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = shop.airflow.ask("GET", "/api/v2/importErrors")["import_errors"]
        return answer

    (error, *_) = wait_until(errors, "an import error", 120)
    assert f"shop.yaml:{line}: patience: " in error["stack_trace"]
    shop.declare()
    wait_until(lambda: not errors(), "the import error to go", 120)


def test_30_a_ledger_that_does_not_balance_stops_the_cycle_at_once(shop: Shop) -> None:
    row = {"run_id": "slip", "step": "land_events", "generation": 0, "batch": 0, "at": datetime.now(UTC)}
    small_tables.append(shop.paths.table("ledger"), [{**row, "counts": [("landed", 1)]}], system_tables.LEDGER)
    shop.send("orders", id=4)
    states = shop.run("failed")
    assert (states["buffer_transactions"], states["merge_current"]) == ("failed", "upstream_failed")
    said = shop.airflow.log("shop_cdc", states["run_id"], "buffer_transactions")
    assert "exit code 30): pipeline shop: 1 events are not accounted for" in said
    assert shop.airflow.tasks("shop_cdc", states["run_id"])["buffer_transactions"]["try_number"] == 1
