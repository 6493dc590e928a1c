"""What the page asks Airflow: whose turn it is in a pipeline's pool; and a declaration that was refused since."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.airflow.api_server import ApiServer
from services.airflow.browsing import ask
from services.airflow.settings import PROJECT

SHIPPED = PROJECT / "include" / "pipelines" / "orders.yaml"
PARTS = ("waiting", "letters", "findings", "incidents", "runs", "cuts", "transaction", "expectations", "key")
STATES = """
import sys
from datetime import datetime, timezone
from airflow.models.dagrun import get_or_create_dagrun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.settings import Session
from airflow.utils.types import DagRunTriggeredByType
now = datetime.now(timezone.utc)
for told in sys.argv[1:]:
    dag_id, task_id, state = told.split()
    with Session() as session:
        run = get_or_create_dagrun(
            dag=SerializedDagModel.get_dag(dag_id, session=session), run_id="a_run", logical_date=None,
            data_interval=None, run_after=now,
            conf={"path": "/exports", "csn": 1} if dag_id == "orders_load" else None,
            triggered_by=DagRunTriggeredByType.TEST,
            triggering_user_name="test", start_date=now, session=session,
        )
        task = run.get_task_instance(task_id, session=session)
        task.state, task.scheduled_dttm = state, now
        session.commit()
"""

RUNS = """
import sys
from datetime import datetime, timedelta, timezone
from airflow.models.dagrun import get_or_create_dagrun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.settings import Session
from airflow.utils.types import DagRunTriggeredByType
for name in sys.argv[1:]:
    dag_id, run_id, state, minutes = name.split()
    ended = datetime.now(timezone.utc) - timedelta(minutes=int(minutes))
    with Session() as session:
        run = get_or_create_dagrun(
            dag=SerializedDagModel.get_dag(dag_id, session=session), run_id=run_id, logical_date=ended,
            data_interval=None, run_after=ended, conf=None, triggered_by=DagRunTriggeredByType.TEST,
            triggering_user_name="test", start_date=ended, session=session,
        )
        run.set_state(state)
        run.end_date = ended
        session.commit()
"""


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipelines")
    shutil.copy(SHIPPED, folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pipelines: Path) -> Iterator[ApiServer]:
    fewer = {"TEST_READS_ONLY": "nobody="}
    with ApiServer(tmp_path_factory.mktemp("airflow"), pipelines, tmp_path_factory.mktemp("lake"), fewer) as started:
        yield started


def states(server: ApiServer, *names_of: str, program: str = STATES) -> None:
    """Put tasks, or whole runs, into states, as the scheduler does."""
    command = [sys.executable, "-W", "ignore", "-c", program, *names_of]
    variables = server.environment | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def page(server: ApiServer, path: str = "dags/orders_cdc") -> str:
    return " ".join(ask(server, f"/txloom/{path}", server.token("ann"), "text/html").text.split())


def test_the_page_says_which_task_has_the_slot_and_which_wait_for_it(server: ApiServer) -> None:
    assert "nothing runs now" in page(server)
    states(
        server,
        "orders_maintenance optimize running",
        "orders_cdc land_events scheduled",
        "orders_load publish scheduled",
    )
    text = page(server)
    assert '<b>optimize</b> <span class="small">of orders_maintenance begins' in text
    waits = text.split("Waiting for optimize of orders_maintenance to end, one task at a time: ")[1].split("</p>")[0]
    assert waits.index("<b>publish</b> of orders_load") < waits.index("<b>land_events</b> of orders_cdc")
    states(
        server, "orders_maintenance optimize success", "orders_cdc land_events success", "orders_load publish success"
    )
    assert "nothing runs now" in page(server)


def test_runs_that_failed_since_are_to_act_on_until_a_later_one_succeeds(server: ApiServer) -> None:
    failed = "orders_maintenance one failed 90", "orders_maintenance two failed 30", "orders_backfill one failed 30"
    states(server, *failed, "orders_backfill two success 20", program=RUNS)
    text = page(server, "dags/orders_cdc?since=1h")
    assert "<b>1 new thing to act on</b>, 1 thing is over or was done" in text
    link = 'href="/dags/orders_maintenance/runs?state=failed" data-airflow>1 run of orders_maintenance failed</a>'
    assert link in text and ">1 run of orders_backfill failed; a later one succeeded</a>" in text
    assert ">2 runs of orders_maintenance failed</a>" in page(server, "dags/orders_cdc?since=8h")
    assert "1 run of orders_maintenance failed" in page(server, "?since=1h")
    states(server, "orders_maintenance three success 5", program=RUNS)
    assert "nothing new to act on, 2 things are over or were done" in page(server, "dags/orders_cdc?since=1h")


def test_a_refused_declaration_keeps_its_page_and_its_status_and_says_why(server: ApiServer, pipelines: Path) -> None:
    (pipelines / "orders.yaml").write_text(SHIPPED.read_text().replace("rule: counts", "rule: cuonts"))
    try:
        text = page(server)
        assert "declaration refused" in text and "orders.yaml:" in text and "cuonts" in text
        for part in (
            "waiting",
            "letters",
            "findings",
            "incidents",
            "runs",
            "cuts",
            "transaction",
            "expectations",
            "key",
        ):
            assert "<h1" in page(server, f"dags/orders_cdc/{part}"), part
        shown = ask(server, "/txloom/status/orders_cdc", server.token("ann"), "application/json")
        assert (shown.code, shown.content["pipeline"], shown.content["cut"]) == (200, "orders", None)
        assert ask(server, "/txloom/dags/orders_cdc", server.token("nobody"), "text/html").code == 403
        assert ask(server, "/txloom/dags/orders_maintenance/tab", server.token("ann"), "text/html").code == 303
    finally:
        shutil.copy(SHIPPED, pipelines)
