"""txloom in Airflow: when a run ends, its note says what its tasks had to say (txloom.orchestration.notes)."""

import sys
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from txloom.orchestration import notes


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:  # noqa: ARG001 (Airflow's own interface)
    """Put the note of a run that succeeded."""
    notes.put(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:  # noqa: ARG001
    """Put the note of a run that failed."""
    notes.put(dag_run)


class TxloomNotesPlugin(AirflowPlugin):
    """Registers this module as a listener."""

    name = "txloom_notes"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 (Airflow's own interface)
