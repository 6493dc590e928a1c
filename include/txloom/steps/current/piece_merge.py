"""Fold changes into the rows of a table that they may change: at once, or piece by piece where they are many.

Pieces are cut by ranges of a key column into files. Tasks fold them where they are large, else this process does; the
same function folds a piece in both, and writes what becomes of it into new files of the table.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.documents.compose import distinct_keys
from txloom.current.folding.column_nulling import of_all_rows
from txloom.current.folding.value_sources import Images
from txloom.steps.current.contradictions import MOST_CONTRADICTIONS
from txloom.steps.current.merge_source import Source, columns_from
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.data_files import DataFile
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.matching import among, others
from txloom.storage.rewriting.pieces import Cuts, PieceFiles
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile
from txloom.storage.spark import tasks
from txloom.storage.targets import schemas

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TASK_BYTES = pieces.AT_ONCE_BYTES
"""Bytes of changes from which on tasks fold the pieces."""
SAMPLE = 100_000
"""Values by which changes are cut into pieces."""
MOST_ADDED = 1_000
"""Changes of all rows that are joined at once at least, so that each is looked at a few times only."""


@dataclass(frozen=True)
class Piece:
    """A piece in files: changes, and the rows that these may change; "": there are none."""

    changes: str
    rows: str


@dataclass(frozen=True)
class Folded:
    """What folding showed beside the rows that it wrote.

    Args:
        contradictions: JSON texts (`txloom.current.folding.contradictions`).
        touched: for each of the source's `parents`, the keys of the documents to which changed rows belong or belonged.
    """

    contradictions: list[str]
    touched: Sequence[pa.Table]

    @classmethod
    def of(cls, parts: "Sequence[Folded]") -> "Folded":
        """Join what parts showed; there is one at least."""
        texts = [text for part in parts for text in part.contradictions]
        touched = [
            distinct_keys(each, each[0].column_names) for each in zip(*(part.touched for part in parts), strict=True)
        ]
        return cls(texts[:MOST_CONTRADICTIONS], touched)


def fold_at_once(rewrite: Rewrite, source: Source, rows: pa.Table, changes: pa.Table) -> Folded:
    """Fold changes into the rows that they may change, and write what becomes of these."""
    effects = source.folded(rows, changes)
    alive = effects.filter(pc.invert(effects.column("_txloom_deleted")))
    rewrite.add(pa.concat_tables([others(rows, effects, rewrite.key), arrow_tables.conform(alive, rows.schema)]))
    evidence = cast("list[str]", effects.column("_txloom_evidence").drop_null().to_pylist())
    replaced = among(rows, effects, rewrite.key) if source.parents else rows
    touched = [
        distinct_keys([replaced.select(list(key)), alive.select(list(key)), *_named(rows, changes, key)], key)
        for key in source.parents
    ]
    return Folded(evidence[:MOST_CONTRADICTIONS], touched)


def _named(rows: pa.Table, changes: pa.Table, columns: Sequence[str]) -> list[pa.Table]:
    """Return some columns as changes name them, before and after; what one image leaves out, it has from the other.

    A merge that was killed behind its documents has shown rows there that the table never got: where they are gone by
    now, nothing else says to which documents they belong.
    """
    images = Images.of(rows, changes, columns, columns)
    return [columns_from(side, columns) for side in (images.before, images.after)]


@dataclass(frozen=True)
class Pieces:
    """The pieces of a table's merge.

    Args:
        session: opens a Spark session.
        source: the changes.
        held: the files of the table that hold rows which may change.
        keys: which rows of them may.
        nulls: whether some change may null a column of all rows.
        row_bytes: of a change.
    """

    session: "Callable[[], SparkSession]"
    source: Source
    held: Sequence[TableFile]
    keys: ChangedKeys
    nulls: bool
    row_bytes: int

    def fold_into(self, rewrite: Rewrite) -> Folded:
        """Fold piece by piece, and let a commit in the making have the files that come of it."""
        tasks.prepare(fold_piece_of)
        cuts, size = self._cuts()
        by_tasks = size > TASK_BYTES
        with ExitStack() as stack:
            folder = stack.enter_context(pieces.folder(rewrite.files.path))
            changes_of, rows_of = (stack.enter_context(PieceFiles(folder)) for _ in range(2))
            schema = schemas.changes_schema(self.source.row_table.table)
            whole = AllRows(schema.empty_table(), nulls=self.nulls)
            for part in pieces.gathered(self.source.parts()):
                whole.add(part)
                of_keys = part.filter(pc.not_equal(part.column("_txloom_op"), pa.scalar("T")))
                changes_of.write(of_keys, cuts.piece_of(self.source.images(of_keys).after(cuts.column)))
            for rows in rewrite.take_out(self.held, self.keys):
                rows_of.write(rows, cuts.piece_of(rows.column(cuts.column)))
            names = zip(changes_of.closed(cuts.pieces), rows_of.closed(cuts.pieces), strict=True)
            some = [Piece(*each) for each in names if any(each) or whole.rows.num_rows]
            work = fold_piece_of(replace(self.source, only=None), rewrite, whole.rows)
            made = tasks.in_tasks(self.session, some, work) if by_tasks else [*work(some)]
        for added, _ in made:
            rewrite.adopt(added)
        nothing = Folded([], [rewrite.files.schema.empty_table().select(list(key)) for key in self.source.parents])
        return Folded.of([nothing, *(folded for _, folded in made)])

    def _cuts(self) -> tuple[Cuts, int]:
        """Return cuts of the changes into pieces of at most about PIECE_BYTES, and the bytes of all changes."""
        key = self.source.row_table.key
        keys = (columns_from(self.source.images(part).after, key) for part in self.source.parts(keys_alone=True))
        sample, count = pieces.sampled(keys, SAMPLE)
        together = {name: self.source.together(name) for name in key}
        size = count * self.row_bytes
        return pieces.cuts_of(sample, pieces.number_for(size, by_tasks=size > TASK_BYTES), together), size


def fold_piece_of(
    source: Source, commit: Rewrite, whole: pa.Table
) -> "Callable[[Iterable[Piece]], Iterator[tuple[list[DataFile], Folded]]]":
    """Return what a task does: fold pieces, and yield for each the files that it wrote and what it showed.

    Args:
        source: the changes that the pieces are of.
        commit: the commit in the making that gets the files.
        whole: changes that every piece has to see.
    """
    path, key, shape = commit.files.path, commit.key, commit.shape

    def fold(some: Iterable[Piece]) -> Iterator[tuple[list[DataFile], Folded]]:
        for piece in some:
            rewrite = Rewrite.of(path, key, shape)
            rows = pieces.read(piece.rows, rewrite.files.schema)
            changes = pa.concat_tables([pieces.read(piece.changes, whole.schema), whole])
            folded = fold_at_once(rewrite, source, rows, changes)
            yield rewrite.added, folded

    return fold


@dataclass
class AllRows:
    """The changes that every piece has to see: truncates, and nullings where some column is nulled.

    Args:
        joined: those that came of changes so far, without what others of them make superfluous.
        nulls: whether some column is nulled.
    """

    joined: pa.Table
    nulls: bool
    _added: list[pa.Table] = field(default_factory=list)

    def add(self, changes: pa.Table) -> None:
        """Take over those of some changes."""
        is_truncate = pc.equal(changes.column("_txloom_op"), pa.scalar("T"))
        self._added.append(of_all_rows(changes) if self.nulls else changes.filter(is_truncate))
        if sum(part.num_rows for part in self._added) > max(self.joined.num_rows, MOST_ADDED):
            self._join()

    @property
    def rows(self) -> pa.Table:
        """Return them."""
        self._join()
        return self.joined

    def _join(self) -> None:
        joined = pa.concat_tables([self.joined, *self._added])
        self.joined = of_all_rows(joined) if self.nulls and self._added else joined
        self._added = []
