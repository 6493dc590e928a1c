"""Data files of Delta tables that tasks write themselves, and the commit that adds them to a table.

A task that has its rows in Arrow writes them as Parquet into the table's folder, without handing them to the JVM, and
returns what the commit needs. No commit names the files of a task that failed; VACUUM removes them.
"""

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from txloom.arrow_types import AnyScalar
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.committing import commit_once
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.stores.file_systems import filesystem_of

SAMPLE = 2_000
"""Rows of a file by which it is decided whether a column gets a dictionary."""
ROW_GROUP = 16_384
"""Rows of a row group, the least that a reader of a sorted file can skip."""


@dataclass(frozen=True)
class DataFile:
    """A written file that no commit names yet."""

    table: str
    """The table's name."""
    path: str
    """The file's path in the table's folder."""
    size: int
    """In bytes."""
    stats: str
    """Delta's statistics of the file, as JSON."""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """The value of each partition column, as Delta's log has it."""


def write_file(rows: pa.Table, table: str, path: str) -> DataFile:
    """Write rows as a Parquet file into the folder of a Delta table; no commit names it yet.

    Args:
        rows: brought into the schema of the Delta table (`arrow_tables.conform`).
        table: the name that the result has.
        path: the Delta table's path.

    Returns:
        the file, with statistics of the columns that the table declares. A repeated call writes another file.
    """
    return replace(write_file_of(rows, table_at(path), path), table=table)


@dataclass(frozen=True)
class Shape:
    """The schema that a table gets by a commit, and the columns of which its files have bounds."""

    schema: pa.Schema
    bounded: Sequence[str]


def write_file_of(
    rows: pa.Table,
    delta: DeltaTable,
    path: str,
    partition: Mapping[str, Any] | None = None,
    shape: Shape | None = None,
) -> DataFile:
    """Write rows of one partition of an opened table as `write_file` does; the name in the result is the path.

    Args:
        rows: brought into the schema of the Delta table.
        delta: the table.
        path: its path.
        partition: the value of each partition column, which a data file does not hold.
        shape: what the commit makes of the table; None: it stays as it is.
    """
    texts = partition_texts(partition or {})
    schema = arrow_tables.schema_of(delta) if shape is None else shape.schema
    rows = arrow_tables.conform(rows, schema).drop_columns(list(texts))
    name = f"part-{uuid.uuid4()}.zstd.parquet"
    filesystem, folder = filesystem_of(path)
    with filesystem.open_output_stream(f"{folder}/{name}") as stream:
        pq.write_table(
            rows,
            stream,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repeating(rows),  # type: ignore[arg-type]  # the stubs know no list of columns
            row_group_size=ROW_GROUP,
            store_decimal_as_integer=True,
        )
        size = stream.tell()
    # As they are, because delta-rs reads the escape of U+10FFFF as another text.
    bounded = _skipping(delta, rows) if shape is None else shape.bounded
    stats = json.dumps(_stats(rows, bounded), ensure_ascii=False)
    return DataFile(path, name, size, stats, texts)


def _repeating(rows: pa.Table) -> list[str]:
    """Return the columns that get a dictionary, as Parquet names them: nested ones, and those whose values repeat.

    A dictionary of values of which each occurs once takes a quarter of the time of writing, and space.
    """
    columns = list[str]()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        first = column.slice(0, SAMPLE)
        if pa.types.is_nested(column.type):
            columns += _leaves(name, column.type)
        elif len(first.unique()) * 4 <= len(first):
            columns.append(name)
    return columns


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Return the columns of a nested type as Parquet names them.

    >>> _leaves("lines", pa.list_(pa.struct({"id": pa.int64(), "counts": pa.map_(pa.string(), pa.int64())})))
    ['lines.list.element.id', 'lines.list.element.counts.key_value.key', 'lines.list.element.counts.key_value.value']
    """
    if pa.types.is_struct(kind):
        return [leaf for part in kind for leaf in _leaves(f"{path}.{part.name}", part.type)]
    if pa.types.is_map(kind):
        key, value = (f"{path}.key_value.{name}" for name in ("key", "value"))
        return [*_leaves(key, kind.key_type), *_leaves(value, kind.item_type)]
    return _leaves(f"{path}.list.element", kind.value_type) if pa.types.is_list(kind) else [path]


def partition_texts(partition: Mapping[str, Any]) -> dict[str, str | None]:
    """Return partition values as Delta's log has them: integers, texts and dates as text, null as null."""
    return {name: value if value is None else str(value) for name, value in partition.items()}


def _skipping(table: DeltaTable, rows: pa.Table) -> list[str]:
    """Return the columns that get statistics: those that the table declares, else its columns of integers."""
    declared = table.metadata().configuration.get("delta.dataSkippingStatsColumns")
    if not declared:
        return [each.name for each in rows.schema if pa.types.is_integer(each.type)]
    return [name.removeprefix("`").removesuffix("`").replace("``", "`") for name in declared.split(",")]


def _stats(rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """Return Delta's statistics of some columns: rows, minima, maxima and nulls; a column of nulls has no bounds."""
    bounds = {name: pc.min_max(rows.column(name)) for name in columns if name in rows.column_names}
    known = {name: (_bound(bound["min"]), _bound(bound["max"])) for name, bound in bounds.items()}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: low for name, (low, _) in known.items() if low is not None},
        "maxValues": {name: high for name, (_, high) in known.items() if high is not None},
        "nullCount": {name: rows.column(name).null_count for name in bounds},
    }


def _bound(value: AnyScalar) -> Any:
    """Return a bound as JSON holds it; None where there is none, or none that is exact.

    A text is not cut off: what is longer than a bound that ends with the last of all characters may lie above it.
    """
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        return value.as_py()
    if pa.types.is_date(kind):
        return value.as_py().isoformat()
    if pa.types.is_timestamp(kind):
        try:
            at = value.as_py().replace(tzinfo=None).isoformat(timespec="microseconds")
        except (OverflowError, ValueError):  # Python knows no year above 9999
            return None
        return at + ("Z" if kind.tz else "")
    return None


def added(parts: Iterable[DataFile]) -> list[AddAction]:
    """Return the actions of a commit that adds written files."""
    now = int(time.time() * 1000)
    return [AddAction(part.path, part.size, dict(part.partition), now, True, part.stats) for part in parts]


def append_files(parts: Iterable[DataFile], path: str, write_id: str, number: int) -> int | None:
    """Add written files to a Delta table in one commit, unless it has this number or a higher one for the write id.

    Args:
        parts: the files, which lie in the table's folder.
        path: the Delta table's path.
        write_id: Delta's txnAppId.
        number: Delta's txnVersion.

    Returns:
        the version that the files made; a repeated call returns None and changes nothing.

    Raises:
        LeaseTaken: another run holds the lease.
        WriteConflict: other commits came first in every attempt.
    """
    actions: list[AddAction | RemoveAction] = [*added(parts)]

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
        table.update_incremental()

    return commit_once(path, (write_id, number), write)
