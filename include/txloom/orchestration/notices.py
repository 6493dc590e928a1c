"""Send what happens in Airflow to the alert channels: a task that fails for good, or succeeds again."""

import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseNotifier, Context, conf
from airflow.sdk.log import mask_secret

from txloom.config import find
from txloom.config.models.alerts import AppriseChannel, WebhookChannel
from txloom.config.models.pipeline import Pipeline
from txloom.orchestration import connections
from txloom.orchestration.pipelines import warehouse

BASE_URL = "AIRFLOW__API__BASE_URL"


def reached(pipeline: str) -> tuple[Pipeline, str, dict[str, str]]:
    """Return a pipeline, its warehouse, and an environment with the connections of its channels; secrets are masked."""
    pipeline_environment = connections.environment(pipeline)
    declared = find(pipeline, environment={**os.environ, **pipeline_environment})
    names = declared.alerts.connections if declared.alerts is not None else ()
    for channel in declared.alerts.notify if declared.alerts is not None else ():
        if isinstance(channel, AppriseChannel | WebhookChannel):
            mask_secret(channel.url)
    link = conf.get("api", "base_url", fallback="")
    environment = {**os.environ, **pipeline_environment, **connections.held(names), BASE_URL: link}
    return declared, warehouse(), environment


class TaskNotice(BaseNotifier):
    """Opens the incident of a task that failed for good, or closes it once the task succeeds."""

    def __init__(self, pipeline: str, *, failed: bool) -> None:
        """Keep the pipeline's name; its declaration is read when the notice is sent."""
        super().__init__()
        self.pipeline, self.failed = pipeline, failed

    def notify(self, context: Context) -> None:
        """Send the notice; Airflow writes an error here into the task's log, and the task does not fail by it."""
        from txloom.steps.alerts.alert import FailedTask, is_failed, task_failed, task_succeeded
        from txloom.storage.runs.job_results import ResultFile

        instance = context["ti"]
        task = f"{instance.dag_id}.{instance.task_id}"
        if not self.failed and not is_failed(self.pipeline, warehouse=warehouse(), task=task):
            return
        pipeline, lake, environment = reached(self.pipeline)
        if not self.failed:
            task_succeeded(pipeline, warehouse=lake, task=task, environment=environment)
            return
        result = ResultFile.of(lake, pipeline.name, str(instance.run_id), str(instance.task_id)).read()
        sentence = str(context.get("exception") or "It ended without a word: it was killed, or marked as failed.")
        page = f"dags/{instance.dag_id}/runs/{instance.run_id}/tasks/{instance.task_id}"
        failed = FailedTask(task, sentence, page, None if result is None else result.exit_code)
        task_failed(pipeline, failed, warehouse=lake, environment=environment)


def notices(pipeline: Pipeline) -> Mapping[str, Any]:
    """Return the callbacks of a task where the pipeline declares alerts; {} where it does not."""
    if pipeline.alerts is None:
        return {}
    name = str(pipeline.name)
    return {
        "on_failure_callback": TaskNotice(name, failed=True),
        "on_success_callback": TaskNotice(name, failed=False),
    }
