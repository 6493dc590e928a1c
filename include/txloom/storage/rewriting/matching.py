"""Rows by whether their key is among others."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PLACE = "_txloom_place"


def others(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with a key that is not among some keys, in their order.

    >>> others(pa.table({"id": [1, 2, 3]}), pa.table({"id": [2]}), ["id"]).to_pydict()
    {'id': [1, 3]}
    """
    return rows.filter(pc.invert(is_among(rows, keys, key)))


def among(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with a key that is among some keys, in their order."""
    return rows.filter(is_among(rows, keys, key))


def is_among(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> pa.BooleanArray:
    """Return which rows have a key that is among some keys; null is among none.

    >>> is_among(pa.table({"id": [1, 2, None]}), pa.table({"id": [2, None]}), ["id"]).to_pylist()
    [False, True, False]
    """
    known = np.zeros(rows.num_rows, np.bool_)
    if rows.num_rows:
        numbered = rows.select(list(key)).append_column(PLACE, pa.array(np.arange(rows.num_rows)))
        matched = numbered.join(keys.select(list(key)), keys=list(key), join_type="left semi")
        known[matched.column(PLACE).to_numpy()] = True
    return pa.array(known, pa.bool_())
