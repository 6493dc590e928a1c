"""Merge one row table by rewriting the files that hold its changed rows, in pieces that fit into memory.

The rules are those of `spark_merge`: `fold`, and `recompute` where a change is late. A table is read and written piece
by piece, so that memory is bounded however many changes there are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.current.folding.column_nulling import Columns, Gone
from txloom.steps.current.first_fold import fold_first, read_at_once
from txloom.steps.current.merge_source import Source
from txloom.steps.current.piece_merge import Pieces, fold_at_once
from txloom.storage.delta.data_files import Shape
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.rewriting import taken_out
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REWRITE_BYTES = 1 << 30
"""The most bytes of files that are rewritten; of more, Spark marks the rows that change."""


@dataclass
class TableMerge:
    """A table's merge, computed: its files are written, and no commit names them yet.

    Args:
        row_table: the table.
        rewrite: the commit in the making; None where nothing changes.
        changes: how many changes of history are applied.
        columns: which columns are gone after it; None: as before.
        contradictions: JSON texts (`txloom.current.folding.contradictions`); if `is_anew`, of all changes.
        touched: by the columns that hold it, the keys of the documents to which changed rows belong or belonged.
        is_anew: whether it replaces all rows, so that every document may be touched.
    """

    row_table: RowTable
    rewrite: Rewrite | None = None
    changes: int = 0
    columns: Columns | None = None
    contradictions: list[str] = field(default_factory=list)
    touched: Mapping[Sequence[str], pa.Table] = field(default_factory=dict)
    is_anew: bool = False


def prepare(
    session: "Callable[[], SparkSession]",
    paths: TablePaths,
    row_table: RowTable,
    target: Watermark,
    gone: Mapping[str, Gone],
    parents: Iterable[Sequence[str]] = (),
) -> TableMerge | None:
    """Compute a table's merge and write its files, without a commit; None where Spark has to make it.

    Args:
        session: opens a Spark session, where its tasks fold pieces.
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
        gone: columns that its source dropped before.
        parents: columns of it that hold the key of a document to which its rows belong, for each aggregate that has it.
    """
    path = paths.table(row_table.current)
    reached = watermark_of(path)
    where = history_reader.between(reached, target)
    count, late, truncates = history_reader.count(paths, row_table, where, history_reader.late(reached))
    if not count:
        return TableMerge(row_table)
    source = Source(
        paths,
        row_table,
        reached,
        where,
        parents=[tuple(key) for key in dict.fromkeys(map(tuple, parents))],
        cleaned=history_reader.cleaned(paths, row_table),
    )
    rewrite = Rewrite.of(path, row_table.key)
    with ExitStack() as stack:
        changes, row_bytes = read_at_once(source, stack)
        if late:
            source = source.late(changes, target)
            changes, row_bytes = read_at_once(source, stack)
        columns = source.columns(changes, gone)
        is_empty = not rewrite.files.files
        keys = ChangedKeys({}) if is_empty else _keys(source, changes, columns, truncated=bool(truncates))
        held = taken_out.holding(session, rewrite, keys)
        if not may_rewrite(held):
            return None
        if changes is None:
            nulls = source.is_late or bool(columns.clearing)
            folded = Pieces(session, source, held, keys, nulls, row_bytes).fold_into(rewrite)
        else:
            folded = fold_at_once(rewrite, source, taken_out.taken_out(session, rewrite, held, keys), changes)
        touched = dict(zip(source.parents, folded.touched, strict=True))
        return TableMerge(row_table, rewrite, count, columns, folded.contradictions, touched)


def prepare_anew(
    session: "Callable[[], SparkSession]", paths: TablePaths, row_table: RowTable, target: Watermark, shape: Shape
) -> TableMerge:
    """Compute all rows of a table from its history, and write their files, without a commit.

    Args:
        session: opens a Spark session, where its tasks fold pieces.
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark that it gets.
        shape: its schema and bounds.
    """
    where = history_reader.upto(target)
    count, *_ = history_reader.count(paths, row_table, where, "false")
    rewrite = Rewrite.of(paths.table(row_table.current), row_table.key, shape)
    source = Source(paths, row_table, Watermark(), where, cleaned=history_reader.cleaned(paths, row_table))
    columns, contradictions = fold_first(session, source, rewrite)
    return TableMerge(row_table, rewrite, count, columns, contradictions, is_anew=True)


def may_rewrite(held: Sequence[TableFile]) -> bool:
    """Return whether files may be rewritten: they are few enough, and delta-rs can remove them."""
    return all(file.can_be_removed for file in held) and sum(file.size for file in held) <= REWRITE_BYTES


def _keys(source: Source, changes: pa.Table | None, columns: Columns, *, truncated: bool) -> ChangedKeys:
    """Return which rows of the table may change."""
    if truncated or (source.is_late and source.only is None):
        return ChangedKeys({}, everything=True)
    if source.only is not None:
        return source.only
    if source.row_table.table.insert_only:
        return ChangedKeys({}, columns.clearing)
    return source.keys(changes, columns.clearing)
