"""Turn typed row events of an aggregate's members into its history: one row per transaction and root."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyValues, Lists
from txloom.config.models.pipeline import Aggregate, Table
from txloom.history.changes import images, release_of, struct

SYSTEM_COLUMNS = ("xid", "csn", "committed_at")


def stream(events: Mapping[str, pa.Table], aggregate: Aggregate, tables: Mapping[str, Table], release: int) -> pa.Table:
    """Return the rows of an aggregate's history, in the schema `storage.targets.schemas.stream_schema`.

    events: typed events by table, without the members that had none. A child's change whose event does not have the
    root's key (a delete with only the child's key) is in a row whose root key is null.
    """
    root = tables[aggregate.root]
    members = [(aggregate.root, aggregate.root, root.key)]
    members += [(child.table, child.as_, child.parent_key) for child in aggregate.children]
    members = [member for member in members if member[0] in events]
    heads_of = [_heads(events[name], parent_key, root.key, release) for name, _, parent_key in members]
    heads = pa.concat_tables(heads_of, promote_options="permissive")
    group, first = _groups(heads, ["tx", *root.key])
    committed = heads.column("committed_at").combine_chunks()
    columns: dict[str, AnyValues] = {name: heads.column(name).take(first) for name in root.key}
    columns["_txloom_xid"] = heads.column("xid").take(first)
    columns["_txloom_csn"] = heads.column("csn").take(first)
    columns["_txloom_committed_at"] = _largest(committed, group, len(first))
    columns["_txloom_release"] = heads.column("release").take(first)
    start = 0
    for name, field, _ in members:
        size = events[name].num_rows
        columns[field] = _nested(group[start : start + size], _change(events[name], tables[name]), len(first))
        start += size
    return pa.Table.from_pydict(columns)


def _heads(events: pa.Table, parent_key: Sequence[str], root_key: Sequence[str], release: int) -> pa.Table:
    """Return each event's transaction and root key: of the image after, else the image before, else null (unknown)."""
    after, before = struct(events, "after"), struct(events, "before")
    columns: dict[str, AnyValues] = {name: events.column(name) for name in ("tx", *SYSTEM_COLUMNS)}
    columns["release"] = release_of(events, release)
    for column, name in zip(parent_key, root_key, strict=True):
        columns[name] = pc.coalesce(pc.struct_field(after, column), pc.struct_field(before, column))
    return pa.Table.from_pydict(columns)


def _groups(rows: pa.Table, by: Sequence[str]) -> tuple[np.ndarray, pa.Int64Array]:
    """Return each row's group number, the same for rows equal in `by`, and each group's first row; null equals null."""
    group = np.zeros(rows.num_rows, np.int64)
    first = np.zeros(min(rows.num_rows, 1), np.int64)
    for name in by:
        encoded = rows.column(name).combine_chunks().dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, first, group = np.unique(
            group * (len(encoded.dictionary) + 1) + codes, return_index=True, return_inverse=True
        )
        group = group.reshape(-1)
    return group, pa.array(first, pa.int64())


def _largest(instants: AnyArray, group: np.ndarray, groups: int) -> AnyArray:
    """Return each group's latest instant, null where it has none."""
    numbers = instants.cast(pa.int64())
    known = numbers.is_valid().to_numpy(zero_copy_only=False)
    latest = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(latest, group[known], numbers.drop_null().to_numpy())
    numbered = pa.array(latest, pa.int64(), mask=latest == np.iinfo(np.int64).min)
    largest: AnyArray = numbered.cast(instants.type)
    return largest


def _change(events: pa.Table, table: Table) -> pa.StructArray:
    fields: dict[str, AnyArray] = {
        "_txloom_pos": events.column("pos").combine_chunks(),
        "_txloom_op": events.column("op").combine_chunks(),
        **images(events, table),
    }
    for name in ("unchanged", "before", "before_known", "landing", "row", "absent"):
        fields[f"_txloom_{name}"] = events.column(name).combine_chunks()
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _nested(group: np.ndarray, change: pa.StructArray, groups: int) -> Lists:
    """Return each group's changes, ordered by position; those at the same position are in the order of landing."""
    place = [
        pc.struct_field(change, f"_txloom_{name}").to_numpy(zero_copy_only=False) for name in ("row", "landing", "pos")
    ]
    order = np.lexsort([*place, group])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), change.take(pa.array(order, pa.int64())))
