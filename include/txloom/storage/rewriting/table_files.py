"""The data files of one version of a Delta table: which there are, the bounds of their values, their rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from txloom.arrow_types import AnyArray
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.fencing import FENCE
from txloom.storage.stores.file_systems import filesystem_of

PLAIN_PATH = re.compile(r"[A-Za-z0-9_.=/-]+")


@dataclass(frozen=True)
class TableFile:
    """A data file of a table.

    Args:
        path: its path in the table's folder, as the log has it.
        size: in bytes.
        partition: the value of each partition column.
        bounds: by column with statistics whose type has an order (`has_order`), the lowest and the highest value:
            texts, and numbers of anything else (`comparable`). The values may lie closer together.
        kept: which of its rows are still there; None: all.
    """

    path: str
    size: int
    partition: Mapping[str, Any]
    bounds: Mapping[str, tuple[Any, Any]]
    kept: pa.BooleanArray | None = None

    @property
    def can_be_removed(self) -> bool:
        """Return whether a commit by delta-rs can name the file so that it is removed.

        It names no deletion vector, and a path with other characters than these otherwise than Spark does.
        """
        return self.kept is None and PLAIN_PATH.fullmatch(self.path) is not None


@dataclass(frozen=True)
class TableFiles:
    """The files of one version of a table.

    Args:
        table: the opened table.
        path: its path.
        schema: its columns, in Arrow's plain types.
    """

    table: DeltaTable
    path: str
    schema: pa.Schema

    @classmethod
    def open(cls, path: str) -> "TableFiles":
        """Open the newest version of a table to write into it.

        Raises:
            LeaseTaken: a later run stamped the table.
            TableNotFoundError: there is no table.
        """
        table = FENCE.opened(path)
        return cls(table, path, arrow_tables.plain_schema(arrow_tables.schema_of(table)))

    @cached_property
    def partition_columns(self) -> Sequence[str]:
        """The columns that are not in the files."""
        return self.table.metadata().partition_columns

    @cached_property
    def files(self) -> Sequence[TableFile]:
        """Its data files."""
        return _files(self.table, self.schema)

    def opened(self, file: TableFile) -> pq.ParquetFile:
        """Open a file; times that another program wrote as 96 bits are read as microseconds."""
        filesystem, folder = filesystem_of(self.path)
        stream = filesystem.open_input_file(f"{folder}/{unquote(file.path)}")
        return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")

    def read(self, file: TableFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a file that are still there; columns: only these. A column that it lacks is null."""
        chosen_schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        with self.opened(file) as opened:
            stored = set(opened.schema_arrow.names)
            rows = opened.read([field.name for field in chosen_schema if field.name in stored])
            count = opened.metadata.num_rows
        rows = self.conformed(rows, file, chosen_schema, count)
        return rows if file.kept is None else rows.filter(file.kept)

    def chosen(
        self, file: TableFile, columns: Sequence[str], choose: Callable[[pa.Table], pa.BooleanArray]
    ) -> pa.Table:
        """Return some rows of a file that are still there; row groups without one of them are not read whole.

        columns: by which the rows are chosen. choose: says which, of rows with these columns.
        """
        deciding = pa.schema([self.schema.field(name) for name in columns])
        with self.opened(file) as opened:
            stored, about = set(opened.schema_arrow.names), opened.metadata
            read = opened.read([name for name in deciding.names if name in stored])
            is_chosen = choose(self.conformed(read, file, deciding, about.num_rows))
            if file.kept is not None:
                is_chosen = pc.and_(is_chosen, file.kept)
            sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
            starts = np.cumsum([0, *sizes[:-1]]).tolist()
            parts = [is_chosen.slice(start, size) for start, size in zip(starts, sizes, strict=True)]
            groups = [number for number, part in enumerate(parts) if part.true_count]
            if not groups:
                return self.schema.empty_table()
            rows = opened.read_row_groups(groups, [name for name in self.schema.names if name in stored])
        count = sum(sizes[number] for number in groups)
        rows = self.conformed(rows, file, self.schema, count)
        return rows.filter(pa.chunked_array([parts[number] for number in groups]))

    def parts(self, file: TableFile) -> Iterator[pa.Table]:
        """Yield the rows of a file that are still there, a row group at a time, in their order."""
        start = 0
        with self.opened(file) as opened:
            stored = [name for name in self.schema.names if name in opened.schema_arrow.names]
            for number in range(opened.num_row_groups):
                count = opened.metadata.row_group(number).num_rows
                rows = self.conformed(opened.read_row_group(number, stored), file, self.schema, count)
                yield rows if file.kept is None else rows.filter(file.kept.slice(start, count))
                start += count

    def conformed(self, rows: pa.Table, file: TableFile, schema: pa.Schema, count: int) -> pa.Table:
        """Return rows of a file in a schema: with the values of its partition, and null where the file has no column.

        count: how many rows there are, which a table without columns does not know.
        """
        arrays: list[AnyArray] = []
        for field in schema:
            if field.name in rows.column_names:
                arrays.append(arrow_tables.reorder(rows.column(field.name).combine_chunks(), field.type))
            elif field.name in file.partition and (value := file.partition[field.name]) is not None:
                arrays.append(pa.repeat(pa.scalar(value, field.type), count))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.Table.from_arrays(arrays, schema=schema)


class NoFiles(TableFiles):
    """A table of which every row is about to be replaced, in the schema that it gets then."""

    @classmethod
    def of(cls, path: str, schema: pa.Schema) -> "NoFiles":
        """Open the newest version of a table to replace its rows; schema: the columns that it gets.

        Errors are those of `TableFiles.open`.
        """
        return cls(FENCE.opened(path), path, arrow_tables.plain_schema(schema))

    @property
    def files(self) -> Sequence[TableFile]:
        """No files."""
        return ()


def has_order(kind: pa.DataType) -> bool:
    """Return whether files have exact bounds of the values of a type."""
    is_number = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return is_number or pa.types.is_string(kind)


def comparable(values: AnyArray) -> "list[str] | npt.NDArray[np.int64]":
    """Return values of a type with an order as bounds have them: texts, else integers, of times microseconds."""
    if pa.types.is_string(values.type):
        return cast("list[str]", values.to_pylist())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))
    whole = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    numbers: npt.NDArray[np.int64] = whole.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _files(table: DeltaTable, schema: pa.Schema) -> list[TableFile]:
    actions = arrow_tables.plain_rows(pa.table(table.get_add_actions(flatten=True)))
    partitioned = table.metadata().partition_columns
    partitions = {name: actions.column(f"partition.{name}").to_pylist() for name in partitioned}
    bounds = {
        field.name: _bounds(actions, field.name)
        for field in schema
        if has_order(field.type) and f"min.{field.name}" in actions.column_names
    }
    kept = _kept(table)
    paths = cast("list[str]", actions.column("path").to_pylist())
    sizes = cast("list[int]", actions.column("size_bytes").to_pylist())
    return [
        TableFile(
            path,
            size,
            {name: values[number] for name, values in partitions.items()},
            {name: pairs[number] for name, pairs in bounds.items() if number in pairs},
            kept.get(path),
        )
        for number, (path, size) in enumerate(zip(paths, sizes, strict=True))
    ]


def _bounds(actions: pa.Table, column: str) -> dict[int, tuple[Any, Any]]:
    """Return by number of a file the bounds of a column, where the file has both."""
    lows, highs = (actions.column(f"{side}.{column}").combine_chunks() for side in ("min", "max"))
    known = np.flatnonzero(pc.and_(pc.is_valid(lows), pc.is_valid(highs)).to_numpy(zero_copy_only=False))
    places = pa.array(known, pa.int64())
    pairs = zip(comparable(lows.take(places)), comparable(highs.take(places)), strict=True)
    return dict(zip(known.tolist(), pairs, strict=True))


def _kept(table: DeltaTable) -> dict[str, pa.BooleanArray]:
    """Return by file which of its rows are still there, for files with a deletion vector."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    vectors = pa.table(table.deletion_vectors())
    root = table.table_uri.rstrip("/") + "/"
    selections = vectors.column("selection_vector").combine_chunks()
    # A copy of each, because a slice would be sent to a task with the vectors of all files.
    return {
        name.removeprefix(root): pa.array(selections[number].values.to_numpy(zero_copy_only=False))
        for number, name in enumerate(cast("list[str]", vectors.column("filepath").to_pylist()))
    }
