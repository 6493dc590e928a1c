"""The note of a run: what a task has said, else what its steps counted and which tasks are red."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txloom.orchestration.approvals.approval import ANSWER

PROJECT = Path(__file__).resolve().parents[2]
DECLARED = """
name: plant
source: {format: change_sets, files: {path: inbox}}
completeness: {rule: single}
tables: [{name: readings, source: PLANT.READINGS, columns: {id: long}, key: [id]}]
targets: {mirrors: ["*"]}
"""
ENDED = """
import json, runpy, sys
from airflow.api_fastapi.core_api.services.public.dag_run import patch_dag_run_note
from datetime import datetime, timezone
from types import SimpleNamespace
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
from airflow.models.dagrun import DagRun, get_or_create_dagrun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.xcom import XComModel
from airflow.settings import Session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from txloom_notes import RunNotes

DagBundlesManager().sync_bundles_to_db()
(bundle,) = DagBundlesManager().get_all_dag_bundles()
bundle.initialize()
sync_bag_to_db(BundleDagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name), bundle.name, bundle.version)
backfill = runpy.run_path(f"{bundle.path}/txloom_backfill.py")
now = datetime.now(timezone.utc)


class Instance:
    def __init__(self, run, task, pulled, session):
        self.where = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": task, "session": session}
        self.pulled = pulled

    def xcom_pull(self, task_ids, key="return_value"):
        return self.pulled.get(f"{task_ids}.{key}")

    def xcom_push(self, key, value):
        XComModel.set(key, value, **self.where)


def note(number, dag_id, failed, counts, pulled=None):
    with Session() as session:
        run = get_or_create_dagrun(
            dag=SerializedDagModel.get_dag(dag_id, session=session), run_id=f"r{number}", logical_date=None,
            data_interval=None, run_after=now, conf=None, triggered_by=DagRunTriggeredByType.TEST,
            triggering_user_name="test", start_date=now, session=session,
        )
        for task, counted in counts.items():
            Instance(run, task, {}, session).xcom_push("return_value", counted)
        if pulled is not None:
            backfill["result"](Instance(run, "outcome", pulled, session))
        for each in run.get_task_instances(session=session):
            each.state = "failed" if each.task_id in failed else "success"
        session.flush()
        (RunNotes().on_dag_run_failed if failed else RunNotes().on_dag_run_success)(run, "")
        session.commit()
        return run.note


def again(number, counts, person=None):
    # The run ends once more, all green: its tasks were cleared. person: who had changed its note meanwhile.
    with Session() as session:
        run = session.scalars(select(DagRun).where(DagRun.run_id == f"r{number}")).one()
        if person is not None:
            patch_dag_run_note(dag_run=run, note=f"{person} looks at it", user=SimpleNamespace(get_id=lambda: person))
        for task, counted in counts.items():
            Instance(run, task, {}, session).xcom_push("return_value", counted)
        for each in run.get_task_instances(session=session):
            each.state = "success"
        session.flush()
        RunNotes().on_dag_run_success(run, "")
        session.commit()
        return run.note


if len(sys.argv) > 2:
    first, *later = json.loads(sys.argv[2])
    print(json.dumps([note(100, *first), *(again(100, *each) for each in later)]))
    sys.exit()
print(json.dumps([note(number, *each) for number, each in enumerate(json.loads(sys.argv[1]))]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make an Airflow's database; return what its processes see."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "pipelines").mkdir()
    (home / "pipelines" / "plant.yaml").write_text(DECLARED)
    system_columns = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))
    } | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "PYTHONPATH": os.pathsep.join(str(PROJECT / room) for room in ("include", "plugins")),
        "TXLOOM_PIPELINES": str(home / "pipelines"),
    }
    airflow = Path(sys.executable).with_name("airflow")
    subprocess.run([airflow, "db", "migrate"], env=system_columns, check=True, capture_output=True)
    return system_columns


def notes(environment: dict[str, str], *arguments: object) -> list[str | None]:
    """Let runs end, and return their notes."""
    command = [sys.executable, "-W", "ignore", "-c", ENDED, *map(json.dumps, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    printed: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return printed


def test_a_note_is_what_a_task_said_else_what_was_counted_and_failed_and_nothing_where_nobody_speaks(
    environment: dict[str, str],
) -> None:
    applied = {f"approve.{ANSWER}": "ada", "apply.return_value": {"changes": 4, "commits": 2}}
    refused = {f"approve.{ANSWER}": "ada"}
    runs = [
        ("plant_backfill", [], {}, {}),
        ("plant_backfill", [], {"publish": {"cut_id": "9"}}, applied),
        ("plant_backfill", [], {}, refused),
        ("plant_backfill", ["apply"], {}, None),
        ("plant_cdc", ["merge_current"], {"land_events": {"landing": "3", "landed": "7", "poison": "0"}}, None),
        ("plant_maintenance", ["vacuum"], {"optimize": {"tables": "1"}}, None),
    ]
    assert notes(environment, runs) == [
        "nothing differs: nothing was applied",
        "applied: 4 rows in 2 commits",
        "refused by ada: nothing was applied",
        "**failed** apply",
        "**failed** merge_current\n\n**land_events** landing 3, landed 7",
        None,
    ]


def test_a_run_that_was_cleared_and_succeeded_says_so_and_what_a_person_noted_stays(
    environment: dict[str, str],
) -> None:
    run = ("plant_cdc", ["merge_current"], {"land_events": {"landing": "3", "landed": "7"}}, None)
    whole = {"merge_current": {"changes": "7", "merged": "1"}}
    ended = notes(environment, [], [run, (whole,), (whole, "ada"), ({"publish": {"cut_id": "2"}},)])
    assert ended == [
        "**failed** merge_current\n\n**land_events** landing 3, landed 7",
        "**land_events** landing 3, landed 7\n\n**merge_current** changes 7, merged 1",
        "ada looks at it",
        "ada looks at it",
    ]
