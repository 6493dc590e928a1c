"""Fold changes into current rows: the net effect per key, in the source's commit order."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from txloom.current import numbers as n
from txloom.current.chains import follow
from txloom.current.effects import join, table
from txloom.current.images import Images
from txloom.current.latest import latest


def fold(rows: pa.Table, changes: pa.Table, *, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return one row per touched key: the declared columns as the changes leave them, or `_txloom_deleted`."""
    images = Images.of(rows, changes, key, columns)
    numbers = n.read(images, rows, changes)

    def known(events: n.Ints, column: n.Ints) -> n.Flags:
        told = np.zeros(len(events), np.bool_)
        for number in np.unique(column):
            here = column == number
            told[here] = n.known(changes, events[here] - rows.num_rows, images.plain[number])
        return told

    chained = np.zeros(numbers.keys + 1, np.bool_)  # the last element stands for NOWHERE
    moved = numbers.old != n.NOWHERE
    chained[numbers.key[moved]] = chained[numbers.old[moved]] = True
    effects = latest(numbers, chained, known)
    if moved.any():
        effects = join(effects, follow(numbers, chained, known))
    xids = pa.chunked_array([*rows.column("_txloom_xid").chunks, *changes.column("_txloom_xid").chunks], pa.string())
    found = table(effects, numbers, images, xids)
    own = [name for name in found if name not in columns]
    return pa.table({name: found[name] for name in [*columns, *own]})
