"""The first task of a cycle: check the source in Airflow's process, before a JVM starts without need."""

import os
import time
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin

from txloom.config import find
from txloom.config.models.cron import CONTINUOUS
from txloom.config.models.pipeline import Pipeline
from txloom.errors import TxloomError, message_of
from txloom.orchestration import connections
from txloom.orchestration.failures import failure
from txloom.orchestration.gauges import measured
from txloom.orchestration.jobs import retried
from txloom.orchestration.pipelines import warehouse

STEP = "check_source"
LONGEST = timedelta(minutes=5)
"""The limit of the task: a broker is given up after seconds, but a folder on a mount that hangs is not."""
CALM = timedelta(minutes=1)
"""How long a continuous run waits for something to do, so that an idle pipeline does not make a thousand runs a day."""
POKE = 5.0
"""Seconds between two checks of the source."""


class SourceCheck(BaseOperator, SkipMixin):
    """Runs check_source; its error carries the step's message, its result is the step's counts.

    Where a scheduled run has nothing to do, the rest of it is skipped, except for teardown tasks such as alert. A run
    that was started by hand is never skipped.
    """

    def __init__(self, *, pipeline: str, waits: timedelta = timedelta(0), **more: Any) -> None:
        """Keep the arguments; the declaration is read when the task runs. waits: how long to wait for work."""
        super().__init__(**more)
        self.pipeline, self.waits = pipeline, waits

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the source, again and again while there is nothing to do, for at most `waits`.

        Raises AirflowFailException where a retry cannot help.
        """
        by_hand = str(context["dag_run"].run_type).rsplit(".", 1)[-1].casefold() == "manual"
        ends = time.monotonic() + self.waits.total_seconds()
        while True:
            counts, work = self._checked(str(context["run_id"]))
            if work or by_hand or time.monotonic() >= ends:
                break
            time.sleep(POKE)
        values: dict[str, Any] = {**counts, "work": "; ".join(work) or "nothing"}
        print(f"work: {values['work']}", flush=True)
        measured(self.pipeline, STEP, counts)
        if not work and not by_hand:
            context["ti"].xcom_push(key="return_value", value=values)
            behind = context["task"].get_flat_relatives(upstream=False)
            self.skip(ti=context["ti"], tasks=[task for task in behind if not task.is_teardown])
        return values

    def _checked(self, run_id: str) -> tuple[dict[str, Any], list[str]]:
        from txloom.steps.landing.check_source import check_source
        from txloom.steps.landing.pending_work import reasons
        from txloom.steps.step import Step

        try:
            lake = warehouse()
            pipeline = find(self.pipeline, environment={**os.environ, **connections.environment(self.pipeline)})
            counts: dict[str, Any] = check_source(Step.of(pipeline, lake, run_id))
            return counts, reasons(pipeline, lake, counts["waiting"])
        except TxloomError as error:
            raise failure(error.exit_code, message_of(STEP, error)) from error


def source_check(pipeline: Pipeline) -> SourceCheck:
    """Return the task that checks a pipeline's source.

    It writes nothing, so it takes no turn in the pipeline's pool: while maintenance holds the slot for an hour, it
    still reports at once that brokers are down or records were lost. land_events checks again when it plans.
    """
    return SourceCheck(
        task_id=STEP,
        pipeline=str(pipeline.name),
        waits=CALM if pipeline.schedule == CONTINUOUS else timedelta(0),
        owner=pipeline.owner,
        execution_timeout=LONGEST,
        **retried(pipeline),
    )
