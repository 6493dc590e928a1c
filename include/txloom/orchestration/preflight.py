"""The first task of a cycle: the source is looked at in Airflow's own process, before a JVM starts for nothing."""

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context

from txloom.config import find
from txloom.config.models import Pipeline
from txloom.errors import TxloomError, told
from txloom.orchestration import connections
from txloom.orchestration.failures import failure
from txloom.orchestration.jobs import RETRIES
from txloom.orchestration.notices import notices

STEP = "check_source"
LONGEST = timedelta(minutes=5)
"""Brokers are given up after seconds; a folder on a mount that hangs is not."""


class SourceCheck(BaseOperator):
    """Runs check_source; its error is the step's own sentence, its result the step's counts."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name: its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, int]:
        """Look at the source; raises AirflowFailException where a retry cannot help."""
        from txloom.pipelines.check_source import check_source

        try:
            if not (warehouse := os.environ.get("TXLOOM_WAREHOUSE")):
                raise TxloomError("no warehouse: set TXLOOM_WAREHOUSE")
            pipeline = find(self.pipeline, environment={**os.environ, **connections.environment(self.pipeline)})
            return check_source(None, pipeline, warehouse=warehouse, run_id=str(context["run_id"]))
        except TxloomError as error:
            raise failure(error.exit_code, told(STEP, error)) from error


def source_check(pipeline: Pipeline) -> SourceCheck:
    """Return the task that looks at a pipeline's source.

    It writes nothing, so it takes no turn in the pipeline's pool: while maintenance holds the slot for an hour, it
    tells at once that brokers are down or records were lost. land_events looks again when it plans.
    """
    return SourceCheck(
        task_id=STEP,
        pipeline=str(pipeline.name),
        owner=pipeline.owner,
        execution_timeout=LONGEST,
        **{**RETRIES, **notices(pipeline)},
    )
