"""Files of Delta tables that Spark's tasks write themselves, and the commit that makes them rows of a table.

A task that has its rows in Arrow writes them as Parquet where they belong, without a way through the JVM, and returns
what the commit must know. Files of a task that failed are never named by a commit; VACUUM takes them away.
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
"""Rows that a reader can leave out at once when the part is sorted by what it asks for."""


@dataclass(frozen=True)
class DataFile:
    """A written file that no commit names yet: the table it is of, its path in there, bytes, Delta's stats."""

    table: str
    path: str
    size: int
    stats: str


def write_file(rows: pa.Table, table: str, path: str) -> DataFile:
    """Write rows as a file of the Delta table at a path, with its schema and the statistics that it declares."""
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
    """Return the columns whose bounds let readers skip files: as the table declares, else its whole numbers."""
    declared = table.metadata().configuration.get("delta.dataSkippingStatsColumns")
    return declared.split(",") if declared else [f.name for f in rows.schema if pa.types.is_integer(f.type)]


def _stats(rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """Return Delta's statistics of numbers and short names; of other columns a reader knows nothing."""
    bounds = {name: pc.min_max(rows.column(name)) for name in columns if name in rows.column_names}
    known = {name: bound for name, bound in bounds.items() if bound["min"].is_valid}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: bound["min"].as_py() for name, bound in known.items()},
        "maxValues": {name: bound["max"].as_py() for name, bound in known.items()},
        "nullCount": {name: rows.column(name).null_count for name in bounds},
    }


def append_files(parts: Iterable[DataFile], path: str, write_id: str, number: int) -> bool:
    """Commit written files to a Delta table unless this txnVersion was written before; say whether they were now."""
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(part.path, part.size, {}, now, True, part.stats) for part in parts
    ]

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)

    return commit_once(path, (write_id, number), write)
