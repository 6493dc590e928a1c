"""txloom in Airflow: writes a note on each run of a pipeline's DAGs, which the list of runs shows."""

from typing import Any

from airflow.listeners import hookimpl
from airflow.models.xcom import XComModel
from airflow.plugins_manager import AirflowPlugin
from sqlalchemy.orm import object_session

from txloom.config import names
from txloom.orchestration.notes import SAID, SHOWN, note


class RunNotes:
    """Listens to runs that end; the scheduler calls it, within the session that holds the run."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:  # noqa: ARG002
        """Write the note of a successful run: what it did."""
        _write(dag_run)

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:  # noqa: ARG002
        """Write the note of a failed run: how far it came."""
        _write(dag_run)


AUTHOR = "txloom"
"""The author of the notes, as Airflow stores it: a note of any other author is not changed."""


def _write(dag_run: Any) -> None:
    """Write the note of a run; it replaces the one from an earlier end, before tasks were cleared."""
    session, before = object_session(dag_run), dag_run.dag_run_note
    if session is None or (before is not None and before.user_id != AUTHOR):
        return
    text = _text(dag_run, session)
    if before is None and text:
        dag_run.note = (text, AUTHOR)
    elif before is not None:
        before.content = text or ""


def _text(dag_run: Any, session: Any) -> str | None:
    text: str | None = next(iter(_pushed(dag_run, session, SAID).values()), None)
    if text is None and (names.is_cdc_dag(dag_run.dag_id) or names.is_backfill_dag(dag_run.dag_id)):
        failed = [each.task_id for each in dag_run.get_task_instances(session=session) if each.state == "failed"]
        text = note(_pushed(dag_run, session, "return_value", [*SHOWN]), failed)
    return text


def _pushed(dag_run: Any, session: Any, key: str, tasks: list[str] | None = None) -> dict[str, Any]:
    """Return the values that the run's tasks pushed under a key, by task."""
    query = XComModel.get_many(run_id=dag_run.run_id, key=key, dag_ids=dag_run.dag_id, task_ids=tasks)
    rows: list[Any] = list(session.scalars(query))
    return {row.task_id: XComModel.deserialize_value(row) for row in rows}


class TxloomNotes(AirflowPlugin):
    """Registers the listener."""

    name = "txloom_notes"
    listeners = [RunNotes()]  # noqa: RUF012 (Airflow's own interface)
