"""The task that checks for incidents, in Airflow's process: no JVM, no pool, no lease."""

from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import BaseOperator, Context

from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration import gauges
from txloom.orchestration.failures import failure
from txloom.orchestration.notices import reached

STEP = "alert"
LONGEST = timedelta(minutes=3)


class Alert(BaseOperator):
    """Runs alert; its result is the step's counts."""

    def __init__(self, *, pipeline: str, looks_after: str | None = None, **more: Any) -> None:
        """Keep the arguments; looks_after: the task whose success in this run means that the source was in order."""
        super().__init__(**more)
        self.pipeline, self.looks_after = pipeline, looks_after

    def execute(self, context: Context) -> dict[str, Any]:
        """Check for incidents, send messages, and set the gauges of the pipeline's state.

        Raises where a channel fails, and the next run sends again; the gauges are set before.
        """
        from txloom.steps.alerts.alert import alert
        from txloom.steps.step import Step

        try:
            pipeline, lake, environment = reached(self.pipeline)
            step = Step.of(pipeline, lake, str(context["run_id"]))
            report = partial(gauges.state, self.pipeline)
            counts = alert(step, environment, source_was_checked=self._judged(context), report=report)
        except TxloomError as error:
            raise failure(error.exit_code, message_of(STEP, error)) from error
        gauges.measured(self.pipeline, STEP, counts)
        return counts

    def _judged(self, context: Context) -> bool:
        """Return whether this run checked the source and that check succeeded."""
        if self.looks_after is None:
            return False
        instance, run = context["ti"], str(context["run_id"])
        states = instance.get_task_states(dag_id=instance.dag_id, task_ids=[self.looks_after], run_ids=[run])
        return bool(states.get(run, {}).get(self.looks_after) == "success")


def alert_task(pipeline: Pipeline, looks_after: str | None = None) -> Alert:
    """Return the task that checks for a pipeline's incidents; looks_after: see `Alert`."""
    return Alert(
        task_id=STEP,
        pipeline=str(pipeline.name),
        looks_after=looks_after,
        owner=pipeline.owner,
        execution_timeout=LONGEST,
        retries=1,
        retry_delay=timedelta(seconds=20),
    )
