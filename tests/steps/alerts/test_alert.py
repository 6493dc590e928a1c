"""People are told: real tables, a real HTTP server, a real mail server; no Spark."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from services.channels import Hooks, Mails, hooks, mails
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, ExpectationFailed, MessageUnsent
from txloom.steps.alerts.alert import FailedTask, alert, task_failed, task_succeeded
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.health import incidents
from txloom.storage.paths import TablePaths

PROJECT = Path(__file__).resolve().parents[3]
TOKEN, PASSWORD = "T0KEN-of-the-hook", "PASSW0RD-of-the-mail"
SHOP = """
name: shop
source: {{format: goldengate, files: {{path: inbox}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 2h}}
tables:
- {{name: items, source: APP.ITEMS, key: [id], columns: {{id: long}}}}
targets: {{mirrors: ["*"]}}
alerts: {{dead_letters: 0, stuck_after: 10m, valid_through_age: 30m, notify: [{notify}]}}
"""
HOOK = '{kind: webhook, url: "${HOOK}"}'


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    with hooks() as served:
        monkeypatch.setenv("HOOK", f"{served.url}/in?token={TOKEN}")
        yield served


@pytest.fixture
def mail() -> Iterator[Mails]:
    with mails() as served:
        yield served


def declared(folder: Path, *notify: str) -> Pipeline:
    file = folder / "shop.yaml"
    file.write_text(SHOP.format(notify=", ".join(notify)))
    return load(file)


BEGUN: list[datetime] = []


@pytest.fixture(autouse=True)
def begun() -> None:
    """Let a test's times count from its own beginning: it may come long after this file was read."""
    BEGUN[:] = [datetime.now(UTC)]


def at(minutes: float) -> datetime:
    return BEGUN[0] - timedelta(minutes=minutes)


def letters(paths: TablePaths, *ids: str) -> None:
    """Let transactions be dead."""
    where = {"topic": "rows", "file": "rows/1.jsonl", "value": "a value that nobody but the operator should see"}
    rows = [
        {
            "transaction_id": each,
            "kind": "row",
            "table": "items",
            "cause": "table short",
            "line": line,
            "dead_at": at(60),
        }
        | where
        for line, each in enumerate(ids, 1)
    ]
    small_tables.append(paths.dead_letters, rows, system_tables.DEAD_LETTERS)


def works(paths: TablePaths) -> None:
    """Let the pipeline be in order."""
    line = {"run_id": "r", "at": at(1), "generation": 0}
    steps = [
        line | {"step": "land_events", "batch": 1, "counts": [("landed", 1)]},
        line | {"step": "merge_current", "batch": 0, "counts": [("release", 1)], "valid_through": 7},
    ]
    small_tables.append(paths.table("ledger"), steps, system_tables.LEDGER, once=("shop:land_events:0", 1))
    cut = {"cut_id": 1, "valid_through": 7, "committed_at": at(2), "published_at": at(1), "versions": [], "gaps": []}
    small_tables.append(paths.table("cuts"), [cut], system_tables.CUTS)
    # the newest list of what waits names the landing that it has seen
    small_tables.replace(
        paths.table("pending_transactions"), [], system_tables.PENDING_TRANSACTIONS, {"release": 1, "landing": 1}
    )


def repaired(paths: TablePaths, *ids: str) -> None:
    rows = [{"transaction_id": each, "csn": None, "status": "released", "release": 1} for each in ids]
    small_tables.append(paths.table("transactions"), rows, system_tables.TRANSACTIONS)
    small_tables.replace(paths.dead_letters, [], system_tables.DEAD_LETTERS, {})


def run(pipeline: Pipeline, warehouse: Path, **more: Any) -> dict[str, int]:
    """Return how many incidents are open, and how many messages were sent."""
    counts = alert(step_of(pipeline, warehouse, "r"), **more)
    return {name: counts[name] for name in ("open", "sent")}


def test_what_is_measured_is_counted_too(tmp_path: Path, hook: Hooks) -> None:
    pipeline, paths = declared(tmp_path, HOOK), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1", "x1:1", "x2:2")
    counts = alert(step_of(pipeline, tmp_path, "r"))
    assert counts["valid_through_age"] - 120 in range(60), "the newest commit is two minutes old"
    assert (counts["waiting"], counts["dead_letters"], len(hook.bodies())) == (0, 3, 1)


def test_one_message_when_letters_die_and_one_when_they_are_gone(tmp_path: Path, hook: Hooks) -> None:
    pipeline, paths = declared(tmp_path, HOOK), TablePaths(str(tmp_path), "shop")
    works(paths)
    assert run(pipeline, tmp_path) == {"open": 0, "sent": 0}
    letters(paths, "x1:1", "x1:1", "x2:2")
    environment = {"AIRFLOW__API__BASE_URL": "http://airflow.example/"}
    assert [run(pipeline, tmp_path, environment=environment)["sent"] for _ in range(3)] == [1, 0, 0]
    letters(paths, "x3:3")
    assert run(pipeline, tmp_path) == {"open": 1, "sent": 0}
    repaired(paths, "x1:1", "x2:2", "x3:3")
    assert [run(pipeline, tmp_path)["sent"] for _ in range(3)] == [1, 0, 0]
    opened, closed = hook.bodies()
    assert opened["text"] == (
        "[txloom] shop: dead letters\n"
        "What: 3 dead letters are open; 0 may be.\n"
        f"Since: {at(60):%Y-%m-%d %H:%M:%S} UTC\n"
        "Rows: 3, the first 1:\n"
        "- table short: 3 events of 2 transactions, such as x1:1: items, rows/1.jsonl, line 1\n"
        "Do: Rows are missing: compare the producer's offsets with what was landed; send the rows again, then redrive. "
        "Then run the DAG shop_dead_letters.\n"
        "Link: http://airflow.example/dags/shop_dead_letters"
    )
    assert (closed["title"], closed["event"]) == ("[txloom] shop: dead letters is over", "closed")
    assert closed["what"] == "4 dead letters are open; 0 may be."
    path, headers, _ = hook.taken[0]
    assert path == f"/in?token={TOKEN}"
    assert headers["Idempotency-Key"] == opened["id"]


def test_every_channel_is_told_and_the_log_too(
    tmp_path: Path, hook: Hooks, mail: Mails, capsys: pytest.CaptureFixture[str]
) -> None:
    slack, post = "{kind: slack, connection: team}", "{kind: email, to: [a@b.c, d@e.f], connection: post}"
    pipeline, paths = declared(tmp_path, "{kind: log}", HOOK, slack, post), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "<b>&x:1")
    extra = {"from_email": "txloom@example.com", "disable_ssl": True, "disable_tls": True}
    connections = {
        "AIRFLOW_CONN_TEAM": json.dumps({"host": f"{hook.url}/services", "password": f"/{TOKEN}"}),
        "AIRFLOW_CONN_POST": json.dumps({"host": "127.0.0.1", "port": mail.port, "extra": extra}),
    }
    assert run(pipeline, tmp_path, environment=connections)["sent"] == 4
    by_path = {path: body for path, _, body in hook.taken}
    text = by_path[f"/in?token={TOKEN}"]["text"]
    assert by_path[f"/services/{TOKEN}"] == {
        "text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    }
    ((to, mail_text),) = mail.taken
    assert (to, mail_text["From"], mail_text["To"]) == (["a@b.c", "d@e.f"], "txloom@example.com", "a@b.c, d@e.f")
    assert (mail_text["Subject"], mail_text.get_content().replace("\r\n", "\n").strip()) == (
        "[txloom] shop: dead letters",
        text,
    )
    assert capsys.readouterr().out.strip() == text


def test_a_channel_that_is_down_is_tried_again_and_the_others_hear_nothing_twice(tmp_path: Path, hook: Hooks) -> None:
    slack = "{kind: slack, connection: team}"
    pipeline, paths = declared(tmp_path, HOOK, slack), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1")
    with hooks() as other:
        other.status = 302
        connections = {"AIRFLOW_CONN_TEAM": json.dumps({"host": other.url, "password": TOKEN})}
        for status in (302, 500):
            other.status = status
            with pytest.raises(MessageUnsent) as refused:
                run(pipeline, tmp_path, environment=connections)
            assert str(refused.value) == f"slack: HTTP {status}"
        other.status = 200
        assert run(pipeline, tmp_path, environment=connections) == {"open": 1, "sent": 1}
        assert (len(hook.taken), len(other.taken)) == (1, 1)


def test_what_goes_wrong_with_a_channel_is_named_without_any_secret(tmp_path: Path, mail: Mails) -> None:
    post = "{kind: email, to: [a@b.c], connection: post}"
    pipeline, paths = declared(tmp_path, post, "{kind: slack}"), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1")
    mail.refuses = 550
    extra = {"from_email": "t@e.c", "disable_ssl": "true", "disable_tls": "true"}
    mail_connection = json.dumps({"host": "127.0.0.1", "port": mail.port, "extra": extra, "password": PASSWORD})
    hidden = json.dumps({"host": f"http://127.0.0.1:9/{TOKEN} {TOKEN}", "password": TOKEN})
    errors = []
    for slack in (hidden, json.dumps({"host": f"http://127.0.0.1:9/{TOKEN}"}), ""):
        with pytest.raises(MessageUnsent) as refused:
            run(
                pipeline,
                tmp_path,
                environment={"AIRFLOW_CONN_POST": mail_connection, "AIRFLOW_CONN_SLACK_DEFAULT": slack},
            )
        errors.append(str(refused.value))
    missing = (
        "slack: expected the connection slack_default. Define it in Airflow; for a job by hand set "
        "AIRFLOW_CONN_SLACK_DEFAULT to its URI or JSON."
    )
    refusal = "email: SMTPSenderRefused 550"
    assert errors == [
        f"{refusal}; slack: InvalidURL",
        f"{refusal}; slack: ConnectionRefusedError",
        f"{refusal}; {missing}",
    ]


def test_a_failed_task_is_one_incident_until_it_succeeds(tmp_path: Path, hook: Hooks) -> None:
    pipeline = declared(tmp_path, HOOK)
    where = {"warehouse": str(tmp_path), "task": "shop_cdc.merge_current"}
    page = "dags/shop_cdc/runs/r/tasks/merge_current"
    for run_ in (1, 2):
        merge = FailedTask(where["task"], f"failed in run {run_}\nbadly", page)
        task_failed(pipeline, merge, warehouse=str(tmp_path))
        task_failed(pipeline, FailedTask("shop_cdc.publish", "no", page), warehouse=str(tmp_path))
    run(pipeline, tmp_path)
    for _ in range(2):
        task_succeeded(pipeline, **where)
    listed = [(body["event"], body["subject"], body["what"]) for body in hook.bodies() if body["kind"] == "failed task"]
    assert listed == [
        ("opened", "shop_cdc.merge_current", "failed in run 1 badly"),
        ("opened", "shop_cdc.publish", "no"),
        ("closed", "shop_cdc.merge_current", "failed in run 2 badly"),
    ]


def test_a_task_that_never_failed_writes_nothing(tmp_path: Path) -> None:
    task_succeeded(declared(tmp_path, "{kind: log}"), warehouse=str(tmp_path / "lake"), task="shop_cdc.publish")
    assert not (tmp_path / "lake").exists()


def _together(folder: str, url: str, ready: Any) -> None:
    os.environ["HOOK"] = url
    pipeline = load(Path(folder) / "shop.yaml")
    ready.wait()
    alert(step_of(pipeline, folder, "r"))


def test_runs_that_meet_send_one_message(tmp_path: Path, hook: Hooks) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    declared(tmp_path, HOOK)
    works(paths)
    letters(paths, "x1:1")
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    url = os.environ["HOOK"]
    runs = [context.Process(target=_together, args=(str(tmp_path), url, ready)) for _ in range(3)]
    for each in runs:
        each.start()
    for each in runs:
        each.join(60)
    assert [each.exitcode for each in runs] == [0, 0, 0]
    assert [body["kind"] for body in hook.bodies()] == ["dead letters"]
    assert [each.opened_to for each in incidents.lifecycles(paths)] == [frozenset({"webhook"})]


DIES = """
import sys
from pathlib import Path
from txloom.config import load
from txloom.steps.alerts import alert
from txloom.steps.step import Step
from txloom.storage.health import incidents
import os
wanted, change = 2, incidents.change
def dies(*given, **more):
    global wanted
    wanted -= 1
    if not wanted:
        os._exit(9)
    return change(*given, **more)
incidents.change = dies
alert.alert(Step.of(load(Path(sys.argv[1]) / "shop.yaml"), sys.argv[1], "r"))
"""


def test_a_sender_that_dies_before_it_noted_sends_again_under_the_same_id(
    tmp_path: Path, hook: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, paths = declared(tmp_path, HOOK), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1")
    died = subprocess.run([sys.executable, "-c", DIES, tmp_path], capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    assert run(pipeline, tmp_path) == {"open": 1, "sent": 0}
    monkeypatch.setattr("txloom.quality.incident_lifecycle.CLAIM", timedelta(0))
    assert run(pipeline, tmp_path) == {"open": 1, "sent": 1}
    first, second = (body["id"] for body in hook.bodies())
    assert first == second


def test_a_look_at_the_source_keeps_a_quiet_pipeline_from_being_called_broken(tmp_path: Path, hook: Hooks) -> None:
    text = SHOP.replace("valid_through_age: 30m", "valid_through_age: 30m, source_quiet: 45m").format(notify=HOOK)
    (tmp_path / "shop.yaml").write_text(text)
    pipeline, paths = load(tmp_path / "shop.yaml"), TablePaths(str(tmp_path), "shop")
    works(paths)
    small_tables.replace(paths.table("ledger"), [_landing(60)], system_tables.LEDGER, {})
    run(pipeline, tmp_path)
    run(pipeline, tmp_path, source_was_checked=True)
    run(pipeline, tmp_path)
    listed = [(body["event"], body["kind"]) for body in hook.bodies()]
    assert listed == [("opened", "pipeline broken"), ("closed", "pipeline broken"), ("opened", "source quiet")]


def _landing(minutes: float) -> dict[str, Any]:
    line = {"run_id": "r", "at": at(minutes), "generation": 0, "step": "land_events", "batch": 1}
    return line | {"counts": [("landed", 1)]}


def test_what_the_tables_say_is_every_kind_at_once(tmp_path: Path, hook: Hooks) -> None:
    pipeline, paths = declared(tmp_path, HOOK), TablePaths(str(tmp_path), "shop")
    works(paths)
    waiting = {
        "transaction_id": "x9:9",
        "csn": 9,
        "first_landed_at": at(11),
        "expected": [("items", 2)],
        "received": [("items", 1)],
        "cause": "table short",
    }
    some = [waiting | {"transaction_id": f"x{n}:{n}", "first_landed_at": at(11 if n < 7 else 1)} for n in range(1, 9)]
    small_tables.replace(
        paths.table("pending_transactions"), some, system_tables.PENDING_TRANSACTIONS, {"release": 1, "landing": 1}
    )
    small_tables.append(
        paths.table("cuts"), [{"cut_id": 2, "valid_through": 8, "committed_at": at(31)}], system_tables.CUTS
    )
    bad = {"run_id": "r", "step": "balance", "at": at(3), "balanced": False, "detail": "1 events are not accounted for"}
    small_tables.append(paths.table("ledger"), [bad], system_tables.LEDGER)
    run(pipeline, tmp_path)
    by_kind = {body["kind"]: body for body in hook.bodies()}
    assert sorted(by_kind) == ["ledger unbalanced", "stuck transactions", "valid-through old"]
    stuck = by_kind["stuck transactions"]
    assert (stuck["total"], len(stuck["rows"]), stuck["rows"][0]) == (6, 5, "x1:1: table short; items 1/2")
    assert (by_kind["valid-through old"]["total"], by_kind["ledger unbalanced"]["what"]) == (
        8,
        "1 events are not accounted for.",
    )


def test_no_secret_and_no_value_is_in_the_table_or_in_a_job_s_log(tmp_path: Path, hook: Hooks) -> None:
    declared(tmp_path, HOOK, "{kind: log}", "{kind: slack}")
    paths = TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1")
    slack = json.dumps({"host": hook.url, "password": PASSWORD})
    environment = {**os.environ, "AIRFLOW_CONN_SLACK_DEFAULT": slack, "HOOK": f"{hook.url}/{TOKEN}"}
    hook.status = 403
    arguments = ["--pipeline", str(tmp_path / "shop.yaml"), "--warehouse", str(tmp_path), "--run-id", "r"]
    done = subprocess.run(
        [sys.executable, PROJECT / "jobs" / "alert.py", *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 15
    assert done.stderr.strip() == (
        "txloom alert failed (MessageUnsent, exit code 15): webhook: HTTP 403; slack: HTTP 403"
    )
    kept = "".join(
        file.read_bytes().decode(errors="replace") for file in (tmp_path / "shop" / "incidents").rglob("*.*")
    )
    for text in (kept, done.stdout, str(incidents.lifecycles(paths))):
        assert not [secret for secret in (TOKEN, PASSWORD, "a value that nobody") if secret in text]


def test_without_the_block_nothing_is_looked_at(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "{kind: log}").model_copy(update={"alerts": None})
    assert run(pipeline, tmp_path / "lake") == {"open": 0, "sent": 0}
    assert not (tmp_path / "lake").exists()


def test_a_mail_server_without_a_sender_is_a_mistake_of_the_connection(tmp_path: Path, mail: Mails) -> None:
    pipeline, paths = declared(tmp_path, "{kind: email, to: [a@b.c]}"), TablePaths(str(tmp_path), "shop")
    works(paths)
    letters(paths, "x1:1")
    extra = {"disable_ssl": True, "disable_tls": True}
    connection = json.dumps({"host": "127.0.0.1", "port": mail.port, "extra": extra})
    with pytest.raises(MessageUnsent) as refused:
        run(pipeline, tmp_path, environment={"AIRFLOW_CONN_SMTP_DEFAULT": connection})
    assert str(refused.value) == "email: the connection smtp_default has no extra from_email"
    assert ConfigurationError.exit_code != MessageUnsent.exit_code


def test_a_task_that_fails_for_an_expectation_is_told_as_that_expectation_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    orphans = (
        "{kind: stuck_transactions, id: stuck, older_than: 1h, severity: block, sentence: Nobody waits., hint: Look.}"
    )
    file.write_text(SHOP.format(notify="") + f"expectations: [{orphans}]\n")
    pipeline, paths = load(file), TablePaths(str(tmp_path), "shop")
    works(paths)
    result = {
        "run_id": "r",
        "expectation": "stuck",
        "kind": "stuck_transactions",
        "severity": "block",
        "success": False,
    }
    result |= {"checked": 3, "failed": 1, "sample": "[]", "sentence": "Nobody waits.", "hint": "Look.", "versions": []}
    small_tables.append(
        paths.table("expectation_results"), [result | {"checked_at": at(0)}], system_tables.EXPECTATION_RESULTS
    )
    said = "txloom publish failed (ExpectationFailed, exit code 20): stuck: 1 of 3 rows fail in transactions. Look."
    where: dict[str, Any] = {"warehouse": str(tmp_path)}
    task_failed(pipeline, FailedTask("shop_cdc.publish", said, exit_code=ExpectationFailed.exit_code), **where)
    run(pipeline, tmp_path)
    open_keys = [each.incident.key for each in incidents.lifecycles(paths) if each.closed_at is None]
    assert open_keys == [("failed expectation", "stuck")]
    task_failed(pipeline, FailedTask("shop_cdc.publish", "the disk is full", exit_code=1), **where)
    open_keys = [each.incident.key for each in incidents.lifecycles(paths) if each.closed_at is None]
    assert open_keys == [("failed expectation", "stuck"), ("failed task", "shop_cdc.publish")]
