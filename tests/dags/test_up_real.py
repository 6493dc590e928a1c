"""`make up-real`, as docs/trial.md tells it: a real PostgreSQL through Debezium and Kafka, audited while it lives.

The tests are steps of one story. TXLOOM_PICTURES names a folder that gets a picture of the page.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dags.test_trial import LONG, Trial
from services import fetched
from services.absent import needed
from services.airflow.instance import Airflow
from services.airflow.settings import PROJECT
from services.process import wait_until

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.timeout(1800), pytest.mark.machines]
TABLES = ["order_attachments", "order_details", "order_line_items", "orders", "promo_codes", "promo_uses"]
VERDICT = re.compile(r"^(equal|different|behind|unsettled) +(\w+) +(\d+) +(\d+) +(\d+) ", re.MULTILINE)
DIFFERS = 6
REPAIR = "orders_repair"
EVERYBODY = ("api-server", "dag-processor", "scheduler", "trial")


class RealTrial(Trial):
    """What `make up-real` starts, and who looks at it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.real = self.state / "real"
        Airflow.__init__(self, self.real / "airflow", self.real / "pipelines", self.real / "warehouse")
        self.declaration = self.real / "pipelines" / "orders.yaml"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))}
        ours = {"TXLOOM_STATE": str(self.state), "TXLOOM_PORT": str(self.port), "TXLOOM_DRIVER_MEMORY": "1g"}
        self.variables = kept | ours

    def start(self) -> None:
        self.said = self._run(PROJECT / "scripts" / "up.sh", "--real")

    def audit(self) -> tuple[int, str]:
        """Do what it prints to ask whether the lake is equal to the database; return exit code and text."""
        match = re.search(r"equal to the database\?\s+(.+)", self.said)
        assert match, self.said
        ended = subprocess.run(
            ["bash", "-c", match[1]], env=self.variables, capture_output=True, text=True, check=False, timeout=LONG
        )
        return ended.returncode, ended.stdout + ended.stderr

    def assert_equal(self) -> None:
        """Fail where the lake is not equal to the database."""
        code, text = self.audit()
        assert code == 0, text

    def repaired(self, *differences: str) -> None:
        """Approve a repair that asks about some differences, and see that it leaves none."""
        run_id = self.trigger(REPAIR)
        # Without what keeps Markdown from reading values as its own.
        question = self.question_of(REPAIR, run_id, "approve", LONG).replace("\\", "")
        assert [each for each in differences if each not in question] == [], question
        self.answer(REPAIR, run_id, "approve", "Approve")
        assert self.wait(REPAIR, run_id, LONG) == "success"
        self.assert_equal()
        assert "differs from the source" not in self.open_codes()

    def leaders(self) -> dict[str, int]:
        """Return the processes that it left running, by name."""
        return {file.stem: int(file.read_text()) for file in self.folder.glob("*.pid")}

    def processes(self) -> dict[int, str]:
        """Return the command lines of its processes: those of its sessions, and who else got its state folder.

        Airflow's processes write their names over their environment.
        """
        ours, leaders, seen = f"TXLOOM_STATE={self.state}".encode(), {*self.leaders().values()}, dict[int, str]()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                session = int((process / "stat").read_text().rsplit(")", 1)[1].split()[3])
                if session in leaders or ours in (process / "environ").read_bytes().split(b"\0"):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    seen[int(process.name)] = command.decode(errors="replace")
            except OSError:
                continue
        return seen

    def refuse_left(self, before: dict[int, str]) -> None:
        """Fail where one of some processes, or another one of its own, is there yet."""
        left = {pid: command for pid, command in before.items() if _runs(pid)}
        assert left | self.processes() == {}

    def valid_through(self) -> int:
        """Return the csn of the newest cut, 0 before the first."""
        if not (self.real / "warehouse" / "orders" / "cuts" / "_delta_log").is_dir():
            return 0
        (newest,) = self.rows("cuts", "select max(valid_through) as csn from t")
        return int(newest["csn"])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealTrial]:
    postgres = needed(fetched.postgres)
    made = RealTrial(tmp_path_factory.mktemp("real"))
    # Fetched already, for all tests.
    made.variables |= {"TXLOOM_KAFKA": str(fetched.kafka()), "TXLOOM_POSTGRES": str(postgres)}
    made.variables["PATH"] = f"{Path(sys.executable).parent}:{made.variables['PATH']}"
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_minutes_after_make_up_real_the_page_is_green_and_its_numbers_move(trial: RealTrial) -> None:
    shown = (
        f"[trial] order entry goes on in PostgreSQL, and orders_cdc takes it in each minute: {trial.url}/plugin/txloom"
    )
    assert shown in trial.said
    # What the connector sends first is a snapshot, which the run after its last row shows.
    wait_until(lambda: trial.next_run()["state"] == "success" and trial.valid_through(), "the first cut", LONG)
    first = trial.valid_through()
    assert trial.next_run()["state"] == "success"
    assert trial.valid_through() > first
    trial.shows("All pipelines are healthy", path="/txloom/")
    trial.picture("real")


def test_the_lake_is_equal_to_the_database_while_it_is_written_to(trial: RealTrial) -> None:
    code, text = trial.audit()
    verdicts = VERDICT.findall(text)
    assert code == 0, text
    assert [table for _, table, *_ in verdicts] == TABLES
    assert {(verdict, differing, unsettled) for verdict, _, _, differing, unsettled in verdicts} == {
        ("equal", "0", "0")
    }
    assert all(int(rows) > 0 for _, _, rows, *_ in verdicts)


def test_a_second_call_finds_all_of_it_running(trial: RealTrial) -> None:
    before = trial.leaders()
    assert sorted(before) == sorted(EVERYBODY)
    trial.start()
    assert trial.leaders() == before


def test_a_row_that_no_event_ever_deleted_is_named_by_an_audit_and_deleted_by_a_repair(trial: RealTrial) -> None:
    lost = re.search(r"the details of order (\d+) were deleted", trial.make("break", "lost-row"))
    assert lost is not None
    code, text = trial.audit()
    assert code == DIFFERS, text
    (different,) = [each for each in VERDICT.findall(text) if each[0] != "equal"]
    assert different[:2] == ("different", "order_details") and different[3] == "1", text
    assert re.search(rf"order_id={lost[1]} +not in the source", text), text
    trial.repaired(f"order_id={lost[1]}")
    assert trial.rows("order_details", f"select order_id from t where order_id = {lost[1]}") == []


def test_a_killed_job_is_run_again_and_the_lake_is_equal(trial: RealTrial) -> None:
    trial.kill_a_job()
    trial.assert_equal()


def test_what_is_broken_in_the_database_is_seen_and_repaired(trial: RealTrial) -> None:
    planted = re.search(r"line item (\d+) of order", trial.make("break", "orphan"))
    assert planted is not None
    trial.make("break", "schema-change")
    assert "restarted the connector debezium" in trial.make("break", "connector-restart")
    trial.shows("failed expectation", "orphan_line_items", planted[1], "column added", "gift_note")
    assert f"line item {planted[1]} was deleted in the source" in trial.make("repair", "orphan")
    wait_until(lambda: trial.next_run()["state"] == "success", "a cycle that publishes", LONG)
    refused = subprocess.run(
        [Path(sys.executable).with_name("txloom"), "trial", "break", "bad-value"],
        env=trial.variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (refused.returncode, "cannot be made with a real database" in refused.stderr) == (2, True)


def test_a_column_that_is_declared_has_the_values_of_now_and_a_repair_loads_those_of_before(trial: RealTrial) -> None:
    trial.declare_column()
    wait_until(lambda: "column added" not in trial.open_codes(), "the finding to be closed", LONG)
    assert trial.next_run()["state"] == "success"
    code, text = trial.audit()
    assert code == DIFFERS, text
    assert [(verdict, table) for verdict, table, *_ in VERDICT.findall(text) if verdict != "equal"] == [
        ("different", "orders")
    ]
    trial.repaired("gift_note", "with love")
    (newest,) = trial.rows("orders", "select count(*) as gifts from t where gift_note = 'with love'")
    assert newest["gifts"] > 0


def test_a_quiet_source_is_told_and_the_lake_is_equal(trial: RealTrial) -> None:
    trial.go_quiet()
    trial.assert_equal()
    trial.be_heard_again()


def test_make_down_leaves_no_process_and_the_next_start_goes_on(trial: RealTrial) -> None:
    running = trial.processes()
    for program in ("kafka.Kafka", "ConnectStandalone", "postgres -D", "airflow"):
        assert any(program in command for command in running.values()), (program, running)
    trial.stop()
    trial.refuse_left(running)
    assert trial.leaders() == {}
    before = trial.valid_through()
    trial.start()
    wait_until(lambda: trial.next_run()["state"] == "success" and trial.valid_through() > before, "newer cuts", LONG)
    running = trial.processes()
    trial.stop()
    trial.refuse_left(running)
