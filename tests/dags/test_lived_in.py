"""Pipelines in a real Airflow: what people do is safe at any moment, and says what it did (docs/faults.md 34, 49)."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.airflow.instance import Airflow
from services.process import wait_until
from txloom.storage.delta import small_tables

pytestmark = [pytest.mark.long, pytest.mark.random_order(disabled=True)]
"""The tests are steps of one story: Airflow takes half a minute to start."""
DECLARATION = """
name: {name}
{more}
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long, note: string}}}}]
targets: {{mirrors: [rows]}}
"""
CYCLE = ["check_source", "land_events", "buffer_transactions", "merge_current", "publish"]


class Shop:
    """A pipeline of change sets in the running Airflow."""

    def __init__(self, airflow: Airflow, folder: Path, name: str, more: str = "") -> None:
        self.airflow, self.name, self.folder, self.sent = airflow, name, folder, 0
        (folder / name / "rows").mkdir(parents=True)
        self.declare(more)

    @property
    def cdc(self) -> str:
        return f"{self.name}_cdc"

    def declare(self, more: str) -> None:
        text = DECLARATION.format(name=self.name, more=more, inbox=self.folder / self.name)
        (self.folder / "pipelines" / f"{self.name}.yaml").write_text(text)

    def deliver(self, count: int) -> None:
        """Send rows with new ids, in one file."""
        ids = range(self.sent, self.sent + count)
        lines = [json.dumps({"FLAG": "I", "ID": i, "NOTE": "n", "CDC_TIMESTAMP": 1000 + i}) for i in ids]
        (self.folder / self.name / "rows" / f"{self.sent:05}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        self.sent += count

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(f"{self.airflow.warehouse}/{self.name}/{table}", sql)

    def assert_exact(self) -> None:
        """Every row that was sent is current once and in history once, and the ledger balances."""
        expected = list(range(self.sent))
        for table in ("rows", "rows_changes"):
            assert [row["id"] for row in self.query(table, "select id from t order by id")] == expected, table
        assert all(row["balanced"] for row in self.query("ledger", "select balanced from t where step = 'balance'"))
        lease = self.query("leases", "select released_at from t")
        assert [row["released_at"] is not None for row in lease] == [True]

    def run(self) -> dict[str, str]:
        """Run a cycle by hand; return how each task ended."""
        run_id = self.airflow.trigger(self.cdc)
        assert self.airflow.wait(self.cdc, run_id) == "success"
        return self.states(run_id)

    def states(self, run_id: str) -> dict[str, str]:
        tasks = self.airflow.tasks(self.cdc, run_id)
        return {task: tasks[task]["state"] for task in CYCLE}

    def jvm(self, step: str) -> int | None:
        """Return the JVM that runs a step of this pipeline, once it works."""
        return next((pid for pid, command in processes() if f"jobs/{step}.py --pipeline {self.name} " in command), None)


def processes() -> Iterator[tuple[int, str]]:
    """Yield every JVM with its command line."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "org.apache.spark.deploy.SparkSubmit" in command:
                yield int(folder.name), command


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lived")
    (made / "pipelines").mkdir()
    return made


@pytest.fixture(scope="module")
def airflow(folder: Path) -> Iterator[Airflow]:
    made = Airflow(folder / "airflow", folder / "pipelines", folder / "lake")
    shops[:] = [Shop(made, folder, "lived"), Shop(made, folder, "timed", 'schedule: "* * * * *"')]
    with made:
        yield made


shops: list[Shop] = []


@pytest.fixture
def shop(airflow: Airflow) -> Shop:
    """Return a pipeline that runs by hand only."""
    airflow.unpause("lived_cdc")
    return shops[0]


def test_a_cut_starts_its_consumer_once_with_the_versions_to_read(shop: Shop, airflow: Airflow) -> None:
    airflow.unpause("lived_cut_consumer")
    shop.deliver(3)
    assert set(shop.run().values()) == {"success"}
    shop.assert_exact()
    (read,) = wait_until(lambda: airflow.runs("lived_cut_consumer"), "the consumer to start", 60)
    assert airflow.wait("lived_cut_consumer", read["dag_run_id"]) == "success"
    counted = airflow.xcom("lived_cut_consumer", read["dag_run_id"], "count_rows")
    assert (counted["cut_id"], counted["rows"]) == (1, {"rows": 3})
    (event,) = airflow.ask("GET", "/api/v2/assets/events?source_dag_id=lived_cdc")["asset_events"]
    assert event["extra"] == {
        "pipeline": "lived",
        "run_id": airflow.runs("lived_cdc")[-1]["dag_run_id"],
        "published": 1,
        "cut_id": 1,
        "csn_after": 0,
        "valid_through": 1002,
        "gaps": 0,
        "amends": 0,
        "versions": shop.query("cuts", "select versions from t")[0]["versions"],
        "lake": str(airflow.warehouse),
    }
    note = str(airflow.runs("lived_cdc")[-1]["note"])
    assert "**land_events** landing 1, landed 3" in note and "**publish** cut_id 1" in note


def test_a_run_by_hand_with_nothing_new_publishes_nothing_and_starts_no_consumer(shop: Shop, airflow: Airflow) -> None:
    states = shop.run()
    assert (states["merge_current"], states["publish"]) == ("success", "skipped")
    assert len(airflow.runs("lived_cut_consumer")) == 1


def test_a_killed_task_leaves_no_jvm_and_its_retry_is_exact(shop: Shop, airflow: Airflow) -> None:
    """SIGKILL of Airflow's own task process in the middle of a step."""
    shop.deliver(4)
    run_id = airflow.trigger(shop.cdc)
    jvm = wait_until(lambda: shop.jvm("buffer_transactions"), "a JVM that buffers", 120)
    assert jvm is not None
    os.kill(parent(jvm), signal.SIGKILL)
    wait_until(lambda: not is_alive(jvm), "the JVM to go with its task", 20)
    assert airflow.wait(shop.cdc, run_id, within=400) == "success"
    assert airflow.tasks(shop.cdc, run_id)["buffer_transactions"]["try_number"] == 2
    shop.assert_exact()


def test_a_task_that_is_marked_failed_leaves_no_jvm_and_the_next_run_is_exact(shop: Shop, airflow: Airflow) -> None:
    shop.deliver(5)
    run_id = airflow.trigger(shop.cdc)
    jvm = wait_until(lambda: shop.jvm("buffer_transactions"), "a JVM that buffers", 120)
    assert jvm is not None
    path = f"/api/v2/dags/{shop.cdc}/dagRuns/{run_id}/taskInstances/buffer_transactions".replace("+", "%2B")
    airflow.ask("PATCH", path, {"new_state": "failed"})
    wait_until(lambda: not is_alive(jvm), "the JVM to be ended", 60)
    assert airflow.wait(shop.cdc, run_id) == "failed"
    assert "**failed** buffer_transactions" in str(airflow.runs(shop.cdc)[-1]["note"])
    shop.run()
    shop.assert_exact()


def test_a_task_that_takes_too_long_is_ended_and_runs_through_with_more_time(shop: Shop, airflow: Airflow) -> None:
    shop.declare("timeout: 4s")
    wait_until(lambda: _timeout(airflow) == 4, "Airflow to know the new declaration", 120)
    shop.deliver(6)
    run_id = airflow.trigger(shop.cdc)
    ended = wait_until(lambda: _ended_early(shop, run_id), "a task to take too long", 120)
    wait_until(lambda: shop.jvm(ended) is None, "no JVM to be left", 30)
    assert "Timeout" in airflow.log(shop.cdc, run_id, ended)
    shop.declare("timeout: 10m")
    wait_until(lambda: _timeout(airflow) == 600, "Airflow to know the new declaration", 120)
    if airflow.wait(shop.cdc, run_id, within=400) == "failed":
        shop.run()
    shop.assert_exact()


def _ended_early(shop: Shop, run_id: str) -> str:
    """Return the task that was ended; which one that is, the machine decides."""
    return next((task for task, state in shop.states(run_id).items() if state in ("up_for_retry", "failed")), "")


def _timeout(airflow: Airflow) -> float:
    task = airflow.ask("GET", "/api/v2/dags/lived_cdc/tasks/buffer_transactions")
    timeout = task["execution_timeout"]
    return 0.0 if timeout is None else float(timeout["days"] * 86400 + timeout["seconds"])


def test_a_paused_schedule_loses_nothing_and_an_idle_one_skips_its_cycle(airflow: Airflow) -> None:
    timed = shops[1]
    timed.deliver(2)
    airflow.unpause(timed.cdc)
    first = wait_until(lambda: airflow.runs(timed.cdc), "the schedule to begin a run", 120)[0]
    assert airflow.wait(timed.cdc, first["dag_run_id"]) == "success"
    assert first["run_type"] == "scheduled"
    airflow.unpause(timed.cdc, paused=True)
    timed.deliver(3)
    timed.deliver(4)
    airflow.unpause(timed.cdc)
    wait_until(lambda: len(timed.query("rows", "select id from t")) == timed.sent, "the rows of the pause", 240)
    idle = wait_until(lambda: [run for run in airflow.runs(timed.cdc) if _skipped(timed, run)], "an idle cycle", 240)
    assert timed.states(idle[0]["dag_run_id"]) == {**dict.fromkeys(CYCLE, "skipped"), "check_source": "success"}
    airflow.unpause(timed.cdc, paused=True)
    timed.assert_exact()


def _skipped(timed: Shop, run: dict[str, Any]) -> bool:
    return run["state"] == "success" and timed.states(run["dag_run_id"])["land_events"] == "skipped"
