"""Merge one row table by rewriting the files that hold its changed rows, in pieces that fit into memory.

The rules are those of `local_merge` and `spark_merge`: `fold`, and `recompute` where a change is late. A table is read
and written piece by piece, so that memory is bounded however many changes there are.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.current.folding.column_nulling import Columns, Gone, of_all_rows
from txloom.steps.merge.merge_source import Source, columns_from
from txloom.storage.delta import arrow_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.changed_keys import ChangedKeys, Values
from txloom.storage.rewriting.pieces import Cuts, PieceFiles
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile
from txloom.storage.targets import history_reader, schemas
from txloom.storage.targets.row_tables import RowTable

SMALL_BYTES = 32 << 20
"""Bytes of changes up to which several tables are worked on at once; of larger ones, one after the other."""
REWRITE_BYTES = 1 << 30
"""The most bytes of files that are rewritten; of more, Spark marks the rows that change."""
MOST_CONTRADICTIONS = 1_000
"""Contradictions of a table that are kept: of each kind and column one finding is recorded."""
SAMPLE = 100_000
"""Values by which changes are cut into pieces."""
_LARGE = threading.RLock()
"""Held by the table that is large; it may be taken twice, by the new changes and by the history of a late one."""


@dataclass
class TableMerge:
    """A table's merge, computed: its files are written, and no commit names them yet.

    Args:
        row_table: the table.
        rewrite: the commit in the making; None where nothing changes.
        changes: how many changes of history are applied.
        columns: which columns are gone after it; None: as before.
        contradictions: JSON texts (`txloom.current.folding.contradictions`).
    """

    row_table: RowTable
    rewrite: Rewrite | None = None
    changes: int = 0
    columns: Columns | None = None
    contradictions: list[str] = field(default_factory=list)


def prepare(paths: TablePaths, row_table: RowTable, target: Watermark, gone: Mapping[str, Gone]) -> TableMerge | None:
    """Compute a table's merge and write its files, without a commit; None where Spark has to make it.

    Args:
        paths: the tables of the pipeline.
        row_table: a mirror.
        target: the watermark to bring it to.
        gone: columns that its source dropped before.
    """
    path = paths.table(row_table.current)
    reached = watermark_of(path)
    where = history_reader.between(reached, target)
    count, late, truncates = history_reader.count(paths, row_table, where, history_reader.late(reached))
    if not count:
        return TableMerge(row_table)
    source, rewrite = Source(paths, row_table, reached, where), Rewrite.of(path, row_table.key)
    with ExitStack() as stack:
        changes, row_bytes = _read(source, stack)
        if late:
            source = source.late(changes, target)
            changes, row_bytes = _read(source, stack)
        columns = source.columns(changes, gone)
        is_empty = not rewrite.files.files
        keys = ChangedKeys({}) if is_empty else _keys(source, changes, columns, truncated=bool(truncates))
        held = rewrite.holding(keys)
        if not _may_rewrite(held):
            return None
        merge = TableMerge(row_table, rewrite, count, columns)
        if changes is None:
            _fold_in_pieces(merge, source, held, keys, row_bytes)
        else:
            _fold(merge, source, _taken_out(rewrite, held, keys), changes)
        return merge


def written(path: str, effects: pa.Table, key: Sequence[str], metadata: Mapping[str, object]) -> bool:
    """Apply net effects that this process holds in one commit; return False where files cannot be rewritten.

    Args:
        path: the table's path.
        effects: at most one row for each key, with the table's columns and `_txloom_deleted`.
        key: the key's columns.
        metadata: the commit's userMetadata. There is a commit also where no row changes.

    Raises:
        LeaseTaken: another run holds the lease.
        CommitFailedError: another commit came first (`txloom.storage.delta.retry`).
    """
    rewrite = Rewrite.of(path, key)
    columns: dict[str, AnyArray] = {name: effects.column(name).combine_chunks() for name in key}
    keys = ChangedKeys({name: Values.of([column], column.type) for name, column in columns.items()})
    held = rewrite.holding(keys)
    if not _may_rewrite(held):
        return False
    _replace(rewrite, _taken_out(rewrite, held, keys), effects)
    rewrite.commit(metadata)
    return True


def _taken_out(rewrite: Rewrite, held: Sequence[TableFile], keys: ChangedKeys) -> pa.Table:
    """Take the rows that may change out of their files, and return them."""
    return pa.concat_tables([rewrite.files.schema.empty_table(), *rewrite.take_out(held, keys)])


def _replace(rewrite: Rewrite, rows: pa.Table, effects: pa.Table) -> None:
    """Write rows that were taken out, as effects leave them: those that no effect has, and the effects' own."""
    alive = effects.filter(pc.invert(effects.column("_txloom_deleted")))
    rewrite.add(pa.concat_tables([_others(rows, effects, rewrite.key), arrow_tables.conform(alive, rows.schema)]))


def _may_rewrite(held: Sequence[TableFile]) -> bool:
    """Return whether files may be rewritten: they are few enough, and delta-rs can remove them."""
    return all(file.can_be_removed for file in held) and sum(file.size for file in held) <= REWRITE_BYTES


def _read(source: Source, stack: ExitStack) -> tuple[pa.Table | None, int]:
    """Return all changes where they fit into one piece, else None; and the bytes of a change.

    A large table holds other large ones back.
    """
    read, rows, size, is_alone = [schemas.changes_schema(source.row_table.table).empty_table()], 0, 0, False
    for part in source.parts():
        read.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if size > SMALL_BYTES and not is_alone:
            is_alone = True
            stack.enter_context(_LARGE)
        if size > pieces.PIECE_BYTES:
            return None, size // rows
    return pa.concat_tables(read), size // max(rows, 1)


def _keys(source: Source, changes: pa.Table | None, columns: Columns, *, truncated: bool) -> ChangedKeys:
    """Return which rows of the table may change."""
    if truncated or (source.is_late and source.only is None):
        return ChangedKeys({}, everything=True)
    if source.only is not None:
        return source.only
    if source.row_table.table.insert_only:
        return ChangedKeys({}, columns.clearing)
    return source.keys(changes, columns.clearing)


def _fold(merge: TableMerge, source: Source, rows: pa.Table, changes: pa.Table) -> None:
    """Fold changes into the rows that they may change, and write what becomes of these."""
    assert merge.rewrite is not None
    effects = source.folded(rows, changes)
    evidence = cast("list[str]", effects.column("_txloom_evidence").drop_null().to_pylist())
    merge.contradictions += evidence[: MOST_CONTRADICTIONS - len(merge.contradictions)]
    _replace(merge.rewrite, rows, effects)


def _others(rows: pa.Table, effects: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with a key that no effect has."""
    if not rows.num_rows:
        return rows
    numbered = rows.select(list(key)).append_column("_txloom_row", pa.array(np.arange(rows.num_rows)))
    left = numbered.join(effects.select(list(key)), keys=list(key), join_type="left anti")
    return rows.take(left.column("_txloom_row"))


def _fold_in_pieces(
    merge: TableMerge, source: Source, held: Sequence[TableFile], keys: ChangedKeys, row_bytes: int
) -> None:
    """Fold changes piece by piece: cut them and the rows that they may change by key into files first."""
    assert merge.rewrite is not None and merge.columns is not None
    cuts = _cuts(source, row_bytes)
    nulls = source.is_late or bool(merge.columns.clearing)
    with PieceFiles() as changes_of, PieceFiles() as rows_of:
        schema = schemas.changes_schema(source.row_table.table)
        whole = schema.empty_table()
        for part in arrow_tables.gathered(source.parts(), pieces.GATHERED):
            whole = _of_all_rows(pa.concat_tables([whole, part]), nulls=nulls)
            of_keys = part.filter(pc.not_equal(part.column("_txloom_op"), pa.scalar("T")))
            changes_of.write(of_keys, cuts.piece_of(source.images(of_keys).after(cuts.column)))
        for rows in merge.rewrite.take_out(held, keys):
            rows_of.write(rows, cuts.piece_of(rows.column(cuts.column)))
        for piece in range(cuts.pieces):
            rows = rows_of.read(piece, merge.rewrite.files.schema)
            changes = pa.concat_tables([changes_of.read(piece, schema), whole])
            if rows.num_rows or changes.num_rows:
                _fold(merge, source, rows, changes)


def _of_all_rows(changes: pa.Table, *, nulls: bool) -> pa.Table:
    """Return the changes that every piece has to see: truncates, and nullings where some column is nulled."""
    if nulls:
        return of_all_rows(changes)
    return changes.filter(pc.equal(changes.column("_txloom_op"), pa.scalar("T")))


def _cuts(source: Source, row_bytes: int) -> Cuts:
    """Return cuts of changes of so many bytes each into pieces of at most about PIECE_BYTES."""
    key = source.row_table.key
    keys = (columns_from(source.images(part).after, key) for part in source.parts(keys_alone=True))
    sample, count = pieces.sampled(keys, SAMPLE)
    together = {name: source.together(name) for name in key}
    return pieces.cuts_of(sample, -(-count * row_bytes // pieces.PIECE_BYTES), together)
