"""Fold changes on keys that never change, in one pass over arrays: the last event of a key decides."""

from collections.abc import Callable

import numpy as np

from txloom.current.folding.effects import Effects
from txloom.current.folding.encoded import DELETE, INSERT, NOWHERE, ROW, TRUNCATE, CompactChanges, Flags, Ints

Known = Callable[[Ints, Ints], Flags]
"""(events, column numbers) -> whether the event's image before has the column."""


def latest(numbers: CompactChanges, chained: Flags, known: Known) -> Effects:
    """Return the effects on all keys but the chained ones."""
    event = np.flatnonzero((numbers.key != NOWHERE) & ~chained[numbers.key])
    best = np.full(numbers.keys + 1, NOWHERE, np.int64)
    np.maximum.at(best, numbers.key[event], numbers.rank[event])
    key = np.flatnonzero(best != NOWHERE)
    last = numbers.order[best[key]]
    source = np.where(numbers.op[last] == DELETE, NOWHERE, last)
    truncates = np.sort(numbers.rank[numbers.op == TRUNCATE])
    following = np.searchsorted(truncates, numbers.rank[last])
    cut = (source != NOWHERE) & (following < len(truncates))
    last[cut] = numbers.order[truncates[following[cut]]]
    source[cut] = NOWHERE
    touched = numbers.op[last] != ROW
    key, last, source = key[touched], last[touched], source[touched]
    return Effects(key, last, source, *_instead(numbers, key, known))


def _instead(numbers: CompactChanges, key: Ints, known: Known) -> tuple[Ints, Ints, Ints]:
    """Return (column, position of the key, source) for the columns that the last event of a key leaves unchanged."""
    sparse = numbers.unchanged
    has_sparse = np.zeros(numbers.keys + 1, np.bool_)
    has_sparse[numbers.key[sparse.event]] = True
    place_of = np.full(numbers.keys + 1, NOWHERE, np.int64)
    place_of[key[has_sparse[key]]] = np.flatnonzero(has_sparse[key])
    event = _alive(numbers, place_of)
    nulled = [np.empty((3, 0), np.int64)]
    for column in np.unique(sparse.column):
        leaves = np.zeros(len(numbers.key), np.bool_)
        leaves[sparse.event[sparse.column == column]] = True
        final, teller = _tellers(numbers, event, leaves[event])
        unknown = leaves[teller]
        source = teller.copy()
        source[unknown] = _before(numbers, teller[unknown], int(column), known)
        nulled.append(np.stack([np.full(len(final), column), place_of[numbers.key[final]], source]))
    columns, places, sources = np.concatenate(nulled, axis=1)
    return columns, places, sources


def _tellers(numbers: CompactChanges, event: Ints, leaves: Flags) -> tuple[Ints, Ints]:
    """Return the last events of keys that leave a column unchanged, and for each the last event with a value of it.

    event: in order of key and commit. leaves: which of these events leave the column unchanged. Where the row began
    with an update that leaves the column unchanged, that update is returned.
    """
    owner, op = numbers.key[event], numbers.op[event]
    other = owner[1:] != owner[:-1]
    begins = np.append(True, other | (op[:-1] == DELETE) | (op[1:] == INSERT))[: len(event)]
    teller = np.maximum.accumulate(np.where(begins | ~leaves, np.arange(len(event)), 0))
    final = np.flatnonzero(np.append(other, True)[: len(event)] & leaves)
    return event[final], event[teller[final]]


def _alive(numbers: CompactChanges, place_of: Ints) -> Ints:
    """Return the events since the last truncate of the keys with a position, ordered by key and commit order."""
    since = numbers.rank[numbers.op == TRUNCATE].max(initial=NOWHERE)
    event = np.flatnonzero((numbers.key != NOWHERE) & (place_of[numbers.key] != NOWHERE) & (numbers.rank > since))
    order: Ints = event[np.lexsort((numbers.rank[event], numbers.key[event]))]
    return order


def _before(numbers: CompactChanges, events: Ints, column: int, known: Known) -> Ints:
    """Return the sources of a column's values before some changes; NOWHERE if the images before lack it."""
    is_known = known(events, np.full(len(events), column, np.int64))
    changes = len(numbers.key) - numbers.rows
    return np.where(is_known, events + changes, NOWHERE)
