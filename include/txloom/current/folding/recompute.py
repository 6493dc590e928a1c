"""Fold keys anew from their whole history, because a change is late: newer changes and deletes stand.

A current table is the fold of its history. Whoever folds a key anew takes none of its row's values from the row: a row
that its history does not produce is deleted, also where its history does not name it at all.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from txloom.arrow_types import AnyValues
from txloom.current.folding import encoded as n
from txloom.current.folding.column_nulling import of_all_rows
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold
from txloom.current.folding.value_sources import Images


class Reached(Protocol):
    """A watermark: every transaction up to a csn that was released up to a release."""

    @property
    def valid_through(self) -> int:
        """Return the csn."""
        ...

    @property
    def release(self) -> int:
        """Return the release."""
        ...


def new(changes: pa.Table, merged: Reached) -> n.Flags:
    """Return which changes, of those up to the watermark that a table gets, one at an earlier watermark lacks."""
    csn, release = (changes.column(name).to_numpy() for name in ("_txloom_csn", "_txloom_release"))
    return np.asarray((csn > merged.valid_through) | (release > merged.release), np.bool_)


def recompute(
    rows: pa.Table, history: pa.Table, merged: Reached, *, key: Sequence[str], columns: Sequence[str]
) -> pa.Table:
    """Return the effects on every key that new changes touch, as `fold` does; a new change of all rows touches all.

    Args:
        rows: The current rows of the keys that history names, in the schema of a current table; others may be among
            them. Only their keys and their places are read.
        history: All changes up to the watermark that the table gets: of some keys, of all keys that key changes
            connect with them, and those of the table (`column_nulling.of_all_rows`).
        merged: The watermark that the rows have.
        key: The key columns.
        columns: The declared columns.
    """
    numbers = n.read(Images.of(rows, history, key, key), rows, history)
    touched = _touched(numbers, history, merged)
    of_rows, of_changes = touched[numbers.key[: numbers.rows]], touched[numbers.key[numbers.rows :]]
    chosen = pa.concat_tables([history.filter(pa.array(of_changes)), of_all_rows(history)])
    effects = fold(rows.slice(0, 0), chosen, key=key, columns=columns)
    named = np.zeros(numbers.keys + 1, np.bool_)
    named[numbers.key[numbers.rows :]] = named[numbers.old] = True
    gone = rows.filter(pa.array(of_rows & ~named[numbers.key[: numbers.rows]]))
    return pa.concat_tables([effects, _deleted(gone, effects.schema, key)])


def _touched(numbers: n.CompactChanges, history: pa.Table, merged: Reached) -> n.Flags:
    """Return which keys have to be folded anew, by number; the last element, for NOWHERE, is False."""
    touched = np.zeros(numbers.keys + 1, np.bool_)
    is_new = np.concatenate([np.zeros(numbers.rows, np.bool_), new(history, merged)])
    if of_all_rows(history.filter(pa.array(is_new[numbers.rows :]))).num_rows:
        touched[:-1] = True
        return touched
    touched[numbers.key[is_new]] = touched[numbers.old[is_new]] = True
    moved = numbers.old != n.NOWHERE
    tied = components(zip(numbers.old[moved].tolist(), numbers.key[moved].tolist(), strict=True))
    together = np.arange(numbers.keys + 1)
    together[list(tied)] = list(tied.values())
    reached = np.zeros(numbers.keys + 1, np.bool_)
    reached[together[touched]] = True
    touched = reached[together]
    touched[n.NOWHERE] = False
    return touched


def _deleted(rows: pa.Table, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Return rows as effects that delete them: only their keys and places are filled."""
    kept = {*key, "_txloom_csn", "_txloom_pos", "_txloom_xid"}
    columns = dict[str, AnyValues]()
    for field in schema:
        if field.name in kept:
            columns[field.name] = rows.column(field.name).cast(field.type)
        elif field.name == "_txloom_deleted":
            columns[field.name] = pa.repeat(pa.scalar(True), rows.num_rows)
        else:
            columns[field.name] = pa.nulls(rows.num_rows, field.type)
    return pa.Table.from_pydict(columns, schema)
