"""Rows by whether their key is among others."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa


def others(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with a key that is not among some keys.

    >>> others(pa.table({"id": [1, 2, 3]}), pa.table({"id": [2]}), ["id"]).to_pydict()
    {'id': [1, 3]}
    """
    return _matched(rows, keys, key, "left anti")


def among(rows: pa.Table, keys: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows with a key that is among some keys."""
    return _matched(rows, keys, key, "left semi")


def _matched(rows: pa.Table, keys: pa.Table, key: Sequence[str], how: Literal["left semi", "left anti"]) -> pa.Table:
    if not rows.num_rows:
        return rows
    numbered = rows.select(list(key)).append_column("_txloom_row", pa.array(np.arange(rows.num_rows)))
    left = numbered.join(keys.select(list(key)), keys=list(key), join_type=how)
    return rows.take(left.column("_txloom_row"))
