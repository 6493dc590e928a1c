"""The call of a step, as tests write it."""

from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.steps.step import Step, no_session
from txloom.storage.paths import TablePaths


def step_of(pipeline: Pipeline, warehouse: object, run_id: str, spark: Any = None) -> Step:
    """Return the call of a step; spark: a session, a function that opens one, or None where no step may ask for one."""
    session = no_session if spark is None else spark if callable(spark) else lambda: spark
    return Step(pipeline, TablePaths(str(warehouse), pipeline.name), run_id, session)
