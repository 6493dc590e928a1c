"""Keys that never change: the last event of a key decides, in one pass over arrays."""

from collections.abc import Callable

import numpy as np

from txloom.current.effects import Effects
from txloom.current.numbers import DELETE, INSERT, NOWHERE, ROW, TRUNCATE, Flags, Ints, Numbers

Known = Callable[[Ints, Ints], Flags]
"""(events, column numbers) -> whether the event tells the column's value before it."""


def latest(numbers: Numbers, chained: Flags, known: Known) -> Effects:
    """Return the effects on all keys but the chained ones."""
    event = np.flatnonzero((numbers.key != NOWHERE) & ~chained[numbers.key])
    by_rank = np.argsort(numbers.rank)
    best = np.full(numbers.keys + 1, NOWHERE, np.int64)
    np.maximum.at(best, numbers.key[event], numbers.rank[event])
    key = np.flatnonzero(best != NOWHERE)
    last = by_rank[best[key]]
    source = np.where(numbers.op[last] == DELETE, NOWHERE, last)
    truncates = np.sort(numbers.rank[numbers.op == TRUNCATE])
    following = np.searchsorted(truncates, numbers.rank[last])
    cut = (source != NOWHERE) & (following < len(truncates))
    last[cut] = by_rank[truncates[following[cut]]]
    source[cut] = NOWHERE
    touched = numbers.op[last] != ROW
    key, last, source = key[touched], last[touched], source[touched]
    return Effects(key, last, source, *_instead(numbers, key, source, chained, known))


def _instead(numbers: Numbers, key: Ints, source: Ints, chained: Flags, known: Known) -> tuple[Ints, Ints, Ints]:
    """Find where columns come from that the last events leave unchanged: from the last event that told them."""
    sparse = numbers.unchanged
    if not len(sparse.event):
        return (np.empty(0, np.int64),) * 3
    place_of = np.full(numbers.keys + 1, NOWHERE, np.int64)
    place_of[numbers.key[sparse.event]] = 0
    place_of[chained] = NOWHERE
    wanted = (source != NOWHERE) & (place_of[key] != NOWHERE)
    place_of[:] = NOWHERE
    place_of[key[wanted]] = np.flatnonzero(wanted)
    event = _alive(numbers, place_of)
    owner = numbers.key[event]
    first = np.ones(len(event), np.bool_)
    first[1:] = (owner[1:] != owner[:-1]) | (numbers.op[event[:-1]] == DELETE) | (numbers.op[event[1:]] == INSERT)
    final = np.flatnonzero(np.append(owner[1:] != owner[:-1], True)) if len(event) else np.empty(0, np.int64)
    found = []
    for column in np.unique(sparse.column):
        leaves = np.zeros(len(numbers.key), np.bool_)
        leaves[sparse.event[sparse.column == column]] = True
        left = leaves[event]
        teller = np.maximum.accumulate(np.where(first | ~left, np.arange(len(event)), 0))[final]
        here = left[final]
        teller, place = teller[here], place_of[owner[final[here]]]
        instead = event[teller].copy()
        untold = left[teller]
        instead[untold] = _before(numbers, event[teller[untold]], int(column), known)
        found.append((np.full(len(place), column, np.int64), place, instead))
    parts = list(zip(*found, strict=True))
    return np.concatenate(parts[0]), np.concatenate(parts[1]), np.concatenate(parts[2])


def _alive(numbers: Numbers, place_of: Ints) -> Ints:
    """Return the events since the last truncate and the current row of the keys that have a place, ordered by key."""
    truncates = numbers.rank[numbers.op == TRUNCATE]
    since = np.full(numbers.keys + 1, truncates.max(initial=NOWHERE), np.int64)
    rows = np.arange(numbers.rows)
    np.maximum.at(since, numbers.key[rows], numbers.rank[rows])
    mine = (numbers.key != NOWHERE) & (place_of[numbers.key] != NOWHERE) & (numbers.rank >= since[numbers.key])
    event = np.flatnonzero(mine)
    order: Ints = event[np.lexsort((numbers.rank[event], numbers.key[event]))]
    return order


def _before(numbers: Numbers, events: Ints, column: int, known: Known) -> Ints:
    """Return the sources of a column's values before some changes; NOWHERE if they do not tell it."""
    told = known(events, np.full(len(events), column, np.int64))
    changes = len(numbers.key) - numbers.rows
    return np.where(told, events + changes, NOWHERE)
