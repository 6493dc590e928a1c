"""One micro-batch of the buffer: where its results go and under which number."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.storage import books, buffering, checkpoints, local, tables
from txloom.storage.place import Place


@dataclass(frozen=True)
class Batch:
    """One micro-batch; repeated after a crash it has the same number, and what it wrote before is not written again."""

    spark: SparkSession
    pipeline: Pipeline
    place: Place
    generation: int
    number: int
    run_id: str

    @property
    def release(self) -> int:
        """Return the number under which this batch's transactions are released."""
        return self.generation * checkpoints.RELEASES_PER_GENERATION + self.number

    @property
    def change_events(self) -> DataFrame:
        """Return change_events with the buffer's hash of each transaction as `tx`."""
        events = tables.read(self.spark, self.place.change_events)
        return events.withColumn("tx", buffering.transaction_hash())

    @property
    def earlier_transactions(self) -> DataFrame:
        """Return the transactions that other batches finished, with `tx`."""
        finished = tables.read(self.spark, self.place.table(names.TRANSACTIONS))
        return finished.where(F.col("release") != self.release).withColumn("tx", buffering.transaction_hash())

    def append(self, frame: DataFrame, table: str) -> bool:
        """Append to a table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.generation)
        return tables.append_once(frame, self.place.table(table), write_id, self.number)

    def append_local(self, rows: pa.Table, table: str) -> bool:
        """Append a small Arrow table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.generation)
        return local.append_once(rows, self.place.table(table), write_id, self.number)

    def enter(self, counts: dict[str, int]) -> None:
        """Enter the batch's counts in the ledger, once."""
        at = datetime.now(UTC)
        entry = books.Entry(self.run_id, checkpoints.STEP, at, counts, self.number + 1, self.generation)
        books.write_ledger(self.place.warehouse, self.place.pipeline, entry)

    def table_names(self) -> dict[int, str]:
        """Return the watched tables by the buffer's hash of their names."""
        return {local.hash64(table.name): table.name for table in self.pipeline.tables}
