"""Turn typed row events of one source table into rows of its history, `<table>_changes`."""

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyValues, Integers
from txloom.config.models.pipeline import Table


def images(events: pa.Table, table: Table) -> dict[str, AnyArray]:
    """Return the declared columns: of the image after the change, for a delete of the image before it.

    An update may leave out a key column that it does not change; its value then comes from the image before.
    """
    after, before = struct(events, "after"), struct(events, "before")
    deleted = pc.equal(events.column("op").combine_chunks(), pa.scalar("D"))
    columns = {}
    for name in table.column_names:
        old, new = pc.struct_field(before, name), pc.struct_field(after, name)
        known = pc.coalesce(new, old) if name in table.key else new
        columns[name] = pc.if_else(deleted, old, known)
    return columns


def release_of(events: pa.Table, release: int) -> Integers:
    """Return each event's release: the column `release` where events have one, as in a backfill, else `release`."""
    if "release" in events.column_names:
        return events.column("release").combine_chunks()
    return pa.repeat(pa.scalar(release, pa.int64()), events.num_rows)


def struct(events: pa.Table, name: str) -> pa.StructArray:
    """Return a column of structs as one array."""
    return cast("pa.StructArray", events.column(name).combine_chunks())


def changes(events: pa.Table, table: Table, release: int) -> pa.Table:
    """Return the rows of a mirror's history, in the schema `storage.targets.schemas.changes_schema`."""
    columns: dict[str, AnyValues] = dict(images(events, table))
    for name in ("op", "xid", "csn", "pos", "committed_at"):
        columns[f"_txloom_{name}"] = events.column(name)
    columns["_txloom_release"] = release_of(events, release)
    for name in ("landing", "row", "unchanged", "before", "before_known", "absent"):
        columns[f"_txloom_{name}"] = events.column(name)
    return pa.Table.from_pydict(columns)
