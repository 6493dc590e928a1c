"""The books that txloom keeps without Spark: landings, the ledger and the published cuts.

They are plain Delta tables, written through `deltalake`: a commit costs milliseconds, so that an idle cycle needs no
JVM. Every write is idempotent through Delta's (txnAppId, txnVersion) or by looking first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.config import names

INSTANT = pa.timestamp("us", "UTC")
LANDED_FILES = pa.schema(
    [
        ("landing", pa.int64()),
        ("run_id", pa.string()),
        ("at", INSTANT),
        ("file_number", pa.int64()),
        ("topic", pa.string()),
        ("file", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
    ]
)
LEDGER = pa.schema(
    [
        ("run_id", pa.string()),
        ("step", pa.string()),
        ("generation", pa.int64()),
        ("batch", pa.int64()),
        ("at", INSTANT),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("valid_through", pa.int64()),
        ("balanced", pa.bool_()),
        ("detail", pa.string()),
    ]
)
GAP = pa.struct([("xid", pa.string()), ("csn", pa.int64()), ("cause", pa.string())])
AMENDED = pa.struct([("cut_id", pa.int64()), ("xid", pa.string()), ("csn", pa.int64())])
CUTS = pa.schema(
    [
        ("cut_id", pa.int64()),
        ("run_id", pa.string()),
        ("valid_through", pa.int64()),
        ("release", pa.int64()),
        ("committed_at", INSTANT),
        ("published_at", INSTANT),
        ("versions", pa.map_(pa.string(), pa.int64())),
        ("gaps", pa.list_(GAP)),
        ("amends", pa.list_(AMENDED)),
    ]
)


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    run_id: str
    step: str
    at: datetime
    counts: dict[str, int]
    batch: int = 0
    generation: int = 0
    valid_through: int | None = None
    balanced: bool | None = None
    detail: str | None = None


def append(path: str, rows: Sequence[dict[str, Any]], schema: pa.Schema, *, once: tuple[str, int] | None = None) -> bool:
    """Append rows to a small Delta table; with `once` (write id, number) at most one time for that number."""
    if once is not None and _written(path, once[0]) >= once[1]:
        return False
    properties = CommitProperties(app_transactions=[Transaction(*once)]) if once is not None else None
    write_deltalake(path, pa.Table.from_pylist(list(rows), schema), mode="append", commit_properties=properties)
    return True


def _written(path: str, write_id: str) -> int:
    try:
        number = DeltaTable(path, without_files=True).transaction_version(write_id)
    except TableNotFoundError:
        return -1
    return -1 if number is None else int(number)


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """Ask one Delta table, named `t` in the SQL; a table that does not exist yet has no rows."""
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        return []
    found = pa.table(QueryBuilder().register("t", table).execute(sql).read_all())
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


def write_ledger(warehouse: str, pipeline: str, entry: Entry) -> None:
    """Write one line of the ledger; a line with the same step, generation and batch is not written twice.

    Steps without batches of their own pass batch 0 and are keyed by their run id.
    """
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    once = (f"{pipeline}:{entry.step}:{entry.generation}", entry.batch) if entry.batch else None
    append(path, [vars(entry)], LEDGER, once=once)


def balance(warehouse: str, pipeline: str, step: str) -> dict[str, int]:
    """Return the sums of all counts that a step entered in its newest generation."""
    path = names.table_path(warehouse, pipeline, names.LEDGER)
    rows = query(path, f"select generation, counts from t where step = '{step}'")
    newest = max((row["generation"] for row in rows), default=0)
    sums: dict[str, int] = {}
    for row in rows:
        if row["generation"] == newest:
            for name, count in row["counts"].items():
                sums[name] = sums.get(name, 0) + count
    return sums
