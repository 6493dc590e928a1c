"""Compose documents of the rows of their tables, and write them: at once where these are few, else piece by piece."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.documents.child_counts import SeveralChildren, find_several, first_of_each
from txloom.current.documents.compose import Member, compose
from txloom.steps.current.first_fold import ALONE, SMALL_BYTES
from txloom.steps.current.piece_merge import SAMPLE, TASK_BYTES
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.data_files import DataFile
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.pieces import Cuts, PieceFiles
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile, TableFiles
from txloom.storage.spark import tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Rows:
    """The rows of a member, as files have them.

    Args:
        parent: the columns that hold the key of a document.
        table: the table.
        files: its files.
    """

    parent: Sequence[str]
    table: TableFiles
    files: Sequence[TableFile]


@dataclass(frozen=True)
class Composition:
    """Which documents are composed, and of what.

    Args:
        key: the root's key columns.
        columns: the root's declared columns.
        children: the child tables.
        touched: the keys of the documents.
        rows: those of the root, then of each child.
    """

    key: Sequence[str]
    columns: Sequence[str]
    children: Sequence[Member]
    touched: pa.Table
    rows: Sequence[Rows]

    def composed(self, touched: pa.Table, members: Sequence[pa.Table]) -> pa.Table:
        """Return the documents of some keys that exist; members: rows of the root, then of each child."""
        root, *children = members
        rows = compose(touched, root, list(zip(self.children, children, strict=True)), self.key, self.columns)
        return rows.filter(pc.invert(rows.column("_txloom_deleted")))

    def find_several(self, documents: pa.Table) -> list[SeveralChildren]:
        """Return for each child of the relation `one` a document that has several of its rows, if there is one."""
        fields = [member.field for member in self.children if member.relation == "one"]
        return find_several(documents, fields, self.key)

    @cached_property
    def files(self) -> Sequence[tuple[int, TableFile]]:
        """The files that may hold rows of the documents, each with the number of its member."""
        return [
            (number, file)
            for number, (rows, keys) in enumerate(zip(self.rows, self._keys, strict=True))
            for file in rows.files
            if keys.may_be_in(file)
        ]

    def read(self, number: int, file: TableFile) -> pa.Table:
        """Return the rows of a file of a member that belong to one of the documents, and perhaps others."""
        keys = self._keys[number]
        return self.rows[number].table.chosen(file, keys.columns, keys.among)

    @cached_property
    def _keys(self) -> Sequence[ChangedKeys]:
        return [ChangedKeys.of(self.touched.rename_columns(list(rows.parent))) for rows in self.rows]


def compose_into(
    rewrite: Rewrite, session: "Callable[[], SparkSession]", composition: Composition
) -> list[SeveralChildren]:
    """Compose documents, at once or piece by piece, and let a commit in the making have them.

    Returns for each child of the relation `one` the first document, by csn and key, that has several of its rows.
    """
    read: list[list[pa.Table]] = [[rows.table.schema.empty_table()] for rows in composition.rows]
    size, of_files, is_alone = 0, 0, False
    with ExitStack() as stack:
        for number, file in composition.files:
            rows = composition.read(number, file)
            read[number].append(rows)
            size, of_files = size + rows.nbytes, of_files + file.size
            if size > SMALL_BYTES and not is_alone:
                is_alone = True
                stack.enter_context(ALONE)
            if size > pieces.AT_ONCE_BYTES:
                read.clear()
                estimated = size * sum(file.size for _, file in composition.files) // of_files
                return _compose_pieces(rewrite, session, composition, estimated)
        members = [pa.concat_tables(parts) for parts in read]
        documents = composition.composed(composition.touched, members)
        rewrite.add(arrow_tables.conform(documents, rewrite.files.schema))
        return composition.find_several(documents)


@dataclass(frozen=True)
class Piece:
    """Some documents: their keys, and the file of the rows of the root and of each child; "": there are none."""

    touched: pa.Table
    rows: Sequence[str]


def _compose_pieces(
    rewrite: Rewrite, session: "Callable[[], SparkSession]", composition: Composition, size: int
) -> list[SeveralChildren]:
    """Compose documents piece by piece, as `compose_into` does; size: about the bytes of their rows."""
    tasks.prepare(compose_piece_of)
    by_tasks = size > TASK_BYTES
    sample, _ = pieces.sampled([composition.touched], SAMPLE)
    cuts = pieces.cuts_of(sample, pieces.number_for(size, by_tasks=by_tasks), {})
    with ExitStack() as stack:
        folder = stack.enter_context(pieces.folder(rewrite.files.path))
        files = [
            _split(stack.enter_context(PieceFiles(folder)), composition, cuts, n) for n in range(len(composition.rows))
        ]
        numbers = pa.array(cuts.piece_of(composition.touched.column(cuts.column)))
        keys = (composition.touched.filter(pc.equal(numbers, pa.scalar(number))) for number in range(cuts.pieces))
        some = [Piece(*each) for each in zip(keys, zip(*files, strict=True), strict=True) if each[0].num_rows]
        schemas = [rows.table.schema for rows in composition.rows]
        work = compose_piece_of(_alone(composition), rewrite, schemas)
        made = tasks.in_tasks(session, some, work) if by_tasks else [*work(some)]
    for added, _ in made:
        rewrite.adopt(added)
    return first_of_each(each for _, several in made for each in several)


def _split(files: PieceFiles, composition: Composition, cuts: Cuts, number: int) -> list[str]:
    """Write the rows of a member into the files of the pieces, and return these."""
    column = composition.rows[number].parent[list(composition.key).index(cuts.column)]
    parts = (composition.read(number, file) for of, file in composition.files if of == number)
    for rows in pieces.gathered(parts):
        files.write(rows, cuts.piece_of(rows.column(column)))
    return files.closed(cuts.pieces)


def _alone(composition: Composition) -> Composition:
    """Return what tasks need to know: neither keys nor rows, which come with a piece."""
    nothing = composition.touched.schema.empty_table()
    return Composition(composition.key, composition.columns, composition.children, nothing, ())


def compose_piece_of(
    composition: Composition, commit: Rewrite, schemas: Sequence[pa.Schema]
) -> "Callable[[Iterable[Piece]], Iterator[tuple[list[DataFile], list[SeveralChildren]]]]":
    """Return what a task does: compose pieces, and yield for each the files that it wrote, and `find_several`.

    Args:
        composition: what documents are composed of.
        commit: the commit in the making that gets the files.
        schemas: of the rows of the root, and of each child.
    """
    path, shape = commit.files.path, commit.shape

    def compose_some(some: Iterable[Piece]) -> Iterator[tuple[list[DataFile], list[SeveralChildren]]]:
        for piece in some:
            rewrite = Rewrite.of(path, composition.key, shape)
            members = [pieces.read(file, schema) for file, schema in zip(piece.rows, schemas, strict=True)]
            documents = composition.composed(piece.touched, members)
            rewrite.add(arrow_tables.conform(documents, rewrite.files.schema))
            yield rewrite.added, composition.find_several(documents)

    return compose_some
