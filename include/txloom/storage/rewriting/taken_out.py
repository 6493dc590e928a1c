"""Take rows out of the files of a table: in this process, or by tasks where the files are large."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.storage.delta.data_files import DataFile
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.matching import others
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile, TableFiles
from txloom.storage.spark import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Session = Callable[[], SparkSession]

TASK_BYTES = 64 << 20
"""Bytes of files from which on tasks of this machine read and rewrite them; where a JVM has to start, eight times."""
SHARES = 4
"""Shares of the files for each core, so that no core waits long for another one."""
Taken = tuple[list[DataFile], pa.Table]


def holding(session: "Session", rewrite: Rewrite, keys: ChangedKeys) -> list[TableFile]:
    """Return the files that hold a row that may change; of the others at most the columns of keys are read."""
    likely = rewrite.likely(keys)
    if keys.everything:
        return likely
    if not _by_tasks(likely):
        return [*_held_among(rewrite.files, likely, keys)]

    def hold(some: Iterable[Sequence[TableFile]]) -> Iterator[str]:
        for share in some:
            yield from (file.path for file in _held_among(TableFiles.open(path), share, keys))

    path = rewrite.files.path
    held = set(tasks.in_tasks(session, shares(likely), hold))
    return [file for file in likely if file.path in held]


def _held_among(table: TableFiles, files: Iterable[TableFile], keys: ChangedKeys) -> Iterator[TableFile]:
    """Yield those of some files of a table that hold a row that may change."""
    return (file for file in files if keys.among(table.read(file, keys.columns)).true_count)


def taken_out(
    session: "Session",
    rewrite: Rewrite,
    held: Sequence[TableFile],
    keys: ChangedKeys,
    but: pa.Table | None = None,
) -> pa.Table:
    """Take the rows that may change out of their files, and return them; what else these hold is written at once.

    Args:
        session: opens a Spark session, where its tasks do it.
        rewrite: the commit in the making.
        held: the files.
        keys: which rows may change. Those that are returned fit into memory.
        but: keys, by the columns by which new files are ordered, of rows that are not returned.
    """
    nothing = rewrite.files.schema.empty_table()
    if keys.everything or keys.filled or not _by_tasks(held):
        return pa.concat_tables([nothing, *_taken(rewrite, held, keys, but)])
    made = tasks.in_tasks(session, shares(held), take_out_of(rewrite.files.path, rewrite.key, keys, but))
    rewrite.adopt(file for written, _ in made for file in written)
    rewrite.remove(held)
    return pa.concat_tables([nothing, *(rows for _, rows in made)])


def take_out_of(
    path: str, key: Sequence[str], keys: ChangedKeys, but: pa.Table | None
) -> "Callable[[Iterable[Sequence[TableFile]]], Iterator[Taken]]":
    """Return what a task does: take rows out of files; it yields the files that it wrote, and the rows.

    Args:
        path: the table.
        key: the columns by which new files are ordered.
        keys: which rows are taken out.
        but: keys of rows that are not returned.
    """

    def take_out(some: Iterable[Sequence[TableFile]]) -> Iterator[Taken]:
        for share in some:
            rewrite = Rewrite.of(path, key)
            rows = pa.concat_tables([rewrite.files.schema.empty_table(), *_taken(rewrite, share, keys, but)])
            yield rewrite.added, rows

    return take_out


def _taken(rewrite: Rewrite, files: Sequence[TableFile], keys: ChangedKeys, but: pa.Table | None) -> Iterator[pa.Table]:
    for rows in rewrite.take_out(files, keys):
        yield rows if but is None else others(rows, but, rewrite.key)


def _by_tasks(files: Sequence[TableFile]) -> bool:
    least = TASK_BYTES if tasks.local_cores() else 8 * TASK_BYTES
    return tasks.local_cores() != 1 and sum(file.size for file in files) > least


def shares(files: Sequence[TableFile]) -> list[Sequence[TableFile]]:
    """Return files in shares of about equal size, those that follow each other together."""
    shares, size = [list[TableFile]()], 0
    most = sum(file.size for file in files) / (SHARES * max(tasks.cores(), 2))
    for file in files:
        if shares[-1] and size + file.size > most:
            shares.append([])
            size = 0
        shares[-1].append(file)
        size += file.size
    return [*shares]
