"""One micro-batch of the buffer: where its results go and under which number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.findings import Finding
from txloom.steps.schema_drift import added
from txloom.storage.buffer import checkpoints, stream
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables, data_files, spark_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets import history_tables
from txloom.storage.targets.undeclared_columns import Undeclared, record_adopted, with_columns
from txloom.transactions.hashes import hash64


@dataclass(frozen=True)
class Batch:
    """One micro-batch; repeated after a crash it has the same number, and what it wrote before is not written again.

    known: up to which landing earlier generations of the buffer decided, and wrote, everything. is_known: this batch
    lies before it, and is but to rebuild the buffer's state.
    """

    spark: SparkSession
    pipeline: Pipeline
    paths: TablePaths
    epoch: int
    number: int
    run_id: str
    known: int = 0
    is_known: bool = False

    def up_to(self, landing: int) -> "Batch":
        """Return the batch, told which landing is its last."""
        return replace(self, is_known=0 < landing <= self.known)

    @property
    def release(self) -> int:
        """Return the number under which this batch's transactions are released."""
        return checkpoints.first_release(self.epoch) + self.number

    @property
    def change_events(self) -> DataFrame:
        """Return change_events."""
        return spark_tables.read(self.spark, self.paths.change_events)

    @property
    def earlier_transactions(self) -> DataFrame:
        """Return the transactions that other batches released, with `tx`."""
        finished = spark_tables.read(self.spark, self.paths.table(names.TRANSACTIONS))
        return finished.where((F.col("release") != self.release) & (F.col("status") == "released")).withColumn(
            "tx", stream.transaction_hash()
        )

    def append(self, frame: DataFrame, table: str) -> bool:
        """Append to a table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        return spark_tables.append_once(frame, self.paths.table(table), write_id, self.number)

    def append_local(self, rows: pa.Table, table: str) -> bool:
        """Append a small Arrow table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        return arrow_tables.append_once(rows, self.paths.table(table), write_id, self.number)

    def write_file(self, rows: pa.Table, table: str) -> data_files.DataFile:
        """Write rows as a file that `append_parts` commits."""
        return data_files.write_file(rows, table, self.paths.table(table))

    def append_files(self, written: Sequence[data_files.DataFile], table: str) -> bool:
        """Commit files that tasks wrote, once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        return data_files.append_files(written, self.paths.table(table), write_id, self.number)

    def adopt(self, pipeline: Pipeline, new: Sequence[tuple[Undeclared, str]]) -> Pipeline:
        """Let tables take up columns that their source added; return the pipeline with them."""
        self.record([added(pipeline, *each) for each in new])
        record_adopted(self.paths, new)
        pipeline = with_columns(pipeline, [(each.table, column, each.source) for each, column in new])
        history_tables.create(pipeline, self.paths)
        return pipeline

    def note_undeclared(self, pipeline: Pipeline, columns: Sequence[Undeclared]) -> None:
        """Write down columns that nobody declared and no table takes up."""
        self.record([added(pipeline, each) for each in columns])

    def record(self, observed: Iterable[Finding], source_format: str | None = None) -> None:
        """Write down findings, unless an earlier generation did: they may have been closed since."""
        if not self.is_known:
            findings.record(self.paths, observed, self.run_id, source_format)

    def enter(self, counts: dict[str, int]) -> None:
        """Enter the batch's counts in the ledger, once."""
        at = datetime.now(UTC)
        entry = Entry(self.run_id, checkpoints.STEP, at, counts, self.number + 1, self.epoch)
        write_ledger(self.paths.warehouse, self.paths.pipeline, entry)

    def table_names(self) -> dict[int, str]:
        """Return the watched tables by the buffer's hash of their names."""
        return {hash64(table.name): table.name for table in self.pipeline.tables}
