"""Messages over Apprise, to a real HTTP server: what arrives, what an error says, and that no secret is in a log."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from services.channels import Hooks, hooks
from txloom.config import load
from txloom.errors import ConfigurationError, MessageUnsent
from txloom.quality.incident_lifecycle import Due, IncidentLifecycle
from txloom.quality.incidents import Incident
from txloom.quality.messages import Message, message
from txloom.steps.alerts.alert import alert
from txloom.steps.alerts.apprise_notifier import AppriseNotifier
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
"""Apprise imports it where Python still has it."""
TOKEN = "T0KEN-of-the-hook"
SHOP = """
name: shop
source: {{format: change_sets, files: {{path: {folder}}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
alerts: {{dead_letters: 0, notify: [{notify}]}}
"""
FIRST, SECOND = '{kind: apprise, url: "${conn:on_call.password}"}', '{kind: apprise, url: "${SECOND}"}'


@pytest.fixture
def hook() -> Iterator[Hooks]:
    with hooks() as served:
        yield served


def url(hook: Hooks) -> str:
    return f"json://user:{TOKEN}@127.0.0.1:{hook.port}/in/{TOKEN}"


def about(severity: str, event: str = "opened") -> Message:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    incident = Incident("dead letters", "", at, severity, "4 dead letters are open.", "Redrive them.", 1, ("x1:1",))
    return message("shop", Due(IncidentLifecycle(incident, at, closed_at=at), event, "apprise"), "http://airflow")


def in_lake(folder: Path, *notify: str, **environment: str) -> Any:
    """Return a pipeline of which a transaction is dead."""
    (folder / "shop.yaml").write_text(SHOP.format(folder=folder, notify=", ".join(notify)))
    dead = {"transaction_id": "x1:1", "kind": "row", "table": "rows", "cause": "table short", "line": 1}
    dead |= {"topic": "rows", "file": "rows/1.jsonl", "dead_at": datetime.now(UTC)}
    small_tables.append(TablePaths(str(folder), "shop").dead_letters, [dead], system_tables.DEAD_LETTERS)
    return load(folder / "shop.yaml", environment)


@pytest.mark.parametrize(
    ("severity", "event", "kind"),
    [("error", "opened", "failure"), ("warn", "opened", "warning"), ("error", "closed", "success")],
)
def test_a_message_arrives_with_title_text_and_the_type_by_which_services_colour_it(
    hook: Hooks, severity: str, event: str, kind: str
) -> None:
    sent = about(severity, event)
    AppriseNotifier("apprise", url(hook)).send(sent)
    ((path, headers, body),) = hook.taken
    assert (path, headers["Authorization"][:6]) == (f"/in/{TOKEN}", "Basic ")
    assert (body["title"], body["type"]) == (sent.subject, kind)
    assert f"{body['title']}\n{body['message']}" == sent.text


def test_an_error_names_the_service_and_the_code_and_no_address(
    hook: Hooks, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    address, hook.status = url(hook), 503
    with pytest.raises(MessageUnsent) as refused:
        AppriseNotifier("apprise 2", address).send(about("error"))
    assert str(refused.value) == "apprise 2: json: HTTP 503"
    with pytest.raises(MessageUnsent) as refused:
        AppriseNotifier("apprise", f"json://127.0.0.1:1/{TOKEN}").send(about("error"))
    assert str(refused.value) == "apprise: json did not take it"
    said = "".join((caplog.text, *capfd.readouterr()))
    assert not [each for each in (TOKEN, "127.0.0.1") if each in said]
    assert logging.getLogger("apprise").propagate


def test_a_url_that_apprise_does_not_know_is_refused_without_its_secret() -> None:
    with pytest.raises(ConfigurationError) as refused:
        AppriseNotifier("apprise", f"nosuchservice://{TOKEN}").send(about("error"))
    assert str(refused.value) == "apprise: Apprise takes no such URL of nosuchservice://"


def test_where_apprise_is_not_installed_an_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigurationError, match=r"^apprise: it needs the package: pip install apprise$"):
        AppriseNotifier("apprise", "json://127.0.0.1").send(about("error"))


def test_a_service_that_is_down_is_tried_again_and_the_other_hears_nothing_twice(tmp_path: Path, hook: Hooks) -> None:
    with hooks() as other:
        connection = json.dumps({"password": url(hook)})
        environment = {"AIRFLOW_CONN_ON_CALL": connection, "SECOND": url(other)}
        step = step_of(in_lake(tmp_path, FIRST, SECOND, **environment), tmp_path, "r")
        other.status = 500
        with pytest.raises(MessageUnsent, match=r"^apprise 2: json: HTTP 500$"):
            alert(step, environment)
        other.status = 200
        assert alert(step, environment)["sent"] > 0
        titles = [[body["title"] for body in served.bodies()] for served in (hook, other)]
    assert titles[0] == titles[1] and len(set(titles[0])) == len(titles[0])
    assert "[txloom] shop: dead letters" in titles[0]


def test_no_secret_is_in_a_jobs_log(tmp_path: Path, hook: Hooks) -> None:
    in_lake(tmp_path, SECOND, SECOND=url(hook))
    hook.status = 403
    project = Path(__file__).resolve().parents[3]
    arguments = ["--pipeline", str(tmp_path / "shop.yaml"), "--warehouse", str(tmp_path), "--run-id", "r"]
    done = subprocess.run(
        [sys.executable, project / "jobs" / "alert.py", *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(project / "include"), "SECOND": url(hook)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, TOKEN in done.stdout + done.stderr) == (15, False), done.stderr
    assert done.stderr.strip() == "txloom alert failed (MessageUnsent, exit code 15): apprise: json: HTTP 403"
