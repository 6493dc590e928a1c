"""The declared pipelines, as the scheduler reads them."""

import os
from datetime import UTC, datetime, time

from airflow.sdk import Asset

from txloom.config import discover
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, TxloomError
from txloom.orchestration import connections


def declared() -> list[Pipeline]:
    """Return every pipeline whose declaration is accepted, sorted by name; `refused` returns the other errors."""
    return sorted(
        (pipeline for _, pipeline in discover() if isinstance(pipeline, Pipeline)), key=lambda pipeline: pipeline.name
    )


def warehouse() -> str:
    """Return the URI below which all tables are, and let this process reach it.

    Called by running tasks only. Raises TxloomError where TXLOOM_WAREHOUSE is not set.
    """
    if path := os.environ.get("TXLOOM_WAREHOUSE"):
        connections.reach_lake()
        return path
    raise TxloomError("no warehouse: set TXLOOM_WAREHOUSE")


def begins(pipeline: Pipeline) -> datetime:
    """Return the time from which a pipeline's schedules count."""
    return datetime.combine(pipeline.start_date, time(), UTC)


def begun_by(pipeline: Pipeline) -> str | list[Asset] | None:
    """Return a DAG's schedule for a pipeline: a cron text, the assets that it comes after, or None."""
    return [Asset(uri=uri) for uri in pipeline.after] if pipeline.after else pipeline.schedule


def refused() -> list[ConfigurationError]:
    """Return the errors of the declarations that are refused."""
    return [error for _, error in discover() if isinstance(error, ConfigurationError)]
