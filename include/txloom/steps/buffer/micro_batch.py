"""One micro-batch of the buffer: its tables, and the numbers under which it writes into them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.findings import Finding
from txloom.steps.schema_drift import added
from txloom.storage.buffer import buffer_stream, checkpoints
from txloom.storage.buffer.newest_batch import Declared
from txloom.storage.checks import findings
from txloom.storage.declarations.undeclared_columns import Undeclared, record_adopted, with_columns
from txloom.storage.delta import arrow_tables, data_files, spark_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets import history_tables
from txloom.transactions.hashes import hash64


@dataclass(frozen=True)
class Batch:
    """One micro-batch. Repeated after a crash it has the same number, and does not write again what it wrote before.

    Args:
        spark: the session.
        pipeline: the declaration, with columns that tables took up.
        paths: the tables of the pipeline.
        epoch: the checkpoint epoch.
        number: of the batch within the epoch.
        run_id: the run.
        known: the landing up to which earlier checkpoint epochs decided and wrote everything.
        is_known: the batch ends at or below `known`, and only rebuilds the buffer's state.
        declared: the recorded declaration that it works by.
    """

    spark: SparkSession
    pipeline: Pipeline
    paths: TablePaths
    epoch: int
    number: int
    run_id: str
    known: int = 0
    is_known: bool = False
    declared: Declared = field(default_factory=Declared)

    def up_to(self, landing: int) -> "Batch":
        """Return the batch with `is_known` set for its last landing."""
        return replace(self, is_known=0 < landing <= self.known)

    @property
    def release(self) -> int:
        """Return the number under which this batch releases transactions."""
        return checkpoints.first_release(self.epoch) + self.number

    @property
    def change_events(self) -> DataFrame:
        """Return the table change_events."""
        return spark_tables.read(self.spark, self.paths.change_events)

    @property
    def earlier_transactions(self) -> DataFrame:
        """Return the rows of `transactions` that other batches released, with their hash as `tx`."""
        finished = spark_tables.read(self.spark, self.paths.table(names.TRANSACTIONS))
        return finished.where((F.col("release") != self.release) & (F.col("status") == "released")).withColumn(
            "tx", buffer_stream.transaction_hash()
        )

    def append(self, frame: DataFrame, table: str) -> bool:
        """Append to a table, once for this batch; return whether it did so now."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        return spark_tables.append_once(frame, self.paths.table(table), write_id, self.number)

    def append_local(self, rows: pa.Table, table: str) -> bool:
        """Append a small Arrow table, once for this batch; return whether it did so now."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        version = arrow_tables.append_once(rows, self.paths.table(table), write_id, self.number)
        self.declared.note_commit(table, self.release, version)
        return version is not None

    def write_file(self, rows: pa.Table, table: str) -> data_files.DataFile:
        """Write rows as a data file of a table, which `append_files` commits."""
        return data_files.write_file(rows, table, self.paths.table(table))

    def append_files(self, written: Sequence[data_files.DataFile], table: str) -> bool:
        """Commit data files that tasks wrote, once for this batch; return whether it did so now."""
        write_id = names.write_id(self.pipeline.name, table, self.epoch)
        version = data_files.append_files(written, self.paths.table(table), write_id, self.number)
        self.declared.note_commit(table, self.release, version)
        return version is not None

    def adopt(self, pipeline: Pipeline, new: Sequence[tuple[Undeclared, str]]) -> Pipeline:
        """Let tables take up undeclared columns; return the pipeline with them.

        A finding for each is recorded, and the columns are added to the history tables. A repeated call changes nothing
        more.

        Args:
            pipeline: the declaration, with columns that tables took up before.
            new: the columns, each with its name in the lake.
        """
        self.record([added(pipeline, *each) for each in new])
        record_adopted(self.paths, new)
        pipeline = with_columns(pipeline, [(each.table, column, each.source) for each, column in new])
        history_tables.create(pipeline, self.paths)
        return pipeline

    def note_undeclared(self, pipeline: Pipeline, columns: Sequence[Undeclared]) -> None:
        """Record a finding for each undeclared column that no table takes up."""
        self.record([added(pipeline, each) for each in columns])

    def record(self, observed: Iterable[Finding], source_format: str | None = None) -> None:
        """Record findings, unless an earlier checkpoint epoch did: they may have been closed since."""
        if not self.is_known:
            findings.record(self.paths, observed, self.run_id, source_format)

    def enter(self, counts: dict[str, int]) -> None:
        """Append the batch's counts to the ledger, once."""
        at = datetime.now(UTC)
        entry = Entry(self.run_id, checkpoints.STEP, at, counts, self.number + 1, self.epoch)
        write_ledger(self.paths.warehouse, self.paths.pipeline, entry)

    def table_names(self) -> dict[int, str]:
        """Return the watched tables by the hash under which the buffer knows them."""
        return {hash64(table.name): table.name for table in self.pipeline.tables}
