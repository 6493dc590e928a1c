"""One Airflow task per Spark application: how it is submitted, when it is retried, and the message of its error."""

import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from txloom.config import find, jvm, names
from txloom.config.models.pipeline import Pipeline
from txloom.config.project import PROJECT, class_path
from txloom.errors import LeaseTaken, message_of
from txloom.orchestration import connections
from txloom.orchestration.failures import failure
from txloom.orchestration.gauges import measured, timed
from txloom.orchestration.notices import notices
from txloom.orchestration.pipelines import warehouse

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=30)}
"""For errors that go away, such as a source that is down or a lease that is taken; others fail at once (`failures`)."""
IN_ORDER = (
    ("land_events", "diff_snapshot", "load_snapshot", "redrive", "repair", "request_snapshot"),
    ("buffer_transactions",),
    ("merge_current",),
    ("check_expectations",),
    ("publish",),
)
"""Steps that bring the source to its readers, in a run's order; all others (maintenance, backfills) may wait for them.

None of the others waits forever: the first task of the next cycle is queued only after the last one has ended.
"""
_COMMAND = re.compile(r"^Cannot execute: .*?(?=Error code is: )", re.DOTALL)
SHELL_KILLED = 128
"""A shell's exit code for a program that a signal ended is the signal's number plus this one."""


class SparkJob(SparkSubmitOperator):
    """Submits one of `jobs/`; its error carries the job's message, its result is the job's counts."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        """Keep the pipeline's name; its declaration is read when the task runs."""
        super().__init__(**more)
        self.pipeline = pipeline
        self._counts: dict[str, Any] = {}

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job and return its counts, with the pipeline and the run.

        Both come out of the job's result file. Raises AirflowFailException where a retry cannot help, and
        AirflowSkipException where publish had nothing new.
        """
        from txloom.storage.runs.job_results import ResultFile

        run_id, task = str(context["run_id"]), str(self.task_id)
        self.application_args = [*(self.application_args or []), "--task-id", task]
        self._hook = self._hook or self._get_hook()
        self._hook._env = {**(self._hook._env or {}), **connections.environment(self.pipeline)}
        file = ResultFile.of(warehouse(), self.pipeline, run_id, task)
        file.forget()
        begun = time.monotonic()
        try:
            super().execute(context)
        except AirflowException as error:
            result = file.read()
            if result is None or result.message is None:
                raise died(getattr(self._hook, "_submit_sp", None), str(error), task) from error
            raise failure(result.exit_code, result.message) from error
        result = file.read()
        if result is None:
            raise AirflowException(f"txloom {task} ended well and left no result in {warehouse()}: {_ELSEWHERE}")
        counts = {"pipeline": self.pipeline, "run_id": run_id, **result.counts}
        measured(self.pipeline, task.split(".", maxsplit=1)[0], counts)
        timed(self.pipeline, task, time.monotonic() - begun)
        self._counts = counts
        if self.outlets and counts.get("published") == 0:
            raise AirflowSkipException(explain_nothing(counts))
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**counts, "lake": warehouse()}
        return counts

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the datasets and facets of the step; only OpenLineage's provider calls this, after `execute`.

        It does so in a fork of the task's process: connections come out of the environment that the job had, because a
        fork cannot ask Airflow for them.
        """
        from txloom.orchestration.lineage import lineage

        environment = {**os.environ, **((self._hook and self._hook._env) or {})}
        step = str(task_instance.task_id).split(".", maxsplit=1)[0]
        declared = find(self.pipeline, environment=environment)
        return lineage(declared, os.environ["TXLOOM_WAREHOUSE"], step, self._counts)


def explain_nothing(counts: Mapping[str, Any]) -> str:
    """Return why a cycle published no cut."""
    if counts.get("incomplete"):
        return (
            f"no cut is published: {counts['incomplete']} tables are not complete and the declaration holds cuts "
            "(targets.incomplete: hold); see the findings"
        )
    return "nothing new to publish: the newest cut says all of it"


def died(process: Any, message: str, task: str) -> AirflowException:
    """Return the error of a job that ended before it could write a result; process: spark-submit, or what ran for it.

    >>> type(died(None, "Cannot execute: spark-submit x. Error code is: 2.", "a")).__name__
    'AirflowException'
    """
    code = getattr(process, "returncode", None)
    if code == LeaseTaken.exit_code:  # it ends at once, without even a result, so that it writes nothing more
        return failure(code, message_of(task, LeaseTaken(_SILENT)))
    return failure(code, killed(code, task) or _COMMAND.sub("", message))


def killed(code: int | None, task: str) -> str:
    """Return the message for a process that a signal ended before it wrote one; empty for any other end.

    >>> killed(-9, "publish")[:45]
    'txloom publish was killed (SIGKILL, signal 9)'
    """
    number = 0 if code is None else -code if code < 0 else code - SHELL_KILLED
    if number not in {each.value for each in signal.Signals}:
        return ""
    name = signal.Signals(number).name
    return f"txloom {task} was killed ({name}, signal {number}): {_WHY_KILLED.get(name, _CRASHED)} {_AFTER_KILLED}"


_WHY_KILLED = {
    "SIGKILL": "its machine or container ran out of memory, or somebody killed it.",
    "SIGTERM": "somebody, or the machine's shutdown, asked it to end.",
    "SIGINT": "somebody interrupted it.",
    "SIGHUP": "the session that it ran in was closed.",
}
_CRASHED = "it crashed in native code; its last lines are in this task's log."
_SILENT = "it hung for so long that another run took its place; it wrote nothing more. The retry waits for that run"
_ELSEWHERE = "the job and Airflow's worker do not see the same warehouse"
_AFTER_KILLED = "Nothing is half done: the retry, or clearing the task, goes on where it stopped."


def spark_job(
    pipeline: Pipeline,
    step: str,
    *,
    task_id: str | None = None,
    arguments: Iterable[str] = (),
    operator: type[SparkJob] = SparkJob,
    **more: Any,
) -> SparkJob:
    """Return the task that runs one step of a pipeline; all tasks of a pipeline take turns in its pool.

    Args:
        pipeline: the declared pipeline.
        step: the file in `jobs/` without its suffix.
        task_id: where it differs from the step.
        arguments: command line arguments beside `--pipeline` and `--run-id`.
        operator: the class of the task.
        more: further arguments of the operator.
    """
    spark = pipeline.spark
    return operator(
        pipeline=str(pipeline.name),
        task_id=task_id or step,
        name=names.application_name(pipeline.name, step),
        application=str(PROJECT / "jobs" / f"{step}.py"),
        application_args=["--pipeline", str(pipeline.name), "--run-id", "{{ run_id }}", *arguments],
        conn_id=spark.connection,
        spark_binary=str(PROJECT / "include" / "bin" / "spark-submit-bound"),
        driver_class_path=class_path(),
        driver_memory=spark.driver_memory or os.environ.get("TXLOOM_DRIVER_MEMORY", "2g"),
        conf={
            "spark.driver.extraJavaOptions": jvm.flags(step),
            "spark.ui.enabled": "false",
            **spark.by_name,
        },
        owner=pipeline.owner,
        execution_timeout=pipeline.timeout,
        **{**turn(pipeline, step), **retried(pipeline), **more},
    )


def retried(pipeline: Pipeline) -> dict[str, Any]:
    """Return the arguments of a task that is retried, and that sends notices where the pipeline declares alerts."""
    return {**RETRIES, **notices(pipeline)}


def turn(pipeline: Pipeline, step: str = "") -> dict[str, Any]:
    """Return the pool of a pipeline's stream, and the weight of a task in it: the later in a run, the more.

    By Airflow's default rule a task weighs more the more tasks follow it: the first tasks of other runs would go before
    the last one of this run, and a cut that is ready to be published would wait for all of them.
    """
    weight = next((n for n, steps in enumerate(IN_ORDER, 2) if step in steps), 1)
    return {"pool": names.pool_name(pipeline.name), "priority_weight": weight, "weight_rule": "absolute"}


def in_turn(pipeline: Pipeline) -> dict[str, Any]:
    """Return the arguments of a task in Airflow's process that takes turns with the pipeline's jobs."""
    return {"owner": pipeline.owner, **turn(pipeline), **RETRIES}


def cuts_asset(pipeline: Pipeline) -> Asset:
    """Return the asset that `publish` updates: downstream DAGs start on it and read the cut it names.

    The extra of its event is what publish returned (the cut's number, its watermark, its tables' versions), with the
    pipeline, the run, and the warehouse as `lake`.
    """
    return Asset(name=f"{pipeline.name}_cuts", uri=names.asset_uri(pipeline.name))
