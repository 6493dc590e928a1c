"""One Airflow task per Spark application: how it is submitted, when it is retried, and what its error says."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from txloom.config import jvm, names
from txloom.config.models import Pipeline
from txloom.config.places import PROJECT, jars
from txloom.orchestration import connections
from txloom.orchestration.failures import failure
from txloom.orchestration.metrics import measured
from txloom.orchestration.notices import notices

CONNECTION = "spark_default"
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}
"""A source or a lease that is taken comes back by itself; what never does is failed at once (see `failures`)."""
_EXIT_CODE = re.compile(r"Error code is: (\d+)")
_FAILED = re.compile(r"(txloom \w+ failed .*)")
_COUNTS = re.compile(r"txloom \w+: (.*)")


class SparkJob(SparkSubmitOperator):
    """Submits one of `jobs/`; its error is the job's own sentence, its result the job's counts."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name: its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, str]:  # type: ignore[override]
        """Run the job and return its last line of counts; raises AirflowFailException where a retry cannot help."""
        self._hook = self._hook or self._get_hook()
        self._hook._env = {**(self._hook._env or {}), **connections.environment(self.pipeline)}
        try:
            super().execute(context)
        except AirflowException as error:
            raise explained(str(error)) from error
        counts = counts_of(getattr(self._hook, "_last_submit_log_lines", ()))
        values = as_values(counts)
        measured(self.pipeline, str(self.task_id).split(".")[0], values)
        if self.outlets and counts.get("published") == "0":
            raise AirflowSkipException("nothing new to publish: the newest cut says all of it")
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = values
        return counts


def explained(message: str) -> AirflowException:
    """Turn spark-submit's message into the job's sentence, as an error that is retried or not by its exit code.

    >>> type(explained("Error code is: 2. txloom land_events failed (ConfigurationError, exit code 2): no")).__name__
    'AirflowFailException'
    """
    code = _EXIT_CODE.search(message)
    said = _FAILED.findall(message)
    sentence = said[-1] if said else message
    return failure(int(code[1]) if code is not None else None, sentence)


def counts_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the counts of a job's last line.

    >>> counts_of(["noise", "txloom publish: pipeline=orders run_id=r valid_through=7"])["valid_through"]
    '7'
    """
    found = [match[1] for line in lines if (match := _COUNTS.search(str(line)))]
    return dict(pair.split("=", 1) for pair in found[-1].split() if "=" in pair) if found else {}


def as_values(counts: Mapping[str, str]) -> dict[str, Any]:
    """Return counts as what they are: numbers, mappings and texts.

    >>> as_values({"cut_id": "7", "versions": '{"orders":3}', "pipeline": "orders"})
    {'cut_id': 7, 'versions': {'orders': 3}, 'pipeline': 'orders'}
    """
    found: dict[str, Any] = {}
    for name, told in counts.items():
        try:
            found[name] = json.loads(told)
        except ValueError:
            found[name] = told
    return found


def spark_job(
    pipeline: Pipeline,
    step: str,
    *,
    task_id: str | None = None,
    arguments: Iterable[str] = (),
    operator: type[SparkJob] = SparkJob,
    **more: Any,
) -> SparkJob:
    """Return the task that runs one step of a pipeline; all tasks of a pipeline take turns in its pool."""
    return operator(
        pipeline=str(pipeline.name),
        task_id=task_id or step,
        name=names.application_name(pipeline.name, step),
        application=str(PROJECT / "jobs" / f"{step}.py"),
        application_args=["--pipeline", str(pipeline.name), "--run-id", "{{ run_id }}", *arguments],
        conn_id=CONNECTION,
        spark_binary=str(PROJECT / "include" / "bin" / "spark-submit-bound"),
        driver_class_path=f"{jars()}/*",
        driver_memory=os.environ.get("TXLOOM_DRIVER_MEMORY", "2g"),
        conf={
            "spark.driver.extraJavaOptions": jvm.flags(step),
            "spark.ui.enabled": "false",
        },
        pool=names.pool_name(pipeline.name),
        owner=pipeline.owner,
        execution_timeout=pipeline.timeout,
        **{**retried(pipeline), **more},
    )


def retried(pipeline: Pipeline) -> dict[str, Any]:
    """Return what a task of a pipeline is given that is tried again, and told of where the pipeline declares alerts."""
    return {**RETRIES, **notices(pipeline)}


def in_turn(pipeline: Pipeline) -> dict[str, Any]:
    """Return what a task in Airflow's own process is given that takes turns with the pipeline's jobs."""
    return {"pool": names.pool_name(pipeline.name), "owner": pipeline.owner, **RETRIES}


def cuts_asset(pipeline: Pipeline) -> Asset:
    """Return the asset that `publish` updates: downstream DAGs start on it and read the cut it names."""
    return Asset(name=f"{pipeline.name}_cuts", uri=names.asset_uri(pipeline.name))
