"""The result of folding, still as numbers: per touched key the source of its row, or that the row is gone."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from txloom.arrow_types import AnyColumn, AnyValues, Lists
from txloom.current.folding.encoded import NOWHERE, CompactChanges, Ints
from txloom.current.folding.value_sources import Images


@dataclass(frozen=True)
class Effects:
    """One element per touched key: its last event and the source of its row (negative: the row is gone).

    column, position, instead: a plain column of the row at a position comes from the source `instead` (negative: from
    none, so that it is null).
    """

    key: Ints
    last: Ints
    source: Ints
    column: Ints
    position: Ints
    instead: Ints


def join(left: Effects, right: Effects) -> Effects:
    """Join effects on different keys."""
    moved = Effects(right.key, right.last, right.source, right.column, right.position + len(left.key), right.instead)
    return Effects(*(np.concatenate([vars(left)[name], vars(moved)[name]]) for name in vars(left)))


def table(effects: Effects, numbers: CompactChanges, images: Images, xids: AnyColumn) -> dict[str, AnyValues]:
    """Return the columns of the touched rows, with the values that effects point to and the columns of a stamp."""
    columns: dict[str, AnyValues] = {name: images.take(name, numbers.sample[effects.key]) for name in images.key}
    for number, name in enumerate(images.plain):
        of_column = effects.column == number
        sources = effects.source
        if of_column.any():
            sources = sources.copy()
            sources[effects.position[of_column]] = effects.instead[of_column]
        columns[name] = images.take(name, sources)
    for name, stamp in (("_txloom_csn", numbers.csn), ("_txloom_pos", numbers.pos)):
        if name not in images.key:
            columns[name] = pa.array(stamp[effects.last])
    if "_txloom_xid" not in images.key:
        columns["_txloom_xid"] = xids.take(pa.array(effects.last, pa.int64()))
    columns["_txloom_deleted"] = pa.array(effects.source < 0)
    columns["_txloom_missing"] = _missing(effects, images)
    return columns


def _missing(effects: Effects, images: Images) -> Lists:
    """Return per row the names of the columns that no event has a value of; null when there are none."""
    lost = effects.instead == NOWHERE
    position, column = effects.position[lost], effects.column[lost]
    order = np.lexsort((column, position))
    counts = np.bincount(position, minlength=len(effects.key))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    names = pa.array(images.plain, pa.string()).take(pa.array(column[order], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names, mask=pa.array(counts == 0))
