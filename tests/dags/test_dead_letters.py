"""Dead letters and alerts in a real Airflow: what a person refuses or approves, and one message for each incident."""

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.airflow.instance import Airflow
from services.channels import Hooks, hooks
from txloom.storage.delta import small_tables

pytestmark = [pytest.mark.long, pytest.mark.random_order(disabled=True), pytest.mark.timeout(1800)]
"""The tests are steps of one story: Airflow takes half a minute to start, and a run as many JVMs as it has steps."""
LONG = 900
TOKEN, VALUE = "T0KEN-of-the-hook", 3_000_000_017
CAUSE = "value cannot be read"
DECLARATION = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long, amount: {type}}}}}]
targets: {{mirrors: [rows]}}
alerts:
  schedule: null
  dead_letters: 0
  notify: [{{kind: webhook, url: "${{conn:hook.password}}"}}]
"""


class Shop:
    """A pipeline with one row that its declaration cannot read, and those who are told."""

    def __init__(self, airflow: Airflow, folder: Path, served: Hooks) -> None:
        self.airflow, self.folder, self.hooks = airflow, folder, served
        self.first = ""

    def declare(self, kind: str) -> None:
        text = DECLARATION.format(inbox=self.folder / "inbox", type=kind)
        (self.folder / "pipelines" / "shop.yaml").write_text(text)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(f"{self.folder}/lake/shop/{table}", sql)

    def amounts(self) -> list[int]:
        return [row["amount"] for row in self.query("rows", "select amount from t order by id")]

    def start(self, **conf: Any) -> str:
        """Begin a run of the dead letters DAG."""
        self.airflow.unpause("shop_dead_letters")
        return self.airflow.trigger("shop_dead_letters", conf)

    def question(self, run_id: str) -> str:
        """Wait until a person is asked, and return what they read."""
        return self.airflow.question_of("shop_dead_letters", run_id, "approve", within=LONG)

    def answer(self, run_id: str, option: str) -> str:
        """Answer, and return how the run ended."""
        self.airflow.answer("shop_dead_letters", run_id, "approve", option)
        return self.airflow.wait("shop_dead_letters", run_id, LONG)

    def note(self, run_id: str) -> str:
        run = self.airflow.ask("GET", f"/api/v2/dags/shop_dead_letters/dagRuns/{urllib.parse.quote(run_id)}")
        return str(run["note"])

    def notified(self) -> list[tuple[str, str, str]]:
        return [(body["event"], body["kind"], body["subject"]) for body in self.hooks.bodies()]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("letters")
    (folder / "pipelines").mkdir()
    (folder / "inbox" / "rows").mkdir(parents=True)
    rows = [{"FLAG": "I", "ID": n, "AMOUNT": amount, "CDC_TIMESTAMP": n} for n, amount in enumerate((5, VALUE, 7))]
    (folder / "inbox" / "rows" / "1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with hooks() as served:
        secret = json.dumps({"conn_type": "http", "password": f"{served.url}/{TOKEN}"})
        airflow = Airflow(folder / "airflow", folder / "pipelines", folder / "lake", {"AIRFLOW_CONN_HOOK": secret})
        made = Shop(airflow, folder, served)
        made.declare("int")
        with airflow:
            yield made


def test_a_cycle_ends_with_one_message_about_what_it_could_not_read(shop: Shop) -> None:
    shop.airflow.unpause("shop_cdc")
    run_id = shop.airflow.trigger("shop_cdc")
    assert shop.airflow.wait("shop_cdc", run_id, LONG) == "success"
    assert shop.amounts() == [5, 7]
    assert shop.airflow.tasks("shop_cdc", run_id)["alert"]["state"] == "success"
    assert shop.notified() == [("opened", "dead letters", "")]
    (body,) = shop.hooks.bodies()
    assert body["link"] == f"{shop.airflow.url}/dags/shop_dead_letters"


def test_a_task_that_fails_sends_one_message_with_its_own_sentence(shop: Shop) -> None:
    run_id = shop.start(causes=["bad luck"])
    assert shop.airflow.wait("shop_dead_letters", run_id, LONG) == "failed"
    (body,) = shop.hooks.bodies()[1:]
    sentence = (
        "txloom list_dead_letters failed (ConfigurationError, exit code 2): no open dead letter has the cause "
        f"'bad luck'; causes are: {CAUSE}"
    )
    assert (body["subject"], body["what"]) == ("shop_dead_letters.list_dead_letters", sentence)
    assert body["link"] == f"{shop.airflow.url}/dags/shop_dead_letters/runs/{run_id}/tasks/list_dead_letters"


def test_with_nothing_chosen_a_run_lists_and_ends(shop: Shop) -> None:
    run_id = shop.start()
    assert shop.airflow.wait("shop_dead_letters", run_id, LONG) == "success"
    states = {task: each["state"] for task, each in shop.airflow.tasks("shop_dead_letters", run_id).items()}
    assert (states["approve"], states["redrive"], states["outcome"]) == ("skipped", "skipped", "success")
    assert shop.note(run_id) == "Nothing was redriven: no open dead letter was chosen."
    assert CAUSE in shop.airflow.log("shop_dead_letters", run_id, "list_dead_letters")
    assert shop.notified()[2:] == [("closed", "failed task", "shop_dead_letters.list_dead_letters")]


def test_what_a_person_refuses_is_not_redriven(shop: Shop) -> None:
    run_id = shop.start(everything=True)
    shop.question(run_id)
    assert shop.answer(run_id, "Reject") == "success"
    states = {task: each["state"] for task, each in shop.airflow.tasks("shop_dead_letters", run_id).items()}
    assert (states["redrive"], states["publish"], states["outcome"]) == ("skipped", "skipped", "success")
    assert shop.note(run_id) == "Nothing was redriven: admin refused."
    assert shop.amounts() == [5, 7]


def test_what_a_person_approves_is_redriven_as_declared_now_and_told_one_by_one(shop: Shop) -> None:
    shop.declare("long")
    run_id = shop.start(causes=[CAUSE])
    page = shop.question(run_id)
    (letter,) = shop.query("dead_letters", "select transaction_id, dead_at from t")
    assert page.startswith("**1 events of 1 transactions** go through the buffer once more.")
    assert f"| {CAUSE} | 1 | 1 | " in page
    assert "**If you approve:**\n\n- 1 messages of 1 transactions" in page and "It cannot be undone" in page
    assert "rows/1.jsonl, line 2" in page
    assert shop.answer(run_id, "Approve") == "success"
    assert shop.amounts() == [5, VALUE, 7]
    outcome = shop.airflow.xcom("shop_dead_letters", run_id, "outcome")
    assert outcome == {"redriven": 1, "released": 1, "waiting": 0, "dead": {}, "still_poison": 0}
    assert shop.note(run_id) == (
        f"**1 of 1 transactions were released.**\n\n- {letter['transaction_id']}: released\n\nApproved by admin."
    )


def test_when_it_is_over_one_more_message_says_so(shop: Shop) -> None:
    for _ in range(2):
        shop.airflow.unpause("shop_alerts")
        assert shop.airflow.wait("shop_alerts", shop.airflow.trigger("shop_alerts"), LONG) == "success"
    assert shop.notified()[3:] == [("closed", "dead letters", "")]


def test_what_needs_no_redrive_is_dismissed_by_name_and_the_message_says_that_it_is_over(shop: Shop) -> None:
    (shop.folder / "inbox" / "rows" / "2.jsonl").write_text("{broken\n")
    assert shop.airflow.wait("shop_cdc", shop.airflow.trigger("shop_cdc"), LONG) == "success"
    assert shop.notified()[4:] == [("opened", "dead letters", "")]
    run_id = shop.start(action="dismiss", messages=["rows/2.jsonl, line 1"], reason="sent again whole")
    assert shop.question(run_id).startswith(
        "**1 events of 0 transactions** are dismissed: sent again whole\n\nNobody is"
    )
    assert shop.answer(run_id, "Approve") == "success"
    states = {task: each["state"] for task, each in shop.airflow.tasks("shop_dead_letters", run_id).items()}
    assert (states["dismiss"], states["redrive"], states["publish"]) == ("success", "skipped", "skipped")
    assert shop.note(run_id).startswith("**1 dead letters were dismissed** by admin: sent again whole")
    settled = shop.query("dismissals", "select person, reason, transaction_id from t")
    assert settled == [{"person": "admin", "reason": "sent again whole", "transaction_id": None}]
    assert shop.airflow.wait("shop_alerts", shop.airflow.trigger("shop_alerts"), LONG) == "success"
    assert shop.notified()[5:] == [("closed", "dead letters", "")]
    assert shop.amounts() == [5, VALUE, 7]


def test_neither_a_secret_nor_a_value_is_in_any_log_or_message(shop: Shop) -> None:
    kept = [path for path in (shop.folder / "airflow" / "logs").rglob("*") if path.is_file()]
    kept += [path for path in (shop.folder / "lake" / "shop" / "incidents").rglob("*") if path.is_file()]
    assert len(kept) > 10
    for path in kept:
        text = path.read_bytes()
        assert TOKEN.encode() not in text, path
        assert str(VALUE).encode() not in text, path
    assert str(VALUE) not in json.dumps(shop.hooks.bodies())
