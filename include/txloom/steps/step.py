"""The argument of every step: the pipeline, its tables, the run, and a way to a Spark session."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.storage.buffer.newest_batch import Declared
from txloom.storage.paths import TablePaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counts = dict[str, int | str | dict[str, int]]
"""What a step returns: counts by name, for its last line, its result file and Airflow."""


def no_session() -> "SparkSession":
    """Raise ConfigurationError: a step in Airflow's process, or inside another step, cannot start a JVM."""
    raise ConfigurationError("this is too large for a process without Spark: run the job by itself")


@dataclass(frozen=True)
class Step:
    """One call of a step.

    Args:
        pipeline: the declaration. Steps that write add the columns that tables took up (`effective_pipeline`).
        paths: the paths of the pipeline's tables.
        run_id: names the run in the ledger and in all rows and commits that the step writes.
        session: returns a Spark session, the same one at each call. Only large work calls it.
        declared: the recorded declaration that the buffer works by.
    """

    pipeline: Pipeline
    paths: TablePaths
    run_id: str
    session: "Callable[[], SparkSession]" = no_session
    declared: Declared = field(default_factory=Declared)

    @classmethod
    def of(cls, pipeline: Pipeline, warehouse: str, run_id: str) -> "Step":
        """Return a step for a process without Spark: its `session` raises ConfigurationError."""
        return cls(pipeline, TablePaths(warehouse, pipeline.name), run_id)

    @property
    def spark(self) -> "SparkSession":
        """The Spark session; the first access opens it."""
        return self.session()
