"""One micro-batch of the buffer: where its results go and under which number."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.pipelines.drift import added
from txloom.quality.findings import Finding
from txloom.storage import books, buffering, checkpoints, evolution, findings, histories, local, parts, tables
from txloom.storage.place import Place
from txloom.transactions.hashes import hash64


@dataclass(frozen=True)
class Batch:
    """One micro-batch; repeated after a crash it has the same number, and what it wrote before is not written again.

    known: up to which landing earlier generations of the buffer decided, and wrote, everything. is_known: this batch
    lies before it, and is but to rebuild the buffer's state.
    """

    spark: SparkSession
    pipeline: Pipeline
    place: Place
    generation: int
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
        return checkpoints.first_release(self.generation) + self.number

    @property
    def change_events(self) -> DataFrame:
        """Return change_events."""
        return tables.read(self.spark, self.place.change_events)

    @property
    def earlier_transactions(self) -> DataFrame:
        """Return the transactions that other batches released, with `tx`."""
        finished = tables.read(self.spark, self.place.table(names.TRANSACTIONS))
        return finished.where((F.col("release") != self.release) & (F.col("status") == "released")).withColumn(
            "tx", buffering.transaction_hash()
        )

    def append(self, frame: DataFrame, table: str) -> bool:
        """Append to a table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.generation)
        return tables.append_once(frame, self.place.table(table), write_id, self.number)

    def append_local(self, rows: pa.Table, table: str) -> bool:
        """Append a small Arrow table once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.generation)
        return local.append_once(rows, self.place.table(table), write_id, self.number)

    def write_part(self, rows: pa.Table, table: str) -> parts.Part:
        """Write rows as a file that `append_parts` commits."""
        return parts.write_part(rows, table, self.place.table(table))

    def append_parts(self, written: Sequence[parts.Part], table: str) -> bool:
        """Commit files that tasks wrote, once for this batch."""
        write_id = names.write_id(self.pipeline.name, table, self.generation)
        return parts.append_parts(written, self.place.table(table), write_id, self.number)

    def adopt(self, pipeline: Pipeline, new: Sequence[tuple[evolution.Undeclared, str]]) -> Pipeline:
        """Let tables take up columns that their source added; return the pipeline with them."""
        self.record([added(pipeline, *each) for each in new])
        evolution.adopt(self.place, new)
        pipeline = evolution.with_columns(pipeline, [(each.table, column, each.source) for each, column in new])
        histories.create(pipeline, self.place)
        return pipeline

    def note_undeclared(self, pipeline: Pipeline, found: Sequence[evolution.Undeclared]) -> None:
        """Write down columns that nobody declared and no table takes up."""
        self.record([added(pipeline, each) for each in found])

    def record(self, found: Iterable[Finding], source_format: str | None = None) -> None:
        """Write down findings, unless an earlier generation did: they may have been closed since."""
        if not self.is_known:
            findings.record(self.place, found, self.run_id, source_format)

    def enter(self, counts: dict[str, int]) -> None:
        """Enter the batch's counts in the ledger, once."""
        at = datetime.now(UTC)
        entry = books.Entry(self.run_id, checkpoints.STEP, at, counts, self.number + 1, self.generation)
        books.write_ledger(self.place.warehouse, self.place.pipeline, entry)

    def table_names(self) -> dict[int, str]:
        """Return the watched tables by the buffer's hash of their names."""
        return {hash64(table.name): table.name for table in self.pipeline.tables}
