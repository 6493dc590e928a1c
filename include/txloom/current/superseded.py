"""Which rows of a history nobody needs any more: a later row of their key tells the whole row anew.

What goes is at or below a horizon, and so is what supersedes it: an insert, a delete, an update that leaves no column
unchanged, or a truncate. States and intervals from the horizon on stay what they were, and so does whatever a late
transaction makes of them: the last row that tells a key anew stays for ever, a delete too, and all that follows it.
Keys that ever changed are left alone, and rows that show that a column was dropped, since they speak of other keys too.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.folding import encoded as n
from txloom.current.folding.value_sources import Images

COLUMNS = ("op", "csn", "pos", "release", "unchanged", "before", "before_known", "absent")
"""The columns of a history, beside the key, that decide."""


def superseded(changes: pa.Table, *, key: Sequence[str], horizon: int, release: int) -> pa.BooleanArray:
    """Say of each change whether it may go.

    changes: all that history has of some keys and of the keys that theirs came from or went to, with the table's
    truncates. horizon: the csn, and release: the release, above which nothing goes and nothing supersedes.
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
    return pa.array(unchained & (position < anew) & ~_lists(changes, "absent"))


STAMPS = (pa.field("_txloom_csn", pa.int64()), pa.field("_txloom_pos", pa.int64()))


def _lists(changes: pa.Table, name: str) -> n.Flags:
    """Say which changes name a column in one of their lists."""
    lengths = pc.fill_null(pc.list_value_length(changes.column(f"_txloom_{name}")), 0)
    return np.asarray(lengths.to_numpy() > 0, np.bool_)


def _positions(numbers: n.CompactChanges) -> n.Ints:
    """Number the changes in commit order; those with one csn and position have one number."""
    csn, pos = numbers.csn[numbers.order], numbers.pos[numbers.order]
    differs = np.append(False, (csn[1:] != csn[:-1]) | (pos[1:] != pos[:-1]))[: len(csn)]
    places = np.empty(len(csn), np.int64)
    places[numbers.order] = np.cumsum(differs)
    return places
