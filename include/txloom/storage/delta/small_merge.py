"""Small merges through delta-rs: milliseconds a table, and no JVM.

It writes the files that hold changed keys anew, where Spark marks rows in them as gone: right for small tables only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from txloom.storage.delta import arrow_tables
from txloom.storage.delta.commits import commit_no_row, commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.partition_pruning import Within
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import literal, sql_name

LOCAL_TABLE_BYTES = 64 << 20
"""Up to so many bytes of data files a current table is merged into by this process."""


def is_small(path: str) -> bool:
    """Say whether a table is small enough to be merged into by this process."""
    return bytes_of(path) <= LOCAL_TABLE_BYTES


def bytes_of(path: str) -> int:
    """Return the bytes of a table's data files; 0 where there is no table."""
    if not DeltaTable.is_deltatable(path):
        return 0
    sizes = pa.table(opened(path).get_add_actions()).column("size_bytes")
    return pc.sum(sizes).as_py() or 0


def merge(
    path: str, effects: pa.Table, key: Sequence[str], metadata: Mapping[str, Any], within: Within | None = None
) -> None:
    """Apply net effects, with `_txloom_deleted`, to a current table in one commit; metadata: what it then is about.

    Effects that change no row are a commit too: the table then is as far as they are. within: the partitions outside of
    which nothing has to be looked at.
    """
    table = FENCE.opened(path)
    before = table.version()
    schema = arrow_tables.plain_schema(arrow_tables.schema_of(table))
    rows = arrow_tables.conform(effects, schema).append_column("_txloom_deleted", effects.column("_txloom_deleted"))
    values = {sql_name(name): f's."{name}"' for name in schema.names}
    condition = " and ".join(f't."{name}" = s."{name}"' for name in key)
    if within is not None:
        column = f't."{within.column}"'
        kind = schema.field(within.column).type
        condition += f" and {within.condition(column, lambda value: literal(value, kind))}"
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
