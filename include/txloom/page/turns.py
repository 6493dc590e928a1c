"""The order of tasks in a pipeline's pool, as Airflow has it: the task that has the slot, and those that wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

RUNNING, WAITING = "running", "waiting"
STATES = {"running": RUNNING, "queued": RUNNING, "scheduled": WAITING}
"""Airflow's task states in which a task has the slot or waits for it."""


@dataclass(frozen=True)
class Turn:
    """A task of the pipeline that has the slot of its pool, or waits for it."""

    dag_id: str
    task_id: str
    run_id: str
    state: str
    since: datetime | None


def running(turns: Sequence[Turn]) -> Turn | None:
    """Return the task that has the slot."""
    return next((each for each in turns if STATES[each.state] == RUNNING), None)


def waiting(turns: Sequence[Turn]) -> list[Turn]:
    """Return the tasks that wait for the slot, in the order in which they get it; none while the slot is free."""
    return [each for each in turns if STATES[each.state] == WAITING] if running(turns) else []
