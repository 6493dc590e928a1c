"""The declared pipelines, as the scheduler sees them."""

import os
from datetime import UTC, datetime, time

from airflow.sdk import Asset

from txloom.config import discover
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, TxloomError


def declared() -> list[Pipeline]:
    """Return every pipeline whose declaration is right, sorted by name; `refused` tells of the others."""
    return sorted(
        (pipeline for _, pipeline in discover() if isinstance(pipeline, Pipeline)), key=lambda pipeline: pipeline.name
    )


def warehouse() -> str:
    """Return where the tables of all pipelines lie; raises TxloomError where nobody said it."""
    if path := os.environ.get("TXLOOM_WAREHOUSE"):
        return path
    raise TxloomError("no warehouse: set TXLOOM_WAREHOUSE")


def begins(pipeline: Pipeline) -> datetime:
    """Return the moment from which a pipeline's schedules count."""
    return datetime.combine(pipeline.start_date, time(), UTC)


def begun_by(pipeline: Pipeline) -> str | list[Asset] | None:
    """Return what begins a pipeline's runs, as a DAG's schedule: the clock, other runs' ends, assets, or nobody."""
    return [Asset(uri=uri) for uri in pipeline.after] if pipeline.after else pipeline.schedule


def refused() -> list[ConfigurationError]:
    """Return what is wrong with every other declaration."""
    return [error for _, error in discover() if isinstance(error, ConfigurationError)]
