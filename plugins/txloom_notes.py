"""txloom in Airflow: runs of a pipeline's DAGs get a note with what they did, beside their row in the list of runs."""

from typing import Any

from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from sqlalchemy.orm import object_session

from txloom.config import names
from txloom.orchestration.notes import OUTCOME, SAID, SHOWN, note


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
    if session is None or dag_run.note:
        return
    if not names.is_cdc_dag(dag_run.dag_id) and not names.is_backfill_dag(dag_run.dag_id):
        _put(dag_run, session)
        return
    tasks = [*SHOWN, OUTCOME]
    asked = XComModel.get_many(run_id=dag_run.run_id, key="return_value", dag_ids=dag_run.dag_id, task_ids=tasks)
    rows: list[Any] = list(session.scalars(asked))
    returned = {row.task_id: XComModel.deserialize_value(row) for row in rows}
    failed = [each.task_id for each in dag_run.get_task_instances(session=session) if each.state == "failed"]
    if text := returned.pop(OUTCOME, None) or note(returned, failed):
        dag_run.note = text


def _put(dag_run: Any, session: Any) -> None:
    """Write what a task of the run has said."""
    asked = XComModel.get_many(run_id=dag_run.run_id, key=SAID, dag_ids=dag_run.dag_id)
    said: list[Any] = list(session.scalars(asked))
    if said:
        dag_run.note = XComModel.deserialize_value(said[0])


class TxloomNotes(AirflowPlugin):
    """Registers the listener."""

    name = "txloom_notes"
    listeners = [RunNotes()]  # noqa: RUF012 (Airflow's own interface)
