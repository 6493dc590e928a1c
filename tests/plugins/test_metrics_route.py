"""The plugin's route for Prometheus in a running API server: closed without a token, with one what its user may see."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.airflow.api_server import ApiServer
from services.airflow.browsing import ask
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CUTS

PIPELINES = Path(__file__).resolve().parents[2] / "include" / "pipelines"
ENDED = """
from datetime import datetime, timedelta, timezone
from airflow.models.dagrun import get_or_create_dagrun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.settings import Session
from airflow.utils.types import DagRunTriggeredByType
now = datetime.now(timezone.utc)
for run_id, ago, state, seconds in (("a", 3, "success", 9.0), ("b", 2, "success", 4.5), ("c", 1, "failed", 1.0)):
    with Session() as session:
        run = get_or_create_dagrun(
            dag=SerializedDagModel.get_dag("orders_cdc", session=session), run_id=run_id, conf=None,
            logical_date=now - timedelta(hours=ago), data_interval=(now, now), run_after=now, start_date=now,
            triggered_by=DagRunTriggeredByType.TEST, triggering_user_name="test", session=session,
        )
        task = run.get_task_instance("merge_current", session=session)
        task.state, task.duration, task.end_date = state, seconds, now - timedelta(hours=ago)
        session.commit()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    lake = tmp_path_factory.mktemp("lake")
    cut = {"cut_id": 3, "valid_through": 77, "versions": [("orders", 5)], "gaps": [], "amends": []}
    at = datetime.now(UTC)
    cut |= {"committed_at": at - timedelta(hours=2), "published_at": at - timedelta(hours=1)}
    small_tables.append(TablePaths(str(lake), "orders").table("cuts"), [cut], CUTS)
    fewer = {"TEST_READS_ONLY": "nobody="}
    with ApiServer(tmp_path_factory.mktemp("airflow"), PIPELINES, lake, fewer) as started:
        yield started


def test_nobody_reads_metrics_without_a_token(server: ApiServer) -> None:
    assert ask(server, "/txloom/metrics", accept="*/*").code == 401
    assert ask(server, "/txloom/metrics", "no.such.token", "*/*").code in (401, 403)


def test_a_user_reads_the_metrics_of_pipelines_whose_dag_they_may_read(server: ApiServer) -> None:
    variables = server.environment | {"PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "ignore", "-c", ENDED]
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = ask(server, "/txloom/metrics", server.token("admin"), "*/*")
    assert (answer.code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples = [sample for family in text_string_to_metric_families(str(answer.text)) for sample in family.samples]
    assert {sample.labels["pipeline"] for sample in samples} == {"orders"}
    read = {sample.name: sample.value for sample in samples}
    assert read["txloom_up"] == 1
    assert 7200 <= read["txloom_valid_through_age_seconds"] < 7300
    assert 3600 <= read["txloom_last_cut_age_seconds"] < 3700
    took = {each.labels["task"]: each.value for each in samples if each.name == "txloom_step_seconds"}
    assert took == {"merge_current": 4.5}
    assert ask(server, "/txloom/metrics", server.token("nobody"), "*/*").text == ""
