"""What every step is called with: the pipeline, its tables, the run, and a way to a Spark session."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.storage.paths import TablePaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counts = dict[str, int | str | dict[str, int]]
"""What a step returns: its numbers by name, for its last line, its result file and Airflow."""


def no_session() -> "SparkSession":
    """Refuse: a step that runs in Airflow's own process, or for another step, has no JVM to start."""
    raise ConfigurationError("this is too large for a process without Spark: run the job by itself")


@dataclass(frozen=True)
class Step:
    """One call of a step.

    Args:
        pipeline: the declaration; steps that write take the effective one, with columns that tables took up.
        paths: where the pipeline's tables lie.
        run_id: names the run in the ledger and in all that the step writes.
        session: opens a Spark session, the same one at each call; only what is large asks for it.
    """

    pipeline: Pipeline
    paths: TablePaths
    run_id: str
    session: "Callable[[], SparkSession]" = no_session

    @classmethod
    def of(cls, pipeline: Pipeline, warehouse: str, run_id: str) -> "Step":
        """Return the call of a step in a process that has no Spark."""
        return cls(pipeline, TablePaths(warehouse, pipeline.name), run_id)

    @property
    def spark(self) -> "SparkSession":
        """The Spark session, opened by whoever asks first."""
        return self.session()
