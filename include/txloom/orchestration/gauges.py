"""The counts of each step as gauges in Airflow's metrics: `txloom.STEP.COUNT`, tagged with the pipeline.

They are sent where `[metrics]` of Airflow's configuration sends Airflow's metrics, and nowhere where it is not set up.
A statsd without tags does not separate pipelines: switch on `statsd_influxdb_enabled` or `statsd_datadog_tags`.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk.observability.stats import gauge


def measured(pipeline: str, step: str, counts: Mapping[str, Any]) -> None:
    """Set a gauge for every count of a step that is a number; other counts are ignored."""
    for name, value in counts.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            gauge(f"txloom.{step}.{name}", value, tags={"pipeline": pipeline})
