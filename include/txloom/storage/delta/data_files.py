"""Data files of Delta tables that Spark's tasks write themselves, and the commit that adds them to a table.

A task that has its rows in Arrow writes them as Parquet into the table's folder, without handing them to the JVM, and
returns what the commit needs. No commit names the files of a task that failed; VACUUM removes them.
"""

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.commits import commit_once
from txloom.storage.paths import filesystem_of

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


def write_file(rows: pa.Table, table: str, path: str) -> DataFile:
    """Write rows as a Parquet file into the folder of a Delta table; no commit names it yet.

    Args:
        rows: brought into the schema of the Delta table (`arrow_tables.conform`).
        table: the name that the result has.
        path: the Delta table's path.

    Returns:
        the file, with statistics of the columns that the table declares. A repeated call writes another file.
    """
    delta = DeltaTable(path)
    rows = arrow_tables.conform(rows, arrow_tables.schema_of(delta))
    name = f"part-{uuid.uuid4()}.zstd.parquet"
    filesystem, folder = filesystem_of(path)
    with filesystem.open_output_stream(f"{folder}/{name}") as stream:
        pq.write_table(
            rows,
            stream,
            compression="zstd",
            compression_level=1,
            row_group_size=ROW_GROUP,
            store_decimal_as_integer=True,
        )
        size = stream.tell()
    return DataFile(table, name, size, json.dumps(_stats(rows, _skipping(delta, rows))))


def _skipping(table: DeltaTable, rows: pa.Table) -> list[str]:
    """Return the columns that get statistics: those that the table declares, else its columns of integers."""
    declared = table.metadata().configuration.get("delta.dataSkippingStatsColumns")
    return declared.split(",") if declared else [f.name for f in rows.schema if pa.types.is_integer(f.type)]


def _stats(rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """Return Delta's statistics of some columns: rows, minima, maxima and nulls; a column of nulls has no bounds."""
    bounds = {name: pc.min_max(rows.column(name)) for name in columns if name in rows.column_names}
    known = {name: bound for name, bound in bounds.items() if bound["min"].is_valid}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: bound["min"].as_py() for name, bound in known.items()},
        "maxValues": {name: bound["max"].as_py() for name, bound in known.items()},
        "nullCount": {name: rows.column(name).null_count for name in bounds},
    }


def append_files(parts: Iterable[DataFile], path: str, write_id: str, number: int) -> bool:
    """Add written files to a Delta table in one commit, unless it has this number or a higher one for the write id.

    Args:
        parts: the files, which lie in the table's folder.
        path: the Delta table's path.
        write_id: Delta's txnAppId.
        number: Delta's txnVersion.

    Returns:
        whether they were added now; a repeated call returns False and changes nothing.

    Raises:
        LeaseTaken: another run holds the lease.
        WriteConflict: other commits came first in every attempt.
    """
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(part.path, part.size, {}, now, True, part.stats) for part in parts
    ]

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)

    return commit_once(path, (write_id, number), write)
