"""Release a batch's whole transactions: a small batch in this process, a large one in Spark's tasks, by shares."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.findings import Finding
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.buffer.release import CHOSEN, COORDINATES, Release, Share, release
from txloom.steps.parallel import run_parallel
from txloom.storage.delta.data_files import DataFile, write_file
from txloom.storage.paths import TablePaths
from txloom.storage.spark import spread
from txloom.storage.system_tables import TRANSACTIONS
from txloom.storage.targets.undeclared_columns import Undeclared, columns_to_adopt

SHARE = 150_000
"""About how many rows one task releases, which it holds in memory at a time."""
SIZES = ("rows", "first_at", "first_landing", "last_landing")
FEWEST_BITS = 3
"""A large batch has at least 2 to the power of so many shares."""


@dataclass
class Released:
    """The result of a batch's release; history is written.

    Args:
        transactions: rows for `transactions`, which are not written yet.
        parts: data files for `transactions`, which no commit names yet.
        unreadable: by hash, the problem of transactions that are to become dead letters instead.
        sizes: by hash, of these transactions, the values of SIZES.
        landings: the landings that have the batch's events.
    """

    transactions: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    parts: list[DataFile] = field(default_factory=list)
    unreadable: dict[int, str] = field(default_factory=dict)
    sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    landings: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Written:
    """What a task made of a share.

    Args:
        parts: data files of history tables and of `transactions`, which no commit names yet.
        unreadable: as in `txloom.steps.buffer.release.Release`.
        undeclared: undeclared columns.
        findings: findings about the producer.
    """

    parts: list[DataFile]
    unreadable: dict[int, str]
    undeclared: Sequence[Undeclared]
    findings: Sequence[Finding]


T = TypeVar("T")


def release_small(batch: Batch, whole: Sequence[Row], repeated: Sequence[Row], landings: set[int]) -> Released:
    """Append the whole transactions of a batch to history, in this process; a repeated batch appends nothing twice.

    Args:
        batch: the batch.
        whole: decisions of kind `released`.
        repeated: decisions of kind `repeated`.
        landings: the landings that have the batch's events.
    """
    chosen = {name: [row[name] for row in whole] for name in CHOSEN.names}
    coordinates = {name: [row[name] for row in repeated] for name in COORDINATES.names}
    share = Share(pa.table(chosen, CHOSEN), sorted(landings), pa.table(coordinates, COORDINATES))

    def run(pipeline: Pipeline) -> tuple[Release, Sequence[Undeclared]]:
        released = release(pipeline, batch.paths, batch.release, share)
        return released, released.undeclared

    released = _with_new_columns(batch, run)
    batch.record(released.findings)
    run_parallel([partial(batch.append_local, rows, table) for table, rows in released.history.items()])
    sizes = {row["tx"]: tuple(row[name] for name in SIZES) for row in whole if row["tx"] in released.unreadable}
    return Released(released.transactions, [], released.unreadable, sizes, landings)


def _with_new_columns(batch: Batch, run: Callable[[Pipeline], tuple[T, Sequence[Undeclared]]]) -> T:
    """Call run with the pipeline, and again while it returns undeclared columns that tables take up."""
    pipeline = batch.pipeline
    while True:
        result, undeclared = run(pipeline)
        new = columns_to_adopt(pipeline, undeclared)
        if not new:
            batch.note_undeclared(pipeline, undeclared)
            return result
        pipeline = batch.adopt(pipeline, new)


def release_large(batch: Batch, outcomes: DataFrame, rows: int, landings: set[int]) -> Released:
    """Append the whole transactions of a batch to history with Spark's tasks; a repeated batch appends nothing twice.

    The driver holds about 60 bytes for each transaction and duplicate; messages stay in the tasks.

    Args:
        batch: the batch.
        outcomes: decisions of kind `released` and `repeated`.
        rows: how many events they have together.
        landings: the landings that have the batch's events.
    """
    decided = outcomes.select("what", *CHOSEN.names, *COORDINATES.names).toArrow()
    ranges = spread.hash_ranges(rows, SHARE, FEWEST_BITS)
    shares = list(_shares(decided, sorted(landings), ranges))

    def run(pipeline: Pipeline) -> tuple[list[Written], Sequence[Undeclared]]:
        released = _in_tasks(batch, pipeline, shares)
        return released, [each for made in released for each in made.undeclared]

    released = _with_new_columns(batch, run)
    batch.record(each for made in released for each in made.findings)
    written: dict[str, list[DataFile]] = {}
    for part in [part for made in released for part in made.parts]:
        written.setdefault(part.table, []).append(part)
    unreadable = {tx: problem for made in released for tx, problem in made.unreadable.items()}
    transactions = written.pop(names.TRANSACTIONS, [])
    run_parallel([partial(batch.append_files, files, table) for table, files in written.items()])
    sizes = _sizes(decided, unreadable)
    return Released(TRANSACTIONS.empty_table(), transactions, unreadable, sizes, landings)


def _in_tasks(batch: Batch, pipeline: Pipeline, shares: Sequence[Share]) -> list[Written]:
    """Release shares in Spark's tasks; return the data files that they wrote, which no commit names yet."""
    paths, number = batch.paths, batch.release

    def run(some: Iterable[Share]) -> Iterable[Written]:
        for share in some:
            released = release(pipeline, paths, number, share)
            yield Written(list(_write(released, paths)), released.unreadable, released.undeclared, released.findings)

    return spread.in_tasks(batch.spark, shares, run)


def _shares(decided: pa.Table, landings: list[int], ranges: Sequence[spread.Bounds]) -> Iterator[Share]:
    """Split decisions by ranges of the transactions' hashes, so that each transaction is in one share."""
    whole = decided.filter(pc.equal(decided.column("what"), pa.scalar("released"))).select(CHOSEN.names).cast(CHOSEN)
    again = decided.filter(pc.equal(decided.column("what"), pa.scalar("repeated")))
    for bounds in ranges:
        chosen, repeated = spread.within(whole, "tx", bounds), spread.within(again, "tx", bounds)
        if chosen.num_rows:
            yield Share(chosen, landings, repeated.select(COORDINATES.names).cast(COORDINATES), bounds)


def _sizes(decided: pa.Table, chosen: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return, by hash, the values of SIZES of some transactions."""
    chosen_rows = decided.filter(pc.is_in(decided.column("tx"), pa.array(list(chosen), pa.int64()))).to_pylist()
    return {row["tx"]: tuple(row[name] for name in SIZES) for row in chosen_rows if row["what"] == "released"}


def _write(released: Release, paths: TablePaths) -> Iterator[DataFile]:
    """Write the rows of a release as data files of their tables, and yield these."""
    for table, rows in {**released.history, names.TRANSACTIONS: released.transactions}.items():
        if rows.num_rows:
            yield write_file(rows, table, paths.table(table))
