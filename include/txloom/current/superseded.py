"""Find rows of a history that are superseded: a later row of their key holds the whole row again.

A superseded row lies at or below a horizon, and so does the row that supersedes it: an insert, a delete, an update that
leaves no column unchanged, or a truncate. States and intervals from the horizon on do not change, nor does the result
of a late transaction: the last row that holds a key's whole row stays for ever, even a delete, and so do all rows after
it. Rows of keys that ever changed stay, and so do rows that show that a column was dropped, because they concern other
keys too.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.folding import encoded as n
from txloom.current.folding.value_sources import Images

COLUMNS = ("op", "csn", "pos", "release", "unchanged", "before", "before_known", "absent")
"""The columns of a history, beside the key, that the rule reads; without the prefix `_txloom_`."""


def superseded(changes: pa.Table, *, key: Sequence[str], horizon: int, release: int) -> pa.BooleanArray:
    """Return for each change whether it is superseded and may be removed.

    Args:
        changes: All rows of history of some keys, of the keys that key changes connect with them, and the table's
            truncates.
        key: The key columns.
        horizon: The csn above which no row is removed and none supersedes another.
        release: The release above which no row is removed and none supersedes another.
    """
    schema = pa.schema([*(changes.schema.field(name) for name in key), *STAMPS])
    images = Images.of(schema.empty_table(), changes, key, key)
    numbers = n.read(images, schema.empty_table(), changes)
    moved = numbers.old != n.NOWHERE
    chained = np.zeros(numbers.keys + 1, np.bool_)  # the last element stands for NOWHERE
    chained[numbers.key[moved]] = chained[numbers.old[moved]] = chained[n.NOWHERE] = True

    settled = (numbers.csn <= horizon) & (changes.column("_txloom_release").to_numpy() <= release)
    unchained = settled & ~chained[numbers.key]
    whole = np.isin(numbers.op, (n.INSERT, n.DELETE)) | ((numbers.op == n.UPDATE) & ~_lists(changes, "unchanged"))
    position = _positions(numbers)
    last = np.full(numbers.keys + 1, n.NOWHERE, np.int64)
    np.maximum.at(last, numbers.key[unchained & whole], position[unchained & whole])
    emptied = position[settled & (numbers.op == n.TRUNCATE)].max(initial=n.NOWHERE)
    anew = np.maximum(last[numbers.key], emptied)
    return pa.array(unchained & (position < anew) & ~_lists(changes, "absent"), pa.bool_())


STAMPS = (pa.field("_txloom_csn", pa.int64()), pa.field("_txloom_pos", pa.int64()))


def _lists(changes: pa.Table, name: str) -> n.Flags:
    """Return which changes name a column in one of their lists."""
    lengths = pc.fill_null(pc.list_value_length(changes.column(f"_txloom_{name}")), 0)
    return np.asarray(lengths.to_numpy() > 0, np.bool_)


def _positions(numbers: n.CompactChanges) -> n.Ints:
    """Return the changes' numbers in commit order; changes with one csn and position have one number."""
    csn, pos = numbers.csn[numbers.order], numbers.pos[numbers.order]
    differs = np.append(False, (csn[1:] != csn[:-1]) | (pos[1:] != pos[:-1]))[: len(csn)]
    places = np.empty(len(csn), np.int64)
    places[numbers.order] = np.cumsum(differs)
    return places
