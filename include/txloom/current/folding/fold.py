"""Fold changes into current rows: the net effect per key, in the source's commit order.

Values other than keys are not read during folding: keys become numbers (`encoded`), rows become sources of values
(`value_sources`), and only the values of the result are fetched (`effects`). Keys that never change are folded in one
pass over arrays (`latest`), keys that do change one event after the other (`chains`).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from txloom.current.folding import encoded as n
from txloom.current.folding.chains import follow
from txloom.current.folding.column_nulling import filled, null_columns
from txloom.current.folding.contradictions import Compared, contradictions
from txloom.current.folding.effects import join, table
from txloom.current.folding.latest import Known, latest
from txloom.current.folding.value_sources import Images


def fold(
    rows: pa.Table,
    changes: pa.Table,
    *,
    key: Sequence[str],
    columns: Sequence[str],
    evidence: bool = False,
    cleaned: int = 0,
) -> pa.Table:
    """Return one row per touched key, in no order: the declared columns as the changes leave them.

    rows: current rows, in the schema of a current table. changes: in the schema of a mirror's history, in any order; a
    change that comes twice counts once, and one at or below a row's (csn, pos) does not change that row.

    Added to the schema of rows: `_txloom_deleted` (only the key is filled then), and `_txloom_missing`, the columns of
    which no event has a value, because an update without them created the row (null when there are none). With evidence
    also `_txloom_evidence`: where a change's image before contradicts the row
    (`txloom.current.folding.contradictions`), above the csn up to which history was cleaned.

    >>> ids, place = {"id": [1, 2]}, {"_txloom_csn": [1, 1], "_txloom_pos": [1, 2], "_txloom_xid": ["a", "a"]}
    >>> new = {"_txloom_csn": [2, 2], "_txloom_pos": [1, 2], "_txloom_xid": ["b", "b"], "_txloom_op": ["U", "D"]}
    >>> names = pa.array([["note"], None], pa.list_(pa.string()))
    >>> old = pa.nulls(2, pa.struct([("id", pa.int64()), ("name", pa.string()), ("note", pa.string())]))
    >>> lists = {f"_txloom_{name}": pa.nulls(2, names.type) for name in ("before_known", "absent")}
    >>> before = {"_txloom_unchanged": names, "_txloom_before": old, **lists}
    >>> rows = pa.table({**ids, "name": ["Ada", "Bob"], "note": ["long", "text"], **place})
    >>> changes = pa.table({**ids, "name": ["Eve", None], "note": pa.nulls(2, pa.string()), **new, **before})
    >>> effects = fold(rows, changes, key=["id"], columns=["id", "name", "note"])
    >>> effects.select(["id", "name", "note", "_txloom_deleted"]).to_pylist() # doctest: +NORMALIZE_WHITESPACE
    [{'id': 1, 'name': 'Eve', 'note': 'long', '_txloom_deleted': False},
     {'id': 2, 'name': None, 'note': None, '_txloom_deleted': True}]
    """
    images = Images.of(rows, changes, key, columns)
    numbers = n.read(images, rows, changes)
    moved = numbers.old != n.NOWHERE
    chained = np.zeros(numbers.keys + 1, np.bool_)  # the last element stands for NOWHERE
    chained[numbers.key[moved]] = chained[numbers.old[moved]] = True

    values = filled(numbers, images)
    known = known_before(images, rows.num_rows, changes)
    effects = null_columns(latest(numbers, chained, known), numbers, values, chained)
    if moved.any():
        effects = join(effects, follow(numbers, chained, known, values))
    xids = pa.chunked_array([*rows.column("_txloom_xid").chunks, *changes.column("_txloom_xid").chunks], pa.string())
    columns_of = table(effects, numbers, images, xids)
    if evidence:
        columns_of["_txloom_evidence"] = contradictions(
            effects, numbers, images, Compared(chained, cleaned), known, xids
        )
    added = [name for name in columns_of if name not in columns]
    return pa.Table.from_pydict({name: columns_of[name] for name in [*columns, *added]})


def known_before(images: Images, rows: int, changes: pa.Table) -> Known:
    """Return the function that says for events and column numbers whether the image before has the column.

    rows: the number of current rows, which come before the changes in the numbering of events.
    """

    def known(events: n.Ints, column: n.Ints) -> n.Flags:
        is_known = np.zeros(len(events), np.bool_)
        for number in np.unique(column):
            of_column = column == number
            is_known[of_column] = n.known(changes, events[of_column] - rows, images.plain[number])
        return is_known

    return known
