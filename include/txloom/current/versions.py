"""The states of keys over time: a version per transaction that touched a key, and the intervals between them (SCD2)."""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from txloom.current.folding import encoded as n
from txloom.current.folding.chains import effects_of, walk
from txloom.current.folding.column_nulling import filled
from txloom.current.folding.effects import table
from txloom.current.folding.fold import known_before
from txloom.current.folding.value_sources import Images

AT = "_txloom_at"
SYSTEM_COLUMNS = (
    AT,
    "_txloom_csn",
    "_txloom_pos",
    "_txloom_xid",
    "_txloom_deleted",
    "_txloom_missing",
    "_txloom_committed_at",
)
INTERVAL = (
    "_txloom_valid_from",
    "_txloom_valid_to",
    "_txloom_valid_from_time",
    "_txloom_valid_to_time",
    "_txloom_is_current",
)


def versions(changes: pa.Table, *, key: Sequence[str], columns: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return one row per transaction and key that it touched: the declared columns as the transaction left them.

    changes: the whole history of some keys, in the schema of a mirror's history. schema: of the current table. Rows are
    in commit order. `_txloom_at` is the transaction's csn; `_txloom_csn` and `_txloom_pos` are those of its last change
    of the key (in a table without a key: those of the insert). `_txloom_deleted` marks a key without a row after the
    transaction.
    """
    images = Images.of(schema.empty_table(), changes, key, columns)
    numbers = n.read(images, schema.empty_table(), changes)
    everything = np.ones(numbers.keys + 1, np.bool_)
    changes_of_keys = [
        (number, event, places.by_key.get(number))
        for places, touched in walk(numbers, everything, known_before(images, 0, changes), filled(numbers, images))
        for number, event in touched.items()
        if event is not None
    ]
    effects = effects_of(changes_of_keys)
    rows = table(effects, numbers, images, changes.column("_txloom_xid"))
    rows[AT] = pa.array(numbers.csn[effects.last])
    rows["_txloom_committed_at"] = changes.column("_txloom_committed_at").take(pa.array(effects.last, pa.int64()))
    return pa.Table.from_pydict({name: rows[name] for name in [*columns, *SYSTEM_COLUMNS]})


def intervals(
    versions: pa.Table, *, key: Sequence[str], columns: Sequence[str], untracked: Collection[str] = ()
) -> pa.Table:
    """Return the intervals of rows: successive `versions` of one key are joined where no tracked column differs.

    A row holds from the csn `_txloom_valid_from` up to, but not including, `_txloom_valid_to` (null: it still holds);
    `_txloom_valid_from_time` and `_txloom_valid_to_time` are the same in commit time. Columns in `untracked` have their
    last value of the interval.
    """
    size = versions.num_rows
    group = _codes(versions, key)
    order = np.lexsort([versions.column(AT).to_numpy(), group])
    versions, group = versions.take(pa.array(order, pa.int64())), group[order]
    gone = versions.column("_txloom_deleted").to_numpy()
    tracked = _codes(versions, [name for name in columns if name not in untracked])
    first = np.ones(size, bool)
    first[1:] = (group[1:] != group[:-1]) | gone[1:] | gone[:-1] | (tracked[1:] != tracked[:-1])
    begins = np.flatnonzero(first)
    following = np.append(begins[1:], size)[: len(begins)]
    ends = following - 1
    closed = np.append(group, -1)[following] == group[ends]
    after = pa.array(following, pa.int64(), mask=~closed)
    rows = {name: versions.column(name).take(pa.array(ends, pa.int64())) for name in columns}
    csn, time = versions.column(AT), versions.column("_txloom_committed_at")
    bounds = (
        csn.take(pa.array(begins, pa.int64())),
        csn.take(after),
        time.take(pa.array(begins, pa.int64())),
        time.take(after),
        pa.array(~closed),
    )
    whole = pa.Table.from_pydict({**rows, **dict(zip(INTERVAL, bounds, strict=True))})
    return whole.filter(pa.array(~gone[begins]))


def _codes(rows: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Return a number for each row that is the same for rows with equal values; null equals null, NaN equals NaN."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in columns:
        column = rows.column(name).combine_chunks()
        if pa.types.is_nested(column.type):
            column = pa.array([repr(value) for value in column.to_pylist()], pa.string())
        encoded = column.dictionary_encode("encode")
        both = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(both, return_inverse=True)[1].reshape(-1)
    return codes
