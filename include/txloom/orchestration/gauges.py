"""What steps count, how long they take and the state of pipelines, as gauges in Airflow's metrics.

They are sent where `[metrics]` of Airflow's configuration sends Airflow's metrics, and nowhere where it is not set up.
A statsd without tags does not separate pipelines: switch on `statsd_influxdb_enabled` or `statsd_datadog_enabled`.
Names and units: docs/neighbours.md.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.sdk.observability.stats import gauge


def measured(pipeline: str, step: str, counts: Mapping[str, Any]) -> None:
    """Set a gauge `txloom.STEP.COUNT` for every count of a step that is a number; other counts are ignored."""
    for name, value in counts.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            gauge(f"txloom.{step}.{name}", value, tags={"pipeline": pipeline})


def timed(pipeline: str, task: str, seconds: float) -> None:
    """Set the gauge `txloom.step_seconds` of a task that succeeded."""
    gauge("txloom.step_seconds", round(seconds, 3), tags={"pipeline": pipeline, "task": task})


def state(pipeline: str, metrics: Iterable[Any]) -> None:
    """Set a gauge `txloom.NAME` for every `txloom.storage.health.metrics.Metric` of a pipeline."""
    for metric in metrics:
        gauge(f"txloom.{metric.name}", metric.value, tags={"pipeline": pipeline, **metric.labels})
