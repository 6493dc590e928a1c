"""backfill, compare one table: the rows in which it differs from its shadow, found at once or piece by piece.

Pieces are cut by the table's key, and tasks compare them where they are large (`shadow_diff.differing`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.current.row_hashes import row_hashes
from txloom.steps.backfill.released_events import OUTCOMES
from txloom.steps.backfill.scope import REBUILT, Scope, Target
from txloom.steps.backfill.shadow_diff import differing, schema_of
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.data_files import DataFile
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.pieces import PieceFiles
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.spark import tasks
from txloom.storage.targets import shadow_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAY = f"fate <> '{REBUILT}'"
"""Transactions whose history rows could not be rebuilt: they stay as they are."""
SAMPLE = 100_000
"""Keys by which a table is cut into pieces."""
TASK_BYTES = pieces.AT_ONCE_BYTES
"""Bytes of rows from which on tasks compare the pieces."""


STAMP = ("_txloom_xid", "_txloom_csn")
"""The columns of a history that identify the transaction of a row."""


@dataclass(frozen=True)
class Piece:
    """The live rows of a piece and the rebuilt ones, in files; "": there are none."""

    live: str
    rebuilt: str


def stay_of(scope: Scope, target: Target) -> Callable[[pa.Table], AnyArray] | None:
    """Return a function that takes rows of a history and returns a mask: true if a row's transaction was not rebuilt.

    Return None if all transactions of the history were rebuilt.

    Args:
        scope: the backfill that rebuilds the transactions.
        target: the history.
    """
    outcomes = scope.paths.table(names.shadow_table(names.TRANSACTIONS))
    stay = arrow_tables.select(outcomes, f"select xid, csn, tables from t where {STAY}").to_pylist()
    left = [row for row in stay if row["tables"] is None or {*row["tables"]} & {*target.members}]
    if not left:
        return None
    stamps = pa.schema([OUTCOMES.field(name) for name in ("xid", "csn")])
    staying = row_hashes(pa.Table.from_pylist(left, stamps), ("xid", "csn"))
    return lambda rows: pc.is_in(row_hashes(rows, STAMP), value_set=staying)


def remade_of(scope: Scope, target: Target) -> Callable[[pa.Table], AnyArray]:
    """Return a function that takes rows of a history and returns a mask: true if a row's transaction was rebuilt.

    Args:
        scope: the backfill that rebuilds the transactions.
        target: the history.
    """
    outcomes = scope.paths.table(names.shadow_table(names.TRANSACTIONS))
    examined, is_staying = arrow_tables.select(outcomes, "select distinct xid, csn from t"), stay_of(scope, target)
    stamps = row_hashes(examined, ("xid", "csn"))

    def is_remade(rows: pa.Table) -> AnyArray:
        is_examined = pc.is_in(row_hashes(rows, STAMP), value_set=stamps)
        return is_examined if is_staying is None else pc.and_(is_examined, pc.invert(is_staying(rows)))

    return is_remade


@dataclass(frozen=True)
class Comparison:
    """A table and its shadow.

    Args:
        scope: the backfill.
        target: the table.
    """

    scope: Scope
    target: Target

    def write(self, session: "Callable[[], SparkSession]") -> None:
        """Replace the table's differences; session: opens a Spark session, where its tasks compare."""
        target, path = self.target, self.scope.paths.table(names.difference_table(self.target.name))
        rewrite = shadow_tables.anew(path, schema_of(target), target.key)
        held, size, count = ([target.schema.empty_table()], [target.schema.empty_table()]), 0, 0
        for side, rows in self._sides():
            held[side].append(rows)
            size, count = size + rows.nbytes, count + rows.num_rows
            if size > pieces.AT_ONCE_BYTES:
                del held
                self._compare_pieces(session, rewrite, size // count)
                break
        else:
            live, rebuilt = map(pa.concat_tables, held)
            rewrite.add(differing(live, rebuilt, target))
        rewrite.commit({})

    def _sides(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Read live rows (0), then rebuilt ones (1), part by part; columns: only these; None: all."""
        for side, parts in enumerate((self._live(columns), self._rebuilt(columns))):
            yield from ((side, rows) for rows in pieces.gathered(parts))

    def _live(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """Read the live rows that the rebuilt ones are compared with, part by part.

        Of a history these are the rows of the range, without those of transactions that could not be rebuilt.
        """
        scope, target = self.scope, self.target
        where = scope.range_of(target) if target.is_history else "true"
        stamp = STAMP if target.is_history else ()
        path, schema = scope.paths.table(target.name), self._schema(columns, stamp)
        parts = arrow_tables.parts_of(path, schema, where)
        if not target.is_history:
            return parts
        if (is_staying := stay_of(scope, target)) is None:
            return parts
        return (rows.filter(pc.invert(is_staying(rows))) for rows in parts)

    def _rebuilt(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        path = self.scope.paths.table(names.shadow_table(self.target.name))
        return arrow_tables.parts_of(path, self._schema(columns))

    def _schema(self, columns: Sequence[str] | None, more: Sequence[str] = ()) -> pa.Schema:
        schema = self.target.schema
        return schema if columns is None else pa.schema([schema.field(n) for n in dict.fromkeys([*columns, *more])])

    def _compare_pieces(self, session: "Callable[[], SparkSession]", rewrite: Rewrite, row_bytes: int) -> None:
        tasks.prepare(differ_piece_of)
        key = list(self.target.key)
        sample, count = pieces.sampled((rows.select(key) for _, rows in self._sides(key)), SAMPLE)
        by_tasks = count * row_bytes > TASK_BYTES
        cuts = pieces.cuts_of(sample, pieces.number_for(count * row_bytes, by_tasks=by_tasks), {})
        with ExitStack() as stack:
            folder = stack.enter_context(pieces.folder(rewrite.files.path))
            files = [stack.enter_context(PieceFiles(folder)) for _ in range(2)]
            for side, rows in self._sides():
                files[side].write(rows, cuts.piece_of(rows.column(cuts.column)))
            named = zip(*(each.closed(cuts.pieces) for each in files), strict=True)
            some = [Piece(*each) for each in named if any(each)]
            work = differ_piece_of(self.target, rewrite.files.path)
            made = tasks.in_tasks(session, some, work) if by_tasks else [*work(some)]
        for added in made:
            rewrite.adopt(added)


def differ_piece_of(target: Target, path: str) -> "Callable[[Iterable[Piece]], Iterator[list[DataFile]]]":
    """Return what a task does: compare pieces, and yield for each the files of differences that it wrote.

    Args:
        target: the table.
        path: the table of its differences.
    """

    def differ(some: Iterable[Piece]) -> Iterator[list[DataFile]]:
        for piece in some:
            rewrite = Rewrite.of(path, target.key)
            live, rebuilt = (pieces.read(file, target.schema) for file in (piece.live, piece.rebuilt))
            rewrite.add(differing(live, rebuilt, target))
            yield rewrite.added

    return differ
