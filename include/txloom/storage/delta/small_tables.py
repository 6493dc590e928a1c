"""Read and write small Delta tables without Spark: the system tables, such as landings, the ledger and cuts.

They are written through `deltalake`: a commit takes milliseconds, so that an idle cycle needs no JVM. Writes are
idempotent by Delta's (txnAppId, txnVersion), or because the caller reads the table first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.committing import commit_once, commit_properties, written
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import answer, opened
from txloom.storage.stores.delta_tables import create_table, is_table, write_first
from txloom.storage.system_tables import ENTERED

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
"""The property by which Spark's merges write deletion vectors instead of rewriting files."""


def append(
    path: str, rows: Sequence[dict[str, Any]], schema: pa.Schema, *, once: tuple[str, int] | None = None
) -> bool:
    """Append rows to a small Delta table, which is created where there is none.

    Args:
        path: the table's path.
        rows: by column name; columns that a row lacks are null.
        schema: the table's schema. Its column ENTERED, where it has one, gets the version that the rows make.
        once: a write id and a number; nothing is written where the table has that number, or a higher one.

    Returns:
        whether the rows were appended now; a repeated call with `once` returns False, one without appends again.

    Raises:
        LeaseTaken: another run holds the lease.
        WriteConflict: other commits came first in every attempt.
    """
    ensure(path, schema)
    given = pa.Table.from_pylist(list(rows), schema)

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        lacks = ENTERED in schema.names and not {*schema.names} <= {*_columns(table)}
        merge: Literal["merge"] | None = "merge" if lacks else None
        numbered = _numbered(given, table.version() + 1)
        write_deltalake(table, numbered, mode="append", schema_mode=merge, commit_properties=properties)

    return commit_once(path, once, write) is not None


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    if ENTERED not in rows.column_names:
        return rows
    numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    return rows.set_column(rows.column_names.index(ENTERED), ENTERED, numbers)


def _columns(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]


def replace(path: str, rows: Sequence[dict[str, Any]], schema: pa.Schema, about: Mapping[str, Any]) -> None:
    """Replace the rows of a small table in one commit; about: the commit's userMetadata.

    A table of an earlier version, with fewer columns, gets the schema.
    """
    overwrite(path, pa.Table.from_pylist(list(rows), schema), about, "overwrite")


def overwrite(
    path: str,
    rows: pa.Table,
    metadata: Mapping[str, Any] | None = None,
    schema_mode: Literal["overwrite"] | None = None,
) -> None:
    """Replace a table's rows in one commit, or create the table with them.

    Args:
        path: the table's path.
        rows: the new rows.
        metadata: the commit's userMetadata; None: it has none.
        schema_mode: `overwrite`: the table takes the rows' schema; None: the rows must have the table's.

    Raises:
        LeaseTaken: another run holds the lease.
        DeltaError: another writer created the table meanwhile, whose rows are not replaced.
    """
    try:
        table = FENCE.opened(path)
    except TableNotFoundError:
        write_first(path, rows, commit_properties=commit_properties(metadata=metadata))
        return
    properties = commit_properties(metadata=metadata)
    write_deltalake(table, rows, mode="overwrite", schema_mode=schema_mode, commit_properties=properties)


def last_written(path: str, write_id: str) -> int:
    """Return the highest txnVersion that a table has for a txnAppId; -1 where it has none, or there is no table."""
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
    """Create an empty Delta table unless there is one; it is neither checked nor changed then.

    Args:
        path: the table's path.
        schema: its columns.
        properties: its properties.
        partition_by: its partition columns.
        metadata: the userMetadata of its first version.
    """
    if is_table(path):
        return
    try:
        create_table(
            path,
            schema,
            mode="ignore",
            partition_by=list(partition_by) or None,
            configuration=dict(properties or {}),
            raise_if_key_not_exists=False,  # properties of txloom's own
            commit_properties=commit_properties(metadata=metadata, fenced=False),
        )
    except CommitFailedError:
        # Another process created it meanwhile.
        if not is_table(path):
            raise


def schema_of(path: str) -> pa.Schema:
    """Return a table's schema, in the types that delta-rs reads it in; raises TableNotFoundError."""
    return arrow_tables.schema_of(opened(path))


def query(path: str, sql: str) -> list[dict[str, Any]]:
    """Run a query on one Delta table, named `t` in the SQL; return rows by column name, [] where there is no table."""
    try:
        return ask(opened(path), sql)
    except TableNotFoundError:
        return []


def newest(path: str, columns: str, where: str = "true") -> dict[str, Any] | None:
    """Return some columns of the row that was entered last of those for which a condition holds, or None.

    columns, where: as SQL writes them.
    """
    sql = f"select {columns} from t where {where} order by {latest(path)} limit 1"
    return next(iter(query(path, sql)), None)


def latest(path: str) -> str:
    """Return the SQL order of a table's rows that begins with the one that was entered last.

    That is by ENTERED, which no clock decides; rows of before that column are ordered by `at`.
    """
    try:
        known = _columns(opened(path))
    except TableNotFoundError:
        known = []
    return f"{ENTERED} desc nulls last, at desc" if ENTERED in known else "at desc"


def drop(path: str, old: str) -> int:
    """Delete the rows for which a SQL condition holds, in one commit; return how many, 0 where there is no table.

    Raises LeaseTaken where another run holds the lease.
    """
    counted = query(path, f"select count(*) as n from t where {old}")
    if not counted or not counted[0]["n"]:
        return 0
    table = FENCE.opened(path)
    table.delete(old, commit_properties=commit_properties())
    return int(counted[0]["n"])


def ask(table: DeltaTable, sql: str) -> list[dict[str, Any]]:
    """Run a query like `query` on an opened Delta table, at the version at which it was opened."""
    rows: list[dict[str, Any]] = answer({"t": table}, sql).to_pylist(maps_as_pydicts="strict")
    return rows
