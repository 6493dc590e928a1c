"""txloom in Airflow: runs of cycles and backfills get a note of what they did, beside their row in the list of runs."""

from typing import Any

from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from sqlalchemy.orm import object_session

from txloom.config import names
from txloom.orchestration.notes import OUTCOME, SHOWN, note


class RunNotes:
    """Listens to runs that end; the scheduler calls it, within the session that holds the run."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:  # noqa: ARG002
        """Note what a good run did."""
        _write(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:  # noqa: ARG002
        """Note how far a bad one came."""
        _write(dag_run)


def _write(dag_run: Any) -> None:
    session = object_session(dag_run)
    told = names.is_cdc_dag(dag_run.dag_id) or names.is_backfill_dag(dag_run.dag_id)
    if not told or session is None or dag_run.note:
        return
    tasks = [*SHOWN, OUTCOME]
    asked = XComModel.get_many(run_id=dag_run.run_id, key="return_value", dag_ids=dag_run.dag_id, task_ids=tasks)
    rows: list[Any] = list(session.scalars(asked))
    returned = {row.task_id: XComModel.deserialize_value(row) for row in rows}
    failed = [each.task_id for each in dag_run.get_task_instances(session=session) if each.state == "failed"]
    if text := returned.pop(OUTCOME, None) or note(returned, failed):
        dag_run.note = text


class TxloomNotes(AirflowPlugin):
    """Registers the listener."""

    name = "txloom_notes"
    listeners = [RunNotes()]  # noqa: RUF012 (Airflow's own interface)
