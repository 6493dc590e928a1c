"""A run's note: a task pushes it as XCom, and the scheduler, which alone may write notes, puts it to the run.

In Airflow 3 a task cannot reach the metadata database, and the API of tasks has no call for notes. The plugin
`plugins/txloom_notes.py` listens for the end of runs and calls `put`.
"""

from typing import Any

from airflow.sdk import Context

KEY = "txloom_note"
TAG = "txloom"
LONGEST = 900
"""Characters of a note: Airflow keeps 1,000."""


def note(context: Context, text: str) -> None:
    """Let a run's note say a text when it ends; the last task that says something has the last word."""
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n\n... the rest is in the task's log."
    context["ti"].xcom_push(key=KEY, value=short)


def put(run: Any) -> None:
    """Put to a run that ended, in the scheduler, what its tasks said; a person's own note stays."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(run)
    if session is None or run.note is not None:
        return
    wanted = (XComModel.dag_id == run.dag_id, XComModel.run_id == run.run_id, XComModel.key == KEY)
    with session.no_autoflush:
        said = session.scalars(select(XComModel).where(*wanted).order_by(XComModel.timestamp)).all()
    if said:
        run.note = XComModel.deserialize_value(said[-1])
