"""The books that txloom keeps without Spark: landings, the ledger and the published cuts.

They are plain Delta tables, written through `deltalake`: a commit costs milliseconds, so that an idle cycle needs no
JVM. Every write is idempotent through Delta's (txnAppId, txnVersion) or by looking first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.commits import commit_once, commit_properties, written
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import answer, opened
from txloom.storage.system_tables import ENTERED

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
"""Lets Spark's merges mark rows as gone instead of writing their files anew."""


def append(
    path: str, rows: Sequence[dict[str, Any]], schema: pa.Schema, *, once: tuple[str, int] | None = None
) -> bool:
    """Append rows to a small Delta table; with `once` (write id, number) at most one time for that number.

    Where the schema has a column ENTERED it gets the number of the version that the rows make.
    """
    ensure(path, schema)
    given = pa.Table.from_pylist(list(rows), schema)

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        lacks = ENTERED in schema.names and ENTERED not in _columns(table)
        merge: Literal["merge"] | None = "merge" if lacks else None
        numbered = _numbered(given, table.version() + 1)
        write_deltalake(table, numbered, mode="append", schema_mode=merge, commit_properties=properties)

    return commit_once(path, once, write)


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    if ENTERED not in rows.column_names:
        return rows
    numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    return rows.set_column(rows.column_names.index(ENTERED), ENTERED, numbers)


def _columns(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]


def replace(path: str, rows: Sequence[dict[str, Any]], schema: pa.Schema, about: Mapping[str, Any]) -> None:
    """Replace a small table's rows; what the new state is about goes into the commit's userMetadata."""
    overwrite(path, pa.Table.from_pylist(list(rows), schema), about)


def overwrite(
    path: str,
    rows: pa.Table,
    metadata: Mapping[str, Any] | None = None,
    schema_mode: Literal["overwrite"] | None = None,
) -> None:
    """Write a table anew in one commit; metadata: what it then is about."""
    try:
        table = FENCE.opened(path)
    except TableNotFoundError:
        # Whoever makes it meanwhile is not written over.
        write_deltalake(path, rows, mode="error", commit_properties=commit_properties(metadata=metadata))
        return
    properties = commit_properties(metadata=metadata)
    write_deltalake(table, rows, mode="overwrite", schema_mode=schema_mode, commit_properties=properties)


def last_written(path: str, write_id: str) -> int:
    """Return the last txnVersion that was written under a txnAppId; -1 when there is none."""
    try:
        return written(opened(path), write_id)
    except TableNotFoundError:
        return -1


def ensure(
    path: str,
    schema: pa.Schema,
    properties: Mapping[str, str] | None = None,
    *,
    partition_by: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Create an empty Delta table unless it exists; metadata: what its first version is about."""
    if DeltaTable.is_deltatable(path):
        return
    DeltaTable.create(
        path,
        schema,
        mode="ignore",
        partition_by=list(partition_by) or None,
        configuration=dict(properties or {}),
        commit_properties=commit_properties(metadata=metadata, fenced=False),
    )


def schema_of(path: str) -> pa.Schema:
    """Return a table's schema."""
    return arrow_tables.schema_of(opened(path))


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """Ask one Delta table, named `t` in the SQL; a table that does not exist yet has no rows."""
    try:
        return ask(opened(path), sql)
    except TableNotFoundError:
        return []


def newest(path: str, columns: str, where: str = "true") -> dict[str, Any] | None:
    """Return the row that was entered last of those for which a condition holds; None where there is none."""
    sql = f"select {columns} from t where {where} order by {latest(path)} limit 1"
    return next(iter(query(path, sql)), None)


def latest(path: str) -> str:
    """Return the SQL order that has the rows of a table first which were entered last; a clock orders old rows only."""
    try:
        known = _columns(opened(path))
    except TableNotFoundError:
        known = []
    return f"{ENTERED} desc nulls last, at desc" if ENTERED in known else "at desc"


def drop(path: str, old: str) -> int:
    """Take rows away, in one commit; return how many. old: the condition that holds for them."""
    counted = query(path, f"select count(*) as n from t where {old}")
    if not counted or not counted[0]["n"]:
        return 0
    table = FENCE.opened(path)
    table.delete(old, commit_properties=commit_properties())
    return int(counted[0]["n"])


def ask(table: DeltaTable, sql: str) -> list[dict[str, Any]]:
    """Ask an opened Delta table, as it was when it was opened; like `query`."""
    rows: list[dict[str, Any]] = answer({"t": table}, sql).to_pylist(maps_as_pydicts="strict")
    return rows
