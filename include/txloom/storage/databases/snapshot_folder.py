"""A folder of files with whole tables as of one csn, read as an audit reads a database.

The folder is one that could be loaded (`storage.snapshots.snapshot_files`), or the extracts of a date. Its files are
read batch by batch: of each row the key and a digest are kept, as of the lake's rows, and nothing else.
"""

import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.current.equality.canonical_texts import Form
from txloom.errors import ConfigurationError
from txloom.events.images.reader import ImageReader
from txloom.events.values.scalars import arrow_type
from txloom.storage.databases.audit_source import Handle, Key, Texts
from txloom.storage.snapshots import snapshot_files
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.targets.lake_digests import LakeRows, audited_columns, in_order, texts_of

DATED = re.compile(r"(?:.*/)?([0-9]{4})-([0-9]{2})-([0-9]{2})/?")


@dataclass(frozen=True)
class Moment:
    """Where the rows of a folder lie in the commit order; at_most: their csn."""

    at_most: int
    at: datetime

    @property
    def unseen(self) -> str:
        """The SQL condition of changes that the rows do not have."""
        return f"_txloom_csn > {self.at_most}"


@dataclass(frozen=True)
class Relation:
    """The rows of a table in the folder."""

    table: Table
    files: Sequence[SnapshotFile]
    keys: LakeRows
    """Their keys in order, and their digests."""
    forms: Mapping[str, Form] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    undeclared: Sequence[str] = ()

    @property
    def columns(self) -> list[Column]:
        """The declared columns, the key's first."""
        return audited_columns(self.table)

    def within(self, low: Handle, high: Handle) -> LakeRows:
        """Return the keys of a range; an empty bound is none."""
        start = self._place(low) if low else 0
        end = self._place(high) if high else self.keys.keys.num_rows
        return replace(self.keys, keys=self.keys.keys.slice(start, end - start), digests=self.keys.digests[start:end])

    def _place(self, bound: Handle) -> int:
        keys = self.keys.keys
        return bisect_left(
            range(keys.num_rows), bound, key=lambda row: tuple(keys.slice(row, 1).to_pylist()[0].values())
        )


class SnapshotFolder:
    """A folder of extracted tables.

    Args:
        pipeline: that declares the tables.
        path: `<path>/<table>/` has the rows of each table.
        csn: as of which they are; None: of extracts of a date, the date's.

    Raises:
        SourceUnavailable: there is no such folder.
        ConfigurationError: it holds something else, or its csn is unknown.
    """

    def __init__(self, pipeline: Pipeline, path: str, csn: int | None) -> None:
        """List the folder; no row is read yet."""
        self.path, self.rows, self.seconds = path, 0, 0.0
        self.tables = snapshot_files.tables_of(pipeline, path)
        self.as_of: int | None = _csn_of_date(pipeline, path) if csn is None else csn
        if self.as_of is None:
            raise ConfigurationError(f"{path}: as of which csn are its rows? Say --csn N")

    def begin(self, tables: Sequence[Table] = ()) -> Moment:  # noqa: ARG002 (files do not change)
        """Return the moment as of which the rows are."""
        assert self.as_of is not None
        return Moment(self.as_of, datetime.now(UTC))

    def mark(self) -> None:
        """Do nothing: files have no log."""

    def shows(self, moment: Moment, csn: int, tables: Sequence[Table]) -> bool:  # noqa: ARG002 (one csn for all)
        """Return whether a lake that shows tables up to a csn shows all that the files have of them."""
        return csn >= moment.at_most

    @contextmanager
    def reading(self, table: Table) -> Iterator[Relation]:
        """Return a table's rows for a block; errors are those of `relation`."""
        yield self.relation(table)

    def relation(self, table: Table) -> Relation:
        """Read keys and digests of a table's rows.

        Raises ConfigurationError where the folder does not have the table or one of its columns, with file and row
        where a row cannot be read, or its key is null or stands twice.
        """
        if table.name not in self.tables:
            known = ", ".join(sorted(self.tables))
            raise ConfigurationError(f"{table.name}: {self.path} has no folder of it; it has {known}")
        files, begun = self.tables[table.name], time.monotonic()
        columns = audited_columns(table)
        keys = in_order(_read(table, files), columns, len(table.key))
        _refuse_repeated(table, keys.keys, self.path)
        self.rows += keys.keys.num_rows
        self.seconds += time.monotonic() - begun
        return Relation(table, files, keys)

    def total(self, relation: Relation, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""
        return relation.within(low, high).summed

    def listed(self, relation: Relation, low: Handle, high: Handle) -> dict[Key, tuple[Handle, int]]:
        """Return by canonical key the key of a range, and the sum of the digests of all rows that have it."""
        return relation.within(low, high).by_key()

    def keyless(self, relation: Relation) -> list[Texts]:  # noqa: ARG002 (a key without a value is refused)
        """Return nothing: a row whose key is null in part cannot be read."""
        return []

    def rows_of(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, list[Texts]]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""
        begun, columns, width = time.monotonic(), relation.columns, len(relation.table.key)
        sought = zip(*keys, strict=True)
        arrays = {c.name: pa.array(values, arrow_type(c.type)) for c, values in zip(columns, sought, strict=False)}
        texts = texts_of(pa.table(arrays), columns[:width])
        chosen = set(zip(*(column.to_pylist() for column in texts), strict=True))
        there = dict[Key, list[Texts]]()
        for rows in _read(relation.table, relation.files):
            (first,) = texts_of(rows, columns[:1])
            some = rows.filter(pc.is_in(first, texts[0]))
            for row in zip(*(column.to_pylist() for column in texts_of(some, columns)), strict=True):
                if row[:width] in chosen:
                    there.setdefault(row[:width], []).append(row)
            self.rows += some.num_rows
        self.seconds += time.monotonic() - begun
        return there


def _csn_of_date(pipeline: Pipeline, path: str) -> int | None:
    """Return the csn of extracts of a date, which is the date as a number; None for any other folder."""
    match = DATED.fullmatch(path)
    return int("".join(match.groups())) if match and pipeline.source.format == "snapshots" else None


def _read(table: Table, files: Sequence[SnapshotFile]) -> Iterator[pa.Table]:
    """Yield the rows of files in the declared types, in batches."""
    reader, there, count = ImageReader(table), set[str](), 0
    for file in files:
        for first, images in snapshot_files.images(file, table):
            # As an update the reader also says which columns a row does not have.
            typed = reader.read([b'{"op_type":"U","after":' + image + b"}" for image in images])
            bad = pc.index(pc.is_valid(typed.column("problem")), True).as_py()
            if bad >= 0:
                raise ConfigurationError(f"{file.path}: row {first + bad}: {typed.column('problem')[bad].as_py()}")
            there |= set(table.column_names) - _lacking(typed)
            count += len(images)
            after = typed.column("after").combine_chunks()
            yield pa.table({name: pc.struct_field(after, name) for name in table.column_names})
    if count and (missing := [name for name in table.column_names if name not in there]):
        raise ConfigurationError(f"{table.name}: no row of its files has column {', '.join(missing)}")


def _lacking(typed: pa.Table) -> set[str]:
    """Return the columns that no row of a batch has."""
    unchanged: AnyArray = pc.list_flatten(typed.column("unchanged"))
    counts: AnyArray = pc.value_counts(unchanged)
    counted = cast("list[dict[str, Any]]", counts.to_pylist())
    return {each["values"] for each in counted if each["counts"] == typed.num_rows}


def _refuse_repeated(table: Table, keys: pa.Table, path: str) -> None:
    """Raise ConfigurationError for a key that stands twice; keys: in order."""
    if keys.num_rows < 2:
        return
    one, other = keys.slice(0, keys.num_rows - 1), keys.slice(1)
    equal = [pc.equal(one.column(name), other.column(name)) for name in keys.column_names]
    repeated: Any = equal[0]
    for each in equal[1:]:
        repeated = pc.and_(repeated, each)
    if (at := pc.index(repeated, True).as_py()) >= 0:
        shown = ", ".join(f"{name} {value}" for name, value in keys.slice(at, 1).to_pylist()[0].items())
        raise ConfigurationError(f"{path}: the key {shown} of {table.name} stands in it twice")
