"""Merges into small current tables through delta-rs, which take milliseconds a table and no JVM.

delta-rs rewrites each file that holds a changed key, where Spark writes deletion vectors: that suits small tables only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.committing import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import sql_name
from txloom.storage.stores.delta_tables import is_table

LOCAL_TABLE_BYTES = 64 << 20
"""The most bytes of data files of a current table that this process merges into."""


def is_small(path: str) -> bool:
    """Return whether this process may merge into a table: it is small, and delta-rs can remove each of its files.

    Spark names a file after its partition's text as it is, delta-rs as a URL, so that with a letter such as "ü" the
    file that it removes is none, and its rows would be there twice.
    """
    sizes = _sizes(path)
    return sum(sizes.values()) <= LOCAL_TABLE_BYTES and all(name.isascii() for name in sizes)


def bytes_of(path: str) -> int:
    """Return the bytes of a table's data files; 0 where there is no table."""
    return sum(_sizes(path).values())


def _sizes(path: str) -> dict[str, int]:
    """Return the bytes of each data file of a table, by its path in the log; {} where there is no table."""
    if not is_table(path):
        return {}
    actions = pa.table(opened(path).get_add_actions()).select(["path", "size_bytes"])
    return dict(zip(*(column.to_pylist() for column in actions.columns), strict=True))


def merge(path: str, effects: pa.Table, key: Sequence[str], metadata: Mapping[str, Any]) -> None:
    """Apply net effects to a current table in one commit; a repeated call makes a commit that changes no row.

    Args:
        path: the table's path.
        effects: at most one row for each key: the table's columns, and `_txloom_deleted`.
        key: the key's columns.
        metadata: the commit's userMetadata, that is the watermark that the table has then. There is a commit also where
            no row changes.

    Raises:
        LeaseTaken: another run holds the lease.
        CommitFailedError: another commit came first (`txloom.storage.delta.retry`).
    """
    table = FENCE.opened(path)
    before = table.version()
    schema = arrow_tables.plain_schema(arrow_tables.schema_of(table))
    rows = arrow_tables.conform(effects, schema).append_column("_txloom_deleted", effects.column("_txloom_deleted"))
    values = {sql_name(name): f's."{name}"' for name in schema.names}
    condition = " and ".join(f't."{name}" = s."{name}"' for name in key)
    properties = commit_properties(metadata=metadata)
    (
        table.merge(rows, condition, source_alias="s", target_alias="t", commit_properties=properties)
        .when_matched_delete("s._txloom_deleted")
        .when_matched_update(values)
        .when_not_matched_insert(values, "not s._txloom_deleted")
        .execute()
    )
    if table.version() == before:
        commit_no_row(table, properties)
