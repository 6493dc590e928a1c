"""Small batches without Spark jobs: read with DataFusion, compute in Arrow, append through delta-rs.

A Spark query costs hundreds of milliseconds however few rows it has; a cycle over many tables would spend its time
planning. Up to LOCAL_ROWS rows the same rules run here, on the same Arrow functions; above, Spark spreads them out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.storage.delta.commits import commit_once
from txloom.storage.delta.read_session import answer, opened, running

LOCAL_ROWS = int(os.environ.get("TXLOOM_LOCAL_ROWS", "50000"))
"""Up to so many rows a release or a merge is computed in the driver's process."""


def select(path: str, sql: str, version: int | None = None) -> pa.Table:
    """Ask one Delta table, named `t` in the SQL; strings and lists come in Arrow's plain types.

    version: the table as it was then, instead of as it is.
    """
    try:
        table = opened(path, version)
    except TableNotFoundError:
        return pa.table({})
    return ask({"t": table}, sql)


def ask(tables: Mapping[str, DeltaTable], sql: str) -> pa.Table:
    """Ask opened Delta tables under the names that the SQL gives them; like `select`."""
    return _plain_rows(answer(tables, sql))


def first(tables: Mapping[str, DeltaTable], sql: str, most: int) -> pa.Table:
    """Ask like `ask` and stop after so many rows, in the order that the SQL gives them."""
    batches_read = list[pa.Table]()
    for rows in batches(tables, sql):
        batches_read.append(rows)
        if sum(each.num_rows for each in batches_read) >= most:
            break
    return pa.concat_tables(batches_read).slice(0, most) if batches_read else pa.table({})


def matching(path: str, sql: str, column: str, chosen: Sequence[int]) -> pa.Table:
    """Ask one Delta table for rows with a wanted number in a column; what is not wanted is let go batch by batch."""
    values = pa.array(chosen, pa.int64())
    parts = batches({"t": DeltaTable(path)}, sql)
    return pa.concat_tables([rows.filter(pc.is_in(rows.column(column), values)) for rows in parts])


def batches(tables: Mapping[str, DeltaTable], sql: str) -> Iterator[pa.Table]:
    """Ask opened Delta tables like `ask`, at once, and return the answer batch by batch."""
    return (_plain_rows(pa.table(batch)) for batch in running(tables, sql))


def schema_of(table: DeltaTable) -> pa.Schema:
    """Return the schema of an opened Delta table, in the types that delta-rs reads it in."""
    return pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]  # anything with __arrow_c_schema__ is taken


def _plain_rows(rows: pa.Table) -> pa.Table:
    return rows.cast(plain_schema(rows.schema))


def plain(kind: pa.DataType) -> pa.DataType:
    """Replace view and large types by the plain ones that all readers know."""
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


def append_once(table: pa.Table, path: str, write_id: str, number: int) -> bool:
    """Append rows to a Delta table unless this txnVersion was written before; say whether it was written now."""

    def write(target: DeltaTable, properties: CommitProperties) -> None:
        rows = conform(table, schema_of(target))
        write_deltalake(target, rows, mode="append", commit_properties=properties)

    return commit_once(path, (write_id, number), write)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring a table into a schema's order and types; a missing list is empty, any other missing column null."""
    columns: list[pa.Array[Any]] = []
    for field in schema:
        kind = plain(field.type)
        if field.name in table.column_names:
            columns.append(reorder(table.column(field.name).combine_chunks(), kind))
        elif pa.types.is_list(kind):
            columns.append(pa.array([[]] * table.num_rows, kind))
        else:
            nulls: pa.Array[Any] = pa.nulls(table.num_rows, kind)  # type: ignore[call-overload]  # of any type
            columns.append(nulls)
    return pa.Table.from_arrays(columns, schema=plain_schema(schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Replace view and large types of a schema by the plain ones that all readers know."""
    return pa.schema([pa.field(f.name, plain(f.type)) for f in schema])


def reorder(array: "pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    """Cast an array; structs and lists of structs are matched by field name."""
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = {array.type.field(i).name for i in range(array.type.num_fields)}
        fields = [
            reorder(pc.struct_field(array, f.name), f.type) if f.name in names else pa.nulls(len(array), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        lists = cast("pa.ListArray[Any]", array)
        values = (
            reorder(
                lists.values.slice(lists.offsets[0].as_py(), lists.offsets[-1].as_py() - lists.offsets[0].as_py()),
                kind.value_type,
            )
            if len(lists)
            else pa.nulls(0, kind.value_type)
        )
        first = lists.offsets[0] if len(lists) else pa.scalar(0, pa.int32())
        return pa.ListArray.from_arrays(pc.subtract(lists.offsets, first), values, type=kind, mask=lists.is_null())
    return array.cast(kind)
