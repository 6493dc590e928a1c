"""Compare a large table with its extract in tasks, by buckets of the key's hash, so that memory is bounded.

Tasks first read a file of either side each, and split its rows into buckets. Then each compares a bucket, writes its
row events as data files of change_events, and returns these files and the result of the comparison.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Table
from txloom.current.row_diff import KEY, with_hashes
from txloom.current.row_hashes import BITS
from txloom.errors import ConfigurationError
from txloom.steps.snapshots.extract_diff import Compared, Comparison, compared, empty, read
from txloom.storage.delta import data_files, small_merge
from txloom.storage.delta.data_files import DataFile
from txloom.storage.landing import change_events, decoding
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.pieces import PieceFiles
from txloom.storage.rewriting.table_files import TableFile, TableFiles
from txloom.storage.spark import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Read = tuple[Sequence[str], Compared]
"""The file of each bucket with rows of one file, "": it has none; columns and problems of a file of the extract."""


@dataclass(frozen=True)
class Bucket:
    """A bucket of both sides: its number, and the files with its rows."""

    number: int
    extract: Sequence[str]
    current: Sequence[str]


def in_tasks(
    session: "Callable[[], SparkSession]",
    comparison: Comparison,
    paths: TablePaths,
    current: str,
    numbers: range,
    result: Compared,
) -> list[DataFile]:
    """Compare a table bucket by bucket; return the data files of row events, which no commit names yet.

    Args:
        session: opens a Spark session, where its tasks do it.
        comparison: what to compare.
        paths: the tables of the pipeline.
        current: the name of its current table, which may not exist yet.
        numbers: the number of each bucket.
        result: counts, columns and problems are added to it.
    """
    path = paths.table(current)
    files = TableFiles.open(path).files if small_merge.bytes_of(path) else []
    with pieces.folder(paths.change_events) as folder:
        items: list[int | TableFile] = [*range(len(comparison.files)), *files]
        split = tasks.in_tasks(session, items, _splitting(comparison, path, folder, len(numbers)))
        for _, of_file in split:
            result.add(of_file)
        if result.problems:
            return []
        sides = split[: len(comparison.files)], split[len(comparison.files) :]
        extract, rows = ([_of_bucket(side, place) for place in range(len(numbers))] for side in sides)
        buckets = [Bucket(*each) for each in zip(numbers, extract, rows, strict=True) if each[1] or each[2]]
        made = tasks.in_tasks(session, buckets, _comparing(comparison, paths))
    written = list[DataFile]()
    for of_bucket, events in made:
        result.add(of_bucket)
        written += events
    return written


def _of_bucket(split: Sequence[Read], place: int) -> list[str]:
    return [files[place] for files, _ in split if files[place]]


def _splitting(
    comparison: Comparison, current: str, folder: str, buckets: int
) -> "Callable[[Iterable[int | TableFile]], Iterator[Read]]":
    """Return what a task does: read a file, the extract's by its number or one of the current table, and split it."""
    table = comparison.table

    def split(some: Iterable[int | TableFile]) -> Iterator[Read]:
        for item in some:
            result = Compared()
            with PieceFiles(folder) as files:
                if isinstance(item, TableFile):
                    _write(files, comparison.declared(TableFiles.open(current).read(item)), table, buckets)
                else:
                    try:
                        for rows in read(table, item, comparison.files[item], result):
                            _write(files, rows, table, buckets)
                    except ConfigurationError as error:
                        result.problems.append(str(error))
                yield files.closed(buckets), result

    return split


def _write(files: PieceFiles, rows: pa.Table, table: Table, buckets: int) -> None:
    hashed = with_hashes(rows, table.key, table.column_names)
    files.write(hashed, _numbers(hashed, buckets))


def _numbers(hashed: pa.Table, buckets: int) -> npt.NDArray[np.int64]:
    """Return the number of each row's bucket."""
    keys = cast("list[bytes]", hashed.column(KEY).to_pylist())
    return (np.frombuffer(b"".join(keys), np.uint64)[:: BITS // 64] % buckets).astype(np.int64)


def _comparing(
    comparison: Comparison, paths: TablePaths
) -> "Callable[[Iterable[Bucket]], Iterator[tuple[Compared, list[DataFile]]]]":
    """Return what a task does: compare a bucket, and write its row events."""
    table, at = comparison.table, comparison.transaction.at
    nothing = with_hashes(empty(table), table.key, table.column_names)

    def compare(some: Iterable[Bucket]) -> Iterator[tuple[Compared, list[DataFile]]]:
        for bucket in some:
            result, written = Compared(), list[DataFile]()
            extract = _read(bucket.extract, nothing)
            current = _read(bucket.current, nothing.select([*table.column_names, *nothing.column_names[-2:]]))
            for events in decoding.gathered(compared(comparison, extract, current, bucket.number, result)):
                rows = change_events.with_compact_events(events, at)
                written.append(data_files.write_file(rows, names.CHANGE_EVENTS, paths.change_events))
            yield result, written

    return compare


def _read(files: Sequence[str], nothing: pa.Table) -> pa.Table:
    return pa.concat_tables([nothing, *(pieces.read(file, nothing.schema) for file in files)])
