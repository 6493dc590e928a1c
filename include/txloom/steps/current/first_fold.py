"""Read the changes of a table, at once where they fit into memory, and fold those of a table that has no row yet."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.current.folding.column_nulling import Columns
from txloom.steps.current.merge_source import Source
from txloom.steps.current.piece_merge import Pieces, fold_at_once
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_BYTES = 32 << 20
"""Bytes of changes up to which several tables are worked on at once; of larger ones, one after the other."""
ALONE = threading.RLock()
"""Held by the table that is large; it may be taken twice, by the new changes and by the history of a late one."""


def fold_first(session: "Callable[[], SparkSession]", source: Source, rewrite: Rewrite) -> tuple[Columns, list[str]]:
    """Fold all changes of a source into the rows of a table that has none, and let a commit in the making have them.

    Returns:
        The columns that the source dropped, and the contradictions between the changes as JSON texts
        (`txloom.current.folding.contradictions`).
    """
    with ExitStack() as stack:
        changes, row_bytes = read_at_once(source, stack)
        columns = source.columns(changes, {})
        if changes is None:
            nulls = bool(columns.clearing)
            folded = Pieces(session, source, [], ChangedKeys({}), nulls, row_bytes).fold_into(rewrite)
        else:
            folded = fold_at_once(rewrite, source, rewrite.files.schema.empty_table(), changes)
        return columns, folded.contradictions


def read_at_once(source: Source, stack: ExitStack) -> tuple[pa.Table | None, int]:
    """Return all changes where they fit into one piece, else None; and the bytes of a change.

    A large table holds other large ones back.
    """
    read, rows, size, is_alone = [schemas.changes_schema(source.row_table.table).empty_table()], 0, 0, False
    for part in source.parts():
        read.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if size > SMALL_BYTES and not is_alone:
            is_alone = True
            stack.enter_context(ALONE)
        if size > pieces.AT_ONCE_BYTES:
            return None, size // max(rows, 1)
    return pa.concat_tables(read), size // max(rows, 1)
