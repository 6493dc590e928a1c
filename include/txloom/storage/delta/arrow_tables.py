"""Read, compute and append small batches without Spark jobs, by DataFusion, Arrow functions and delta-rs.

A Spark query takes hundreds of milliseconds however few rows it has, so that a cycle over many tables would spend its
time planning. Releases and merges of up to LOCAL_ROWS rows run in this process; Spark spreads larger ones out over
tasks, which call the same Arrow functions.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.arrow_types import AnyArray
from txloom.storage.delta.committing import commit_once
from txloom.storage.delta.read_session import answer, opened, running
from txloom.storage.delta.sql import sql_name

LOCAL_ROWS = int(os.environ.get("TXLOOM_LOCAL_ROWS", "50000"))
"""The most rows of a release or a merge that are computed in the driver's process."""


def select(path: str, sql: str, version: int | None = None) -> pa.Table:
    """Run a query on one Delta table.

    Args:
        path: the table's path.
        sql: the query, in which the table is named `t`.
        version: the version to read; None: the newest.

    Returns:
        the rows, with texts, binaries and lists in Arrow's plain types (`plain`); a table without columns where there
        is no Delta table at the path.
    """
    try:
        table = opened(path, version)
    except TableNotFoundError:
        return pa.table({})
    return ask({"t": table}, sql)


def ask(tables: Mapping[str, DeltaTable], sql: str) -> pa.Table:
    """Run a query on opened Delta tables, by the names that the SQL gives them; the rows are those of `select`."""
    return plain_rows(answer(tables, sql))


def first(tables: Mapping[str, DeltaTable], sql: str, most: int) -> pa.Table:
    """Run a query like `ask`, and return at most `most` rows, in the order of the SQL; no further batch is read."""
    batches_read = list[pa.Table]()
    for rows in batches(tables, sql):
        batches_read.append(rows)
        if sum(each.num_rows for each in batches_read) >= most:
            break
    return pa.concat_tables(batches_read).slice(0, most) if batches_read else pa.table({})


def matching(path: str, sql: str, column: str, values: "Sequence[int] | pa.Array[Any]") -> pa.Table:
    """Return the rows of a query on one Delta table, named `t`, whose value in a column is one of some.

    Integers that come as no array are 64-bit ones.

    Each batch is filtered as it is read, so that only matching rows are held in memory. Without a row of the query, the
    result has no columns.
    """
    parts = batches({"t": opened(path)}, sql)
    value_set = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())
    chosen = [rows.filter(pc.is_in(rows.column(column), value_set)) for rows in parts]
    return pa.concat_tables(chosen) if chosen else pa.table({})


def batches(tables: Mapping[str, DeltaTable], sql: str) -> Iterator[pa.Table]:
    """Start a query like `ask` at once, and return its rows batch by batch, as they are read."""
    return (plain_rows(pa.table(batch)) for batch in running(tables, sql))


def rows_of(path: str, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows of a table in a schema; columns that it lacks are null, and without a table there is no row.

    where: a SQL condition.
    """
    return pa.concat_tables([schema.empty_table(), *parts_of(path, schema, where)])


def parts_of(path: str, schema: pa.Schema, where: str = "true", version: int | None = None) -> Iterator[pa.Table]:
    """Return the rows of `rows_of` part by part, as they are read; version: that is read; None: the newest."""
    try:
        table = opened(path, version)
    except TableNotFoundError:
        return iter(())
    known = schema_of(table).names
    columns = ", ".join(sql_name(name) for name in schema.names if name in known)
    read = batches({"t": table}, f"select {columns} from t where {where}")
    return (conform(rows, schema) for rows in read)


def schema_of(table: DeltaTable) -> pa.Schema:
    """Return the schema of an opened Delta table, in the types that delta-rs reads it in."""
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]  # anything with __arrow_c_schema__ is taken


def plain_rows(rows: pa.Table) -> pa.Table:
    """Return rows in the plain form of their types (`plain`)."""
    return rows.cast(plain_schema(rows.schema))


def plain(kind: pa.DataType) -> pa.DataType:
    """Return a type with plain text, binary and lists in place of view and large types, also inside nested types."""
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    return kind


def append_once(table: pa.Table, path: str, write_id: str, number: int) -> int | None:
    """Append rows to a Delta table, in its schema, unless a commit has this number or a higher one for the write id.

    Args:
        table: the rows; columns are brought into the order and types of the Delta table (`conform`).
        path: the Delta table's path.
        write_id: Delta's txnAppId.
        number: Delta's txnVersion.

    Returns:
        the version that the rows made; a repeated call returns None and changes nothing.

    Raises:
        LeaseTaken: another run holds the lease.
        WriteConflict: other commits came first in every attempt.
    """

    def write(target: DeltaTable, properties: CommitProperties) -> None:
        rows = conform(table, schema_of(target))
        write_deltalake(target, rows, mode="append", commit_properties=properties)

    return commit_once(path, (write_id, number), write)


def gathered(
    parts: Iterable[pa.Table], least: int, size: Callable[[pa.Table], int] = lambda part: part.num_rows
) -> Iterator[pa.Table]:
    """Yield tables joined until they have at least a size, by default so many rows; the last one apart.

    >>> [rows.num_rows for rows in gathered([pa.table({"n": [1, 2]})] * 5, 4)]
    [4, 4, 2]
    """
    held, reached = list[pa.Table](), 0
    for part in parts:
        held.append(part)
        reached += size(part)
        if reached >= least:
            yield pa.concat_tables(held)
            held, reached = [], 0
    if held:
        yield pa.concat_tables(held)


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables in one table, with the columns of all.

    A list column that a part lacks is filled with empty lists, any other one with nulls (`conform`).
    """
    schema = pa.unify_schemas([part.schema for part in parts])
    return pa.concat_tables([part if part.schema.equals(schema) else conform(part, schema) for part in parts])


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in a schema's order of columns, and in the plain form of its types.

    A list column that the rows lack is filled with empty lists, any other one with nulls; columns that the schema lacks
    are left out. Raises ArrowInvalid where a value does not fit its type.
    """
    columns: list[pa.Array[Any]] = []
    for field in schema:
        kind = plain(field.type)
        if field.name in table.column_names:
            columns.append(reorder(table.column(field.name).combine_chunks(), kind))
        elif pa.types.is_list(kind):
            offsets = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows + 1)
            columns.append(pa.ListArray.from_arrays(offsets, pa.nulls(0, kind.value_type), type=kind))
        else:
            nulls: pa.Array[Any] = pa.nulls(table.num_rows, kind)  # type: ignore[call-overload]  # of any type
            columns.append(nulls)
    return pa.Table.from_arrays(columns, schema=plain_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the plain form of its types (`plain`), without the fields' metadata."""
    return pa.schema([pa.field(f.name, plain(f.type)) for f in schema])


def reorder(array: "pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    """Cast an array to a type; fields of structs and of lists of structs are matched by name, lacking ones are null."""
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = {array.type.field(i).name for i in range(array.type.num_fields)}
        fields = [
            reorder(pc.struct_field(array, f.name), f.type) if f.name in names else pa.nulls(len(array), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        if not len(array):
            # An empty slice has an offset that may lie beyond the values that the new array gets here.
            nothing: pa.Array[Any] = pa.nulls(0, kind)
            return nothing
        lists = cast("pa.ListArray[Any]", array)
        first, last = lists.offsets[0], lists.offsets[-1]
        values = reorder(lists.values.slice(first.as_py(), last.as_py() - first.as_py()), kind.value_type)
        return pa.ListArray.from_arrays(pc.subtract(lists.offsets, first), values, type=kind, mask=lists.is_null())
    return array.cast(kind)


def with_items(lists: AnyArray, items: AnyArray, kept: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> AnyArray:
    """Return lists with other items; kept: which of their items these are."""
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    offsets = pa.array(np.concatenate([[0], np.cumsum(kept)])[ends].astype(np.int32))
    made: AnyArray = pa.ListArray.from_arrays(offsets, items, mask=lists.is_null())
    return made
