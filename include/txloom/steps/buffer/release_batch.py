"""Release a batch's whole transactions: a small batch in this process, a large one in Spark's tasks, by shares."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.findings import Finding
from txloom.steps.buffer.micro_batch import Batch
from txloom.steps.buffer.release import Release, Share, release, without
from txloom.steps.parallel import run_parallel
from txloom.storage.declarations.released_otherwise import released_otherwise
from txloom.storage.declarations.undeclared_columns import Undeclared, columns_to_adopt
from txloom.storage.delta.data_files import DataFile, write_file
from txloom.storage.landing import event_files
from txloom.storage.paths import TablePaths
from txloom.storage.spark import spread, tasks
from txloom.storage.system_tables import TRANSACTIONS

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
        part_of: where the share is a part of one transaction, that one's hash.
        transactions: then the row for `transactions`, if the part has events of it; no file holds it.
        has_metadata: then whether the part has its metadata, which names it.
    """

    parts: list[DataFile]
    unreadable: dict[int, str]
    undeclared: Sequence[Undeclared]
    findings: Sequence[Finding]
    part_of: int | None = None
    transactions: pa.Table = field(default_factory=TRANSACTIONS.empty_table)
    has_metadata: bool = False


T = TypeVar("T")


def release_small(batch: Batch, whole: pa.Table, repeated: pa.Table, landings: set[int]) -> Released:
    """Append the whole transactions of a batch to history, in this process; a repeated batch appends nothing twice.

    Args:
        batch: the batch.
        whole: the transactions, in the schema RELEASED_ROWS of `txloom.storage.buffer.buffer_stream`.
        repeated: the duplicates among their events, in the schema REPEATED_ROWS.
        landings: the landings that have the batch's events.
    """
    share = Share(_without_released(batch, whole), sorted(landings), repeated)

    def run(pipeline: Pipeline) -> tuple[Release, Sequence[Undeclared]]:
        released = release(pipeline, batch.paths, batch.release, share)
        return released, released.undeclared

    released = _with_new_columns(batch, run)
    batch.record(released.findings)
    run_parallel([partial(batch.append_local, rows, table) for table, rows in released.history.items()])
    sizes = _sizes(whole, released.unreadable)
    return Released(released.transactions, [], released.unreadable, sizes, landings)


def _without_released(batch: Batch, whole: pa.Table) -> pa.Table:
    """Leave out transactions that were released with another csn, by an earlier declaration."""
    edited = batch.declared.number > 1
    return without(whole, "tx", released_otherwise(batch.paths, batch.release, whole)) if edited else whole


def _with_new_columns(batch: Batch, run: Callable[[Pipeline], tuple[T, Sequence[Undeclared]]]) -> T:
    """Call run with the pipeline, and again while it returns undeclared columns that tables take up."""
    pipeline = batch.pipeline
    while True:
        result, undeclared = run(pipeline)
        new = columns_to_adopt(pipeline, batch.paths, undeclared)
        if not new:
            batch.note_undeclared(pipeline, undeclared)
            return result
        pipeline = batch.adopt(pipeline, new)


def release_large(batch: Batch, whole: pa.Table, repeated: pa.Table, landings: set[int]) -> Released:
    """Append the whole transactions of a batch to history with Spark's tasks; a repeated batch appends nothing twice.

    The driver holds 64 bytes for each transaction and 24 for each duplicate, twice; messages stay in the tasks.
    Arguments are those of `release_small`.
    """
    new = _without_released(batch, whole)
    ranges = spread.hash_ranges(events_in(new), SHARE, FEWEST_BITS)
    shares = list(_shares(new, repeated, sorted(landings), ranges))
    if not batch.pipeline.targets.aggregates:
        shares = [part for share in shares for part in _parts(batch, share)]

    def run(pipeline: Pipeline) -> tuple[list[Written], Sequence[Undeclared]]:
        released = _in_tasks(batch, pipeline, shares)
        return released, [each for made in released for each in made.undeclared]

    released = _with_new_columns(batch, run)
    batch.record(each for made in released for each in made.findings)
    unreadable = {tx: problem for made in released for tx, problem in made.unreadable.items()}
    readable = [made for made in released if made.part_of not in unreadable]
    written: dict[str, list[DataFile]] = {}
    for part in [part for made in readable for part in made.parts]:
        written.setdefault(part.table, []).append(part)
    transactions = written.pop(names.TRANSACTIONS, [])
    run_parallel([partial(batch.append_files, files, table) for table, files in written.items()])
    sizes = _sizes(whole, unreadable)
    return Released(_named_once(readable), transactions, unreadable, sizes, landings)


def _named_once(written: Sequence[Written]) -> pa.Table:
    """Return one row for `transactions` for each transaction that was released in parts: that of its metadata."""
    rows: dict[int, pa.Table] = {}
    for made in sorted(written, key=lambda each: each.has_metadata):
        if made.part_of is not None and made.transactions.num_rows:
            rows[made.part_of] = made.transactions
    return pa.concat_tables([TRANSACTIONS.empty_table(), *rows.values()])


def _in_tasks(batch: Batch, pipeline: Pipeline, shares: Sequence[Share]) -> list[Written]:
    """Release shares in Spark's tasks; return the data files that they wrote, which no commit names yet."""
    paths, number = batch.paths, batch.release

    def run(some: Iterable[Share]) -> Iterable[Written]:
        for share in some:
            released = release(pipeline, paths, number, share)
            about = (released.unreadable, released.undeclared, released.findings)
            if share.part is None:
                finished = {names.TRANSACTIONS: released.transactions}
                yield Written(list(_write(released.history | finished, paths)), *about)
                continue
            parts = list(_write(released.history, paths))
            yield Written(parts, *about, share.tx[0], released.transactions, released.has_metadata)

    return tasks.in_tasks(lambda: batch.spark, shares, run)


def events_in(whole: pa.Table) -> int:
    """Return about how many events transactions have: their rows, and a metadata message each."""
    rows = pc.sum(whole.column("rows"), min_count=0).as_py()
    return whole.num_rows + int(rows or 0)


def _shares(
    whole: pa.Table, repeated: pa.Table, landings: list[int], ranges: Sequence[spread.Bounds]
) -> Iterator[Share]:
    """Split transactions by ranges of their hashes, so that each is in one share."""
    for bounds in ranges:
        chosen, again = spread.within(whole, "tx", bounds), spread.within(repeated, "tx", bounds)
        if chosen.num_rows:
            yield Share(chosen, landings, again, bounds)


def _parts(batch: Batch, share: Share) -> Iterator[Share]:
    """Split the transactions of more than SHARE rows off a share, each into parts of files.

    Only where rows alone go into histories: a document's changes of one transaction are one row. Two transactions with
    one id are left together.
    """
    counts = share.chosen.column("tx").value_counts()
    single = counts.field("values").filter(pc.equal(counts.field("counts"), pa.scalar(1, pa.int64())))
    is_large = pc.and_(
        pc.greater(share.chosen.column("rows"), pa.scalar(SHARE, pa.int64())),
        pc.is_in(share.chosen.column("tx"), value_set=single),
    )
    rest, large = share.chosen.filter(pc.invert(is_large)), share.chosen.filter(is_large)
    if rest.num_rows:
        yield replace(share, chosen=rest)
    for number, tx in enumerate(cast("list[int]", large.column("tx").to_pylist())):
        for part in event_files.parts_of(batch.paths, tx, share.landings, SHARE):
            yield replace(share, chosen=large.slice(number, 1), tx=(tx, tx), part=part)


def _sizes(whole: pa.Table, chosen: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return, by hash, the values of SIZES of some transactions."""
    rows = whole.filter(pc.is_in(whole.column("tx"), pa.array(list(chosen), pa.int64()))).to_pylist()
    return {row["tx"]: tuple(row[name] for name in SIZES) for row in rows}


def _write(rows_by_table: Mapping[str, pa.Table], paths: TablePaths) -> Iterator[DataFile]:
    """Write rows as data files of their tables, and yield these."""
    for table, rows in rows_by_table.items():
        if rows.num_rows:
            yield write_file(rows, table, paths.table(table))
