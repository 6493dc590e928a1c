"""The values of history rows that a comparison looks at: without where an event was landed, and declared columns only.

A redelivery was landed elsewhere and has the same content. Lists of names of columns may name one that is not declared
any more.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names

UNCOMPARED = ("_txloom_landing", "_txloom_row")
"""Where an event was landed."""
NONE_IS_NULL = ("_txloom_unchanged", "_txloom_absent")
"""Lists of names that are null where they name no column."""


def compared_values(rows: pa.Table) -> pa.Table:
    """Return rows of a table as they are compared: without UNCOMPARED, also in the changes of a document's members."""
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names if name not in UNCOMPARED}
    return pa.table(_compared(columns))


def _compared(columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
    declared = [name for name in columns if not name.startswith(names.SYSTEM_PREFIX)]
    return {name: _compared_list(name, values, declared) for name, values in columns.items()}


def _compared_list(name: str, values: AnyArray, declared: Collection[str]) -> AnyArray:
    """Return a column as it is compared; only lists of names, and of changes of a document's member, are others."""
    if not pa.types.is_list(values.type) or not len(values):
        return values
    inside = values.type.value_type
    if pa.types.is_struct(inside):
        kept = [field.name for field in inside if field.name not in UNCOMPARED]
        changes = pc.list_flatten(values)
        parts = _compared({each: pc.struct_field(changes, each) for each in kept})
        made = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
        if f"{names.SYSTEM_PREFIX}pos" in kept:
            # Earlier versions wrote null instead of an empty list if a transaction has no change of a member.
            values = values.fill_null(pa.scalar([], values.type))
        return _with_items(values, made, np.ones(len(made), np.bool_))
    if name.startswith(names.SYSTEM_PREFIX) and pa.types.is_string(inside):
        items = pc.list_flatten(values)
        is_declared = pc.is_in(items, value_set=pa.array(declared, pa.string()))
        flags = is_declared.to_numpy(zero_copy_only=False)
        known = values if flags.all() else _with_items(values, items.filter(is_declared), flags)
        return _without_empty(known) if name in NONE_IS_NULL else known
    return values


def _without_empty(lists: AnyArray) -> AnyArray:
    """Return lists with null in the place of empty ones."""
    is_empty = pc.equal(pc.list_value_length(lists), pa.scalar(0)).fill_null(False)
    made: AnyArray = pc.if_else(is_empty, pa.scalar(None, lists.type), lists)
    return made


def _with_items(lists: AnyArray, items: AnyArray, kept: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> AnyArray:
    """Return lists with other items; kept: which of their items these are."""
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    offsets = pa.array(np.concatenate([[0], np.cumsum(kept)])[ends].astype(np.int32))
    made: AnyArray = pa.ListArray.from_arrays(offsets, items, mask=lists.is_null())
    return made
