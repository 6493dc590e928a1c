"""docs/trial.md, played: `make up`, every fault of `make break` seen on the page, repaired by the page's words.

The tests are steps of one story. TXLOOM_PICTURES names a folder that gets the pictures of the page.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from generate.trial.trials import difference, living
from services.airflow.browsing import ask, browser, visiting
from services.airflow.instance import ENDED, Airflow
from services.airflow.settings import PROJECT
from services.fetched import NotHere
from services.process import wait_until
from txloom import read
from txloom.storage.checks.findings import open_findings
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

pytestmark = [pytest.mark.random_order(disabled=True), pytest.mark.timeout(1800), pytest.mark.machines]
DAG, LETTERS, BACKFILL = "orders_cdc", "orders_dead_letters", "orders_backfill"
PAGE = f"/txloom/dags/{DAG}"
LONG = 900


class Trial(Airflow):
    """What `make up` starts, and who looks at it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.pipelines = folder / "pipelines"
        self.pipelines.mkdir()
        self.declaration = self.pipelines / "orders.yaml"
        self.declaration.write_text((PROJECT / "include" / "pipelines" / "orders.yaml").read_text())
        super().__init__(self.state / "airflow", self.pipelines, self.state / "trial" / "warehouse")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))}
        ours = {"TXLOOM_STATE": self.state, "TXLOOM_PORT": self.port, "TXLOOM_PIPELINES": self.pipelines}
        # Where other tests run beside, a cycle takes two minutes: what is said after so long must not be said before.
        slower = {"ORDERS_PATIENCE": "5m", "ORDERS_SOURCE_QUIET": "4m", "TXLOOM_DRIVER_MEMORY": "1g"}
        self.variables = kept | {name: str(value) for name, value in ours.items()} | slower
        self.source = living(self.state / "trial")

    def start(self) -> None:
        self.said = self._run(PROJECT / "scripts" / "up.sh")

    def stop(self) -> None:
        self._run(PROJECT / "scripts" / "down.sh")

    def make(self, *words: str) -> str:
        """Do what `make break FAULT=NAME` and `make repair` do, and return what they print."""
        return self._run(Path(sys.executable).with_name("txloom"), "trial", *words)

    def _run(self, *command: Path | str) -> str:
        done = subprocess.run(
            command, env=self.variables, capture_output=True, text=True, check=False, timeout=LONG, cwd=PROJECT
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def next_run(self) -> dict[str, Any]:
        """Wait for a cycle that begins from now on to end, and return it."""
        now = datetime.now(UTC)

        def ended() -> dict[str, Any] | None:
            time.sleep(1)
            later = [
                run for run in self.runs(DAG) if run["start_date"] and datetime.fromisoformat(run["start_date"]) > now
            ]
            return next((run for run in later if run["state"] in ENDED), None)

        run = wait_until(ended, "the next cycle to end", LONG)
        assert run is not None
        return run

    def kill_a_job(self) -> None:
        """Let a job of a cycle be killed, and wait until a second attempt of its task has succeeded."""
        killed = re.search(r"process \d+, which ran (\w+) of orders, was killed", self.make("break", "killed-task"))
        assert killed is not None

        def again() -> bool:
            time.sleep(1)
            tries = [self.tasks(DAG, run["dag_run_id"])[killed[1]] for run in self.runs(DAG)]
            return any(each["try_number"] == 2 and each["state"] == "success" for each in tries)

        wait_until(again, f"a second attempt of {killed[1]} to succeed", LONG)

    def declare_column(self) -> None:
        """Add the column of the fault schema-change to the declaration."""
        declared = self.declaration.read_text()
        self.declaration.write_text(
            declared.replace("      notes: string\n", "      notes: string\n      gift_note: string\n")
        )

    def go_quiet(self) -> None:
        """Let the source send nothing any more, and wait until the page says so."""
        self.make("break", "quiet-source")
        self.shows("source quiet", "Nothing new came for")

    def be_heard_again(self) -> None:
        """Let the source go on, and wait until the page has stopped to say that it is quiet."""
        self.make("repair", "quiet-source")
        wait_until(lambda: "Nothing new came for" not in self.page(), "the source to be heard again", LONG)

    def page(self, path: str = PAGE) -> str:
        """Return the text of a page, without its tags."""
        answer = ask(self, path, self._signed_in())  # type: ignore[arg-type]
        assert answer.code == 200, answer
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))

    def shows(self, *texts: str, path: str = PAGE) -> None:
        """Wait until the page has all of some texts; the next cycles write what it shows."""
        wait_until(lambda: self._has(texts, path), f"the page to show {texts}", LONG)

    def _has(self, texts: tuple[str, ...], path: str) -> bool:
        time.sleep(1)
        shown = self.page(path)
        return all(text in shown for text in texts)

    def token(self, person: str) -> str:
        assert person == "admin"
        return self._signed_in()

    def picture(self, name: str, path: str = PAGE) -> None:
        """Take a picture of a page into docs/images, where they are asked for."""
        if folder := os.environ.get("TXLOOM_PICTURES"):
            with suppress(NotHere), browser() as chromium, visiting(chromium, self, "admin") as visitor:  # type: ignore[arg-type]
                visitor.page.set_viewport_size({"width": 1100, "height": 760})
                page = visitor.open(path)
                if path.startswith("/plugin/"):
                    page.frame_locator("iframe").locator("h1").wait_for()
                page.screenshot(path=Path(folder) / f"trial_{name}.png")

    def rows(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(f"{self.warehouse}/orders/{table}", sql)

    def open_codes(self) -> list[str]:
        """Return the codes of open findings."""
        return [row["code"] for row in open_findings(TablePaths(str(self.warehouse), "orders"))]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    made = Trial(tmp_path_factory.mktemp("trial"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_minutes_after_make_up_the_page_is_green_and_its_numbers_move(trial: Trial) -> None:
    assert (
        f"[trial] order entry goes on, and orders_cdc takes it in each minute: {trial.url}/plugin/txloom" in trial.said
    )
    assert trial.next_run()["state"] == "success"
    (first,) = trial.rows("cuts", "select max(valid_through) as csn from t")
    assert trial.next_run()["state"] == "success"
    (second,) = trial.rows("cuts", "select max(valid_through) as csn from t")
    assert second["csn"] > first["csn"]
    trial.shows("All pipelines are healthy", path="/txloom/")
    trial.picture("green")


def test_what_is_broken_is_seen_after_one_cycle(trial: Trial) -> None:
    lost = re.search(r"in transaction (\S+) was lost", trial.make("break", "lost-row"))
    bad = re.search(r"transaction (\S+) wrote the total '([^']+)'", trial.make("break", "bad-value"))
    assert lost is not None and bad is not None
    trial.make("break", "schema-change")
    trial.next_run()
    shown = trial.page(f"{PAGE}/waiting")
    assert lost[1] in shown and "table short" in shown and "order_line_items" in shown
    shown = trial.page()
    assert "value cannot be read" in shown and bad[1] in shown
    assert "column added" in shown and "GIFT_NOTE" in shown
    trial.picture("broken")
    trial.picture("waiting", f"{PAGE}/waiting")


def test_an_orphan_holds_the_cut_back_and_a_killed_job_is_run_again(trial: Trial) -> None:
    planted = re.search(r"line item (\d+) of order", trial.make("break", "orphan"))
    assert planted is not None
    trial.kill_a_job()
    trial.shows("failed expectation", "orphan_line_items", planted[1], "Nothing is published until it passes")
    trial.picture("orphan")


def test_what_waits_for_too_long_becomes_dead_letters(trial: Trial) -> None:
    trial.shows("table short", "Rows are missing", path=f"{PAGE}/letters")
    trial.picture("letters", f"{PAGE}/letters")


def test_all_of_it_is_repaired_by_the_words_on_the_page(trial: Trial) -> None:
    said = trial.make("repair")
    assert "yours:    bad-value: dismiss what cannot be repaired" in said
    assert "yours:    schema-change: declare it: add `gift_note: string`" in said
    trial.declare_column()
    bad = trial.rows("dead_letters", "select transaction_id from t where cause = 'value cannot be read' limit 1")
    conf = {"action": "dismiss", "transactions": [bad[0]["transaction_id"]], "reason": "written anew since"}
    run = trial.trigger(LETTERS, conf)
    assert bad[0]["transaction_id"] in trial.question_of(LETTERS, run, "approve", LONG)
    trial.answer(LETTERS, run, "approve", "Approve")
    assert trial.wait(LETTERS, run, LONG) == "success"
    wait_until(lambda: trial.next_run()["state"] == "success", "a cycle that publishes", LONG)
    wait_until(lambda: trial.open_codes() == [], "all findings to be closed", LONG)
    (newest,) = trial.rows("orders", "select count(*) as gifts from t where gift_note is not null")
    assert newest["gifts"] > 0
    assert trial.rows("pending_transactions", "select * from t") == []


def test_rows_that_came_before_the_column_was_declared_have_its_values(trial: Trial) -> None:
    (since,) = trial.rows("findings", "select since_csn from t where code = 'column added' limit 1")
    missing = f"select count(*) as n from t where gift_note is null and _txloom_csn >= {since['since_csn']}"
    (after,) = trial.rows("orders", missing)
    assert after["n"] == 0


def test_what_comes_twice_is_counted(trial: Trial) -> None:
    trial.make("break", "connector-restart")

    def counted() -> bool:
        time.sleep(1)
        steps = trial.rows("ledger", "select counts from t where step = 'buffer_transactions'")
        return any(dict(row["counts"]).get("duplicates") for row in steps)

    wait_until(counted, "duplicates in the ledger", LONG)


def test_a_quiet_source_is_told_and_the_lake_is_exactly_what_the_source_is(trial: Trial) -> None:
    trial.go_quiet()
    trial.picture("quiet")

    def unlike() -> str:
        versions = read.versions(str(trial.declaration), warehouse=str(trial.warehouse))
        return difference(trial.source, f"{trial.warehouse}/orders", versions)

    wait_until(lambda: unlike() == "", "the newest cut to be what the source is", LONG)
    trial.be_heard_again()


def test_a_cut_and_an_earlier_moment_are_read(trial: Trial) -> None:
    cuts = trial.rows("cuts", "select valid_through from t order by cut_id")
    first = read.as_of(str(trial.declaration), "orders", csn=cuts[0]["valid_through"], warehouse=str(trial.warehouse))
    last = read.as_of(str(trial.declaration), "orders", csn=cuts[-1]["valid_through"], warehouse=str(trial.warehouse))
    assert 0 < first.num_rows < last.num_rows
