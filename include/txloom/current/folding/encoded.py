"""Encode rows and changes as numbers for folding: keys, commit order, and the columns that changes leave or lack.

Events are the current rows, then the changes, numbered in that order. A current row counts as an event at its (csn,
pos), which replaces everything before it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyColumn
from txloom.current.folding.value_sources import Images

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ROW, INSERT, UPDATE, DELETE, TRUNCATE, NULL_COLUMN = range(6)
OPERATIONS = {"I": INSERT, "r": INSERT, "U": UPDATE, "D": DELETE, "T": TRUNCATE, "C": NULL_COLUMN}
"""C nulls the columns that `_txloom_absent` names in every row, as an insert without them does."""
NOWHERE = -1
CLEARED = -2
"""A source that is null because its column was dropped, not because no event has a value of it."""


@dataclass(frozen=True)
class Unchanged:
    """Columns that changes leave as they are: pairs of (event, column number), in ascending order of events."""

    event: Ints
    column: Ints

    def only(self, chosen: Flags) -> "Unchanged":
        """Return the pairs of the events that `chosen`, with one element per event, flags."""
        return self.where(chosen[self.event])

    def where(self, keep: Flags) -> "Unchanged":
        """Return the pairs that `keep`, with one element per pair, flags."""
        return Unchanged(self.event[keep], self.column[keep])


@dataclass(frozen=True)
class CompactChanges:
    """Current rows and changes as numbers, one element per event.

    rows: how many of the events are current rows. op: the operation. key: the key's number, NOWHERE for truncates and
    column nullings. old: the old key's number of a key change, else NOWHERE. order: the events in commit order; rank:
    the position of each event in it. sample: for each key number a source of the key's values. unchanged: the columns
    that changes leave as they are. cleared: the columns that inserts lack and column nullings name. taken: which events
    are rows of a snapshot, whose rows are not necessarily new.
    """

    rows: int
    op: Ints
    key: Ints
    old: Ints
    csn: Ints
    pos: Ints
    order: Ints
    rank: Ints
    sample: Ints
    unchanged: Unchanged
    cleared: Unchanged
    taken: Flags

    @property
    def keys(self) -> int:
        """Return how many different keys there are."""
        return len(self.sample)


def read(images: Images, rows: pa.Table, changes: pa.Table) -> CompactChanges:
    """Encode rows and changes as numbers.

    Raises:
        ValueError: An operation is unknown, a change lacks its key, or a csn or position is null.
    """
    count = rows.num_rows
    op = np.concatenate([np.full(count, ROW, np.int64), _operations(changes)])
    moved = _moved(images, op[count:])
    key, sample = _keys(images, moved)
    key, old_keys = key[: len(op)], key[len(op) :]
    old = np.full(len(op), NOWHERE, np.int64)
    old[count + moved] = old_keys
    key[(op == TRUNCATE) | (op == NULL_COLUMN)] = NOWHERE
    csn, pos = (np.concatenate([_whole(t, name) for t in (rows, changes)]) for name in ("_txloom_csn", "_txloom_pos"))
    order = np.lexsort((op == ROW, pos, csn))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    unchanged = _named(images, changes, "_txloom_unchanged")
    unchanged = unchanged.where(np.isin(op[unchanged.event], (INSERT, UPDATE)))
    cleared = _named(images, changes, "_txloom_absent")
    cleared = cleared.where(np.isin(op[cleared.event], (INSERT, NULL_COLUMN)))
    taken = pc.equal(changes.column("_txloom_op"), pa.scalar("r")).fill_null(False).to_numpy()
    taken = np.concatenate([np.zeros(count, np.bool_), taken])
    return CompactChanges(count, op, key, old, csn, pos, order, rank, sample, unchanged, cleared, taken)


def _whole(table: pa.Table, name: str) -> Ints:
    column = table.column(name)
    if column.null_count:
        raise ValueError(f"{name} is null in {column.null_count} rows or changes: without it they have no order")
    numbers: Ints = column.to_numpy().astype(np.int64, copy=False)
    return numbers


def _operations(changes: pa.Table) -> Ints:
    codes = pc.index_in(changes.column("_txloom_op"), value_set=pa.array(list(OPERATIONS)))
    if codes.null_count:
        strange = pc.unique(changes.column("_txloom_op").filter(pc.is_null(codes))).to_pylist()
        raise ValueError(f"unknown operations {strange}, expected one of {list(OPERATIONS)}")
    numbers: Ints = np.array(list(OPERATIONS.values()), np.int64)[codes.to_numpy()]
    return numbers


def _moved(images: Images, op: Ints) -> Ints:
    """Return the updates whose key before differs from the key after, as indices into the changes."""
    differs = np.zeros(len(op), np.bool_)
    for name in images.key:
        same = pc.equal(images.before(name), images.after(name)).fill_null(True)
        differs |= ~same.to_numpy()
    moved: Ints = np.flatnonzero(differs & (op == UPDATE))
    return moved


def known(changes: pa.Table, chosen: Ints, column: str) -> Flags:
    """Return for each chosen change whether its image before has the column."""
    lists = changes.column("_txloom_before_known").take(pa.array(chosen, pa.int64())).combine_chunks()
    is_known = np.zeros(len(chosen), np.bool_)
    is_column = pc.equal(pc.list_flatten(lists), pa.scalar(column))
    is_known[pc.list_parent_indices(lists).filter(is_column).to_numpy()] = True
    return is_known


def _keys(images: Images, moved: Ints) -> tuple[Ints, Ints]:
    """Return key numbers of rows, changes and the old keys of moved changes, and a source of each key's values."""
    if any(pc.any(images.lacks(name)).as_py() for name in images.key):
        raise ValueError(f"changes without a key ({', '.join(images.key)}) cannot be folded")
    events = images.rows + images.changes
    sources = np.concatenate([np.arange(events), events + moved])
    numbers = np.zeros(len(sources), np.int64)
    for name in images.key:
        parts = [*images.is_given(name).chunks, *images.before(name).take(pa.array(moved, pa.int64())).chunks]
        # pyarrow takes any type here, the stubs only known ones.
        values: AnyColumn = pa.chunked_array(parts, images.type_of(name))  # type: ignore[call-overload]
        encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = _dense(numbers * len(encoded.dictionary) + encoded.indices.to_numpy())
    sample = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    sample[numbers] = sources
    return numbers, sample


def _dense(numbers: Ints) -> Ints:
    dense: Ints = pa.array(numbers).dictionary_encode().indices.to_numpy().astype(np.int64)
    return dense


def _named(images: Images, changes: pa.Table, by: str) -> Unchanged:
    """Return the plain columns that a column of lists, `by`, names in each change."""
    lists = changes.column(by).combine_chunks()
    column = pc.index_in(pc.list_flatten(lists), value_set=pa.array(images.plain, pa.string())).fill_null(NOWHERE)
    event = images.rows + pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    number = column.to_numpy().astype(np.int64)
    return Unchanged(event, number).where(number != NOWHERE)
