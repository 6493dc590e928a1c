"""The same history as `changes` and `stream`, as Arrow tables: for releases small enough for one process.

Events come as one Arrow table per source table: xid, csn, pos, op, committed_at, landing, row, and the images that an
image reader found (after, unchanged, before, before_known).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models import Aggregate, Table


def images(events: pa.Table, table: Table) -> dict[str, pa.Array]:
    """Return the declared columns: the row after the change, for a delete what is known of the row before it."""
    after, before = _struct(events, "after"), _struct(events, "before")
    deleted = pc.equal(events.column("op").combine_chunks(), "D")
    found = {}
    for name in table.column_names:
        old, new = pc.struct_field(before, name), pc.struct_field(after, name)
        known = pc.coalesce(new, old) if name in table.key else new
        found[name] = pc.if_else(deleted, old, known)
    return found


def _struct(events: pa.Table, name: str) -> pa.StructArray:
    return events.column(name).combine_chunks()


def changes(events: pa.Table, table: Table, release: int) -> pa.Table:
    """Return the rows of a mirror's history."""
    columns: dict[str, Any] = dict(images(events, table))
    for name in ("op", "xid", "csn", "pos", "committed_at"):
        columns[f"_txloom_{name}"] = events.column(name)
    columns["_txloom_release"] = pa.repeat(pa.scalar(release, pa.int64()), events.num_rows)
    for name in ("landing", "row", "unchanged", "before", "before_known"):
        columns[f"_txloom_{name}"] = events.column(name)
    return pa.table(columns)


def stream(events: Mapping[str, pa.Table], aggregate: Aggregate, tables: Mapping[str, Table], release: int) -> pa.Table:
    """Return the rows of an aggregate's history: one per transaction and root, changes nested in order.

    A child's change whose event does not tell its root stands in the row whose root key is null.
    """
    root = tables[aggregate.root]
    members = [(aggregate.root, aggregate.root, root.key)]
    members += [(child.table, child.as_, child.parent_key) for child in aggregate.children]
    groups: dict[tuple[Any, ...], int] = {}
    committed: list[Any] = []
    key_types = _key_types(events, members)
    placed = {}
    for name, field, parent_key in members:
        if name in events:
            placed[field] = (_placed(events[name], parent_key, groups, committed), _change(events[name], tables[name]))
    keys = list(groups)
    columns: dict[str, Any] = {}
    for i, name in enumerate(root.key):
        columns[name] = pa.array([key[2 + i] for key in keys], key_types[i])
    columns["_txloom_xid"] = pa.array([key[0] for key in keys], pa.string())
    columns["_txloom_csn"] = pa.array([key[1] for key in keys], pa.int64())
    columns["_txloom_committed_at"] = pa.array(committed, pa.timestamp("us", "UTC"))
    columns["_txloom_release"] = pa.repeat(pa.scalar(release, pa.int64()), len(keys))
    for field, (number, change) in placed.items():
        columns[field] = _nested(number, change, len(keys))
    return pa.table(columns)


def _key_types(events: Mapping[str, pa.Table], members: Sequence[tuple[str, str, Sequence[str]]]) -> list[pa.DataType]:
    for name, _, parent_key in members:
        if name in events:
            image = events[name].schema.field("after").type
            return [image.field(column).type for column in parent_key]
    raise ValueError("no member of the aggregate has an event")


def _placed(
    events: pa.Table, parent_key: Sequence[str], groups: dict[tuple[Any, ...], int], committed: list[Any]
) -> np.ndarray:
    """Number each event's (transaction, root) group, adding groups that are new."""
    after, before = _struct(events, "after"), _struct(events, "before")
    keys = [pc.coalesce(pc.struct_field(after, c), pc.struct_field(before, c)).to_pylist() for c in parent_key]
    numbers = np.empty(events.num_rows, np.int64)
    whole = zip(events.column("xid").to_pylist(), events.column("csn").to_pylist(), *keys, strict=True)
    for i, (group, at) in enumerate(zip(whole, events.column("committed_at").to_pylist(), strict=True)):
        number = groups.setdefault(group, len(groups))
        if number == len(committed):
            committed.append(at)
        elif at is not None and (committed[number] is None or at > committed[number]):
            committed[number] = at
        numbers[i] = number
    return numbers


def _change(events: pa.Table, table: Table) -> pa.StructArray:
    fields: dict[str, Any] = {
        "_txloom_pos": events.column("pos").combine_chunks(),
        "_txloom_op": events.column("op").combine_chunks(),
        **images(events, table),
    }
    for name in ("unchanged", "before", "before_known", "landing", "row"):
        fields[f"_txloom_{name}"] = events.column(name).combine_chunks()
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _nested(number: np.ndarray, change: pa.StructArray, groups: int) -> pa.ListArray:
    positions = pc.struct_field(change, "_txloom_pos").to_numpy(zero_copy_only=False)
    order = np.lexsort([positions, number])
    counts = np.bincount(number, minlength=groups)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), change.take(pa.array(order)))
