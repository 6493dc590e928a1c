"""The note of a run: what a task has said, else what its steps counted and which tasks are red."""

import json
import os
import subprocess
import sys
from pathlib import Path

from txloom.orchestration.approvals import ANSWER

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
from datetime import datetime, timezone
from types import SimpleNamespace
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
from airflow.models.dagrun import get_or_create_dagrun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.xcom import XComModel
from airflow.settings import Session
from airflow.utils.types import DagRunTriggeredByType
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
        for task, told in counts.items():
            Instance(run, task, {}, session).xcom_push("return_value", told)
        if pulled is not None:
            backfill["told"](Instance(run, "outcome", pulled, session))
        for each in run.get_task_instances(session=session):
            each.state = "failed" if each.task_id in failed else "success"
        session.flush()
        (RunNotes().on_dag_run_failed if failed else RunNotes().on_dag_run_success)(run, "")
        return run.note


print(json.dumps([note(number, *each) for number, each in enumerate(json.loads(sys.argv[1]))]))
"""


def test_a_note_is_what_a_task_said_else_what_was_counted_and_failed_and_nothing_where_nobody_speaks(
    tmp_path: Path,
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "plant.yaml").write_text(DECLARED)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))
    } | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "PYTHONPATH": os.pathsep.join(str(PROJECT / room) for room in ("include", "plugins")),
        "TXLOOM_PIPELINES": str(tmp_path / "pipelines"),
    }
    subprocess.run(
        [Path(sys.executable).with_name("airflow"), "db", "migrate"], env=environment, check=True, capture_output=True
    )
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
    command = [sys.executable, "-W", "ignore", "-c", ENDED, json.dumps(runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [
        "nothing differs: nothing was applied",
        "applied: 4 rows in 2 commits",
        "refused by ada: nothing was applied",
        "**failed** apply",
        "**failed** merge_current\n\n**land_events** landing 3, landed 7",
        None,
    ]
