"""The counts of each step as gauges of Airflow's own metrics: `txloom.STEP.COUNT`, tagged with the pipeline.

They go where `[metrics]` of Airflow's configuration sends its own, and nowhere where it is not set up. A statsd without
tags does not tell pipelines apart: switch on `statsd_influxdb_enabled` or `statsd_datadog_tags`.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk.observability.stats import gauge


def measured(pipeline: str, step: str, counts: Mapping[str, Any]) -> None:
    """Set a gauge for every count of a step that is a number."""
    for name, value in counts.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            gauge(f"txloom.{step}.{name}", value, tags={"pipeline": pipeline})
