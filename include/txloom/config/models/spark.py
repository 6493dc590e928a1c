"""The declaration of Spark: where a pipeline's jobs run, and with how much."""

from typing import Annotated

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import ConnectionId, Count, Groups, Memory, Text


class Spark(Model):
    """Where the jobs run: the master is that of an Airflow connection; what is not set is as Spark has it."""

    connection: Annotated[
        ConnectionId,
        Field(description="The Airflow connection of the master, of type spark: this machine, or a cluster"),
    ] = "spark_default"
    driver_memory: Annotated[
        Memory | None, Field(description="Memory of a job's JVM on this side, such as 4g; TXLOOM_DRIVER_MEMORY, or 2g")
    ] = None
    executor_memory: Annotated[Memory | None, Field(description="Memory of an executor's JVM, such as 4g")] = None
    executor_cores: Annotated[Count | None, Field(description="Tasks that an executor runs at once, such as 4")] = None
    executors: Annotated[Count | None, Field(description="How many executors a job has, such as 8")] = None
    state_groups: Annotated[
        Groups,
        Field(
            description="Into how many groups the buffer's state is split, a multiple of 8, such as 32: as many cores "
            "work on it at once; a change rebuilds the state once"
        ),
    ] = 8
    settings: Annotated[
        dict[Text, Text],
        Field(description="Further settings of Spark by name, such as {spark.executor.memoryOverhead: 1g}"),
    ] = Field(default_factory=dict)

    @property
    def cores(self) -> int | None:
        """Return how many tasks all executors run at once; None where it is not declared."""
        return self.executors * (self.executor_cores or 1) if self.executors else None

    @property
    def by_name(self) -> dict[str, str]:
        """Return what is declared as settings of Spark, without the driver's memory."""
        named = {
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.instances": self.executors,
            # Standalone masters count cores: without a limit the first job would take all.
            "spark.cores.max": self.cores,
        }
        return {**{name: str(value) for name, value in named.items() if value is not None}, **self.settings}
