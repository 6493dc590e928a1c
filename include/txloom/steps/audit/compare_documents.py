"""Compare a published document table with the documents that the rows of its members make, at the versions of a cut.

The rows are those that an audit compares with the source. Both sides are read part by part. What is more than one piece
(`storage.rewriting.pieces`) is cut by the key of the documents, and compared piece by piece by the same function.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from txloom.config.models.pipeline import Aggregate, Child, Pipeline
from txloom.config.problems import counted
from txloom.current.documents.compose import STAMP, documents
from txloom.current.equality.canonical_texts import canonical, readable
from txloom.current.row_hashes import row_hashes
from txloom.errors import CutReplaced
from txloom.steps.audit.compare_table import CHANGED, EXTRA, MISSING, Difference
from txloom.storage.checks.audited_rows import REPEATED
from txloom.storage.declarations.shown_tables import ShownTables
from txloom.storage.delta import arrow_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.pieces import PieceFiles
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, member_of, row_tables

CSN = STAMP[0]
SAMPLE = 100_000
"""Keys by which documents are cut into pieces."""


@dataclass
class ComparedDocuments:
    """What is known of a document table.

    Args:
        rows: how many documents the members' rows make.
        differing: how many documents differ.
        differences: the first of them.
        gone: why the published documents cannot be read, so that all of them count as missing; "": they were read.
        unknown: why nothing can be said of them; "": it can.
    """

    rows: int = 0
    differing: int = 0
    differences: list[Difference] = field(default_factory=list)
    gone: str = ""
    unknown: str = ""


@dataclass(frozen=True)
class _Side:
    """A table whose rows are read: the documents, or a member's rows.

    Args:
        path: of the table.
        version: that is read; None: it is gone, and has no row.
        schema: the columns that are read.
        parent: the columns with the key of the document that a row belongs to.
    """

    path: str
    version: int | None
    schema: pa.Schema
    parent: Sequence[str]

    def rows(self, *, keys_only: bool = False) -> Iterator[pa.Table]:
        """Read the rows part by part; keys_only: of the columns only `parent`."""
        if self.version is None:
            return iter(())
        schema = pa.schema([self.schema.field(name) for name in self.parent]) if keys_only else self.schema
        return pieces.gathered(arrow_tables.parts_of(self.path, schema, version=self.version))


@dataclass(frozen=True)
class DocumentTable:
    """A document table and its members, at the versions of a cut.

    Args:
        paths: where the tables are.
        pipeline: the declaration.
        aggregate: the documents.
        cut: whose versions are read; somebody holds it.
        listed: the most differences that are described.
    """

    paths: TablePaths
    pipeline: Pipeline
    aggregate: Aggregate
    cut: Cut
    listed: int

    def compare(self) -> ComparedDocuments:
        """Compare the published documents with those that the members' rows make."""
        if problem := self._shown.problem_of_documents(self.aggregate):
            return ComparedDocuments(unknown=problem)
        gone, members = "", [row_table.current for row_table in self._members]
        try:
            reader_holds.refuse_replaced(self.paths, self.cut, members)
        except CutReplaced as error:
            return ComparedDocuments(unknown=str(error))
        try:
            reader_holds.refuse_replaced(self.paths, self.cut, [self.aggregate.current])
        except CutReplaced as error:
            gone = str(error)
        seen = ComparedDocuments(gone=gone)
        for parts in self._pieces(self._sides(is_gone=bool(gone))):
            self._compare(seen, *parts)
        return seen

    @cached_property
    def _shown(self) -> ShownTables:
        return ShownTables(self.pipeline, self.paths, self.cut)

    @cached_property
    def _members(self) -> list[RowTable]:
        known = {row_table.table.name: row_table for row_table in row_tables(self.pipeline)}
        return [known[name] for name, _ in schemas.members_of(self.aggregate)]

    @cached_property
    def _versions(self) -> Mapping[str, int | None]:
        tables = [self.aggregate.current, *(row_table.current for row_table in self._members)]
        return {name: self._shown.version(name) for name in tables}

    @cached_property
    def _key(self) -> Sequence[str]:
        return self.pipeline.table(self.aggregate.root).key

    @cached_property
    def _fields(self) -> pa.Schema:
        return pa.schema(schemas.document_fields(self.pipeline, self.aggregate))

    def _sides(self, *, is_gone: bool) -> list[_Side]:
        """Return the documents, then the root's rows, then those of each child."""
        name = self.aggregate.current
        read = self._fields.append(pa.field(CSN, pa.int64()))
        sides = [_Side(self.paths.table(name), None if is_gone else self._versions[name], read, self._key)]
        parents = [self._key, *(child.parent_key for child in self.aggregate.children)]
        for row_table, parent in zip(self._members, parents, strict=True):
            path, version = self.paths.table(row_table.current), self._versions[row_table.current]
            sides.append(_Side(path, version, schemas.current_schema(row_table.table), parent))
        return sides

    def _pieces(self, sides: Sequence[_Side]) -> Iterator[list[pa.Table]]:
        """Yield the rows of all sides at once where they are few, else of some documents after the other."""
        held, size, count = [[side.schema.empty_table()] for side in sides], 0, 0
        for number, side in enumerate(sides):
            for rows in side.rows():
                held[number].append(rows)
                size, count = size + rows.nbytes, count + rows.num_rows
                if size > pieces.AT_ONCE_BYTES:
                    del held
                    yield from self._in_pieces(sides, size // count)
                    return
        yield [pa.concat_tables(parts) for parts in held]

    def _in_pieces(self, sides: Sequence[_Side], row_bytes: int) -> Iterator[list[pa.Table]]:
        keys = (rows.rename_columns(list(self._key)) for side in sides for rows in side.rows(keys_only=True))
        sample, count = pieces.sampled(keys, SAMPLE)
        cuts = pieces.cuts_of(sample, pieces.number_for(count * row_bytes, by_tasks=False), {})
        place = list(self._key).index(cuts.column)
        with ExitStack() as stack:
            # Not the folder of the tables' pieces: a merge may be working in it.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="txloom-"))
            files = list[list[str]]()
            for side in sides:
                written = stack.enter_context(PieceFiles(folder))
                for rows in side.rows():
                    written.write(rows, cuts.piece_of(rows.column(side.parent[place])))
                files.append(written.closed(cuts.pieces))
            for some in zip(*files, strict=True):
                yield [pieces.read(file, side.schema) for file, side in zip(some, sides, strict=True)]

    def _compare(self, seen: ComparedDocuments, live: pa.Table, root: pa.Table, *children: pa.Table) -> None:
        """Add what differs in some documents: the published ones, and the rows of all members that belong to them."""
        members = [member_of(self.pipeline.table(child.table), child) for child in self.aggregate.children]
        columns = self.pipeline.table(self.aggregate.root).column_names
        composed = documents(root, list(zip(members, children, strict=True)), self._key, columns)
        composed = arrow_tables.conform(composed, self._fields)
        differing = self._differing(live, composed)
        seen.rows += composed.num_rows
        seen.differing += len(differing)
        for kind, row, place in differing[: max(0, self.listed - len(seen.differences))]:
            if kind == CHANGED:
                seen.differences.append(self._changed(live, row, composed, place))
            else:
                rows, number = (composed, place) if kind == MISSING else (live, row)
                seen.differences.append(self._named(kind, rows, number))

    def _differing(self, live: pa.Table, composed: pa.Table) -> list[tuple[str, int, int]]:
        """Return what is wrong with documents, with the place of each in the table and among those of its rows."""
        names = self._fields.names
        ours, theirs = (row_hashes(rows, self._key).to_pylist() for rows in (live, composed))
        values, made = (row_hashes(rows, names).to_pylist() for rows in (live, composed))
        places, known = {key: row for row, key in enumerate(theirs)}, dict[Any, int]()
        differing: list[tuple[str, int, int]] = []
        for row, key in enumerate(ours):
            place = places.get(key)
            if key in known:
                differing.append((REPEATED, row, -1))
            elif place is None:
                differing.append((EXTRA, row, -1))
            elif values[row] != made[place]:
                differing.append((CHANGED, row, place))
            known[key] = row
        differing += [(MISSING, -1, place) for key, place in places.items() if key not in known]
        return differing

    def _named(self, kind: str, rows: pa.Table, row: int) -> Difference:
        """Describe a document that only one side has, or that the lake has several times."""
        csn = None if kind == MISSING else rows.column(CSN)[row].as_py()
        values = {"": ("several documents", "1 document")} if kind == REPEATED else {}
        return Difference(self._key_of(rows, row), kind, values, csn)

    def _changed(self, live: pa.Table, row: int, composed: pa.Table, made: int) -> Difference:
        """Describe a document that differs from the one that its rows make."""
        one, other = live.slice(row, 1), composed.slice(made, 1)
        values = dict[str, tuple[str | None, str | None]]()
        for name in self._fields.names:
            if row_hashes(one, [name]) != row_hashes(other, [name]):
                ours, theirs = self._text(name, one), self._text(name, other)
                values[name] = ours, f"{theirs}, with other values" if ours == theirs else theirs
        return Difference(self._key_of(live, row), CHANGED, values, one.column(CSN)[0].as_py())

    def _key_of(self, rows: pa.Table, row: int) -> Mapping[str, str | None]:
        one = rows.slice(row, 1)
        return {name: self._text(name, one) for name in self._key}

    def _text(self, name: str, one: pa.Table) -> str | None:
        """Return the text of a field of one document; of a child how many rows it has, whose values may be secret."""
        child = next((child for child in self.aggregate.children if child.as_ == name), None)
        if child is not None:
            return _of_child(child, one.column(name)[0].as_py())
        kind = self.pipeline.table(self.aggregate.root).column(name).type
        return readable(canonical(one.column(name).combine_chunks(), kind)[0].as_py(), kind)


def _of_child(child: Child, value: Any) -> str | None:
    if value is None:
        return None
    return counted(len(value), "row") if child.relation == "many" else "a row"
