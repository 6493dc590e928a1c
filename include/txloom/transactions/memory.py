"""What one bucket of the buffer remembers of finished transactions, sorted by their hash: how long decides nothing."""

import numpy as np

from txloom.transactions import events as ev

REMEMBERED = 50_000
"""Finished transactions that a bucket remembers from call to call. Of those that it forgot a landing tells which of its
transactions were finished before (events of the kind KNOWN), out of the table `transactions`."""


PLACED = np.dtype([("tx", "i8"), ("csn", "i8")])
"""A transaction that a landing says was finished before: hash of its id, and the csn of that time (-1: not known)."""


def none() -> np.ndarray:
    """Return a memory of nothing."""
    return np.empty(0, ev.FINISHED)


def recalled(finished: np.ndarray, waiting: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Remember again what a landing says was finished before it, but for what is being decided again.

    waiting: the events that are held.
    """
    known = batch[batch["kind"] == ev.KNOWN]
    if not len(known):
        return finished
    _, first = np.unique(np.stack((known["tx"], known["csn"])), axis=1, return_index=True)
    found = np.empty(len(first), ev.FINISHED)
    for name in ev.FINISHED.names or ():
        found[name] = known[name][first]
    found = joined(none(), found)
    own = finished[np.isin(finished["tx"], found["tx"])]
    there = set(zip(own["tx"].tolist(), own["csn"].tolist(), strict=True))
    is_new = [each not in there for each in zip(found["tx"].tolist(), found["csn"].tolist(), strict=True)]
    new = np.array(is_new) & ~_met(found, waiting)
    return joined(finished, found[new]) if new.any() else finished


def entries(finished: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Return for each event which of the remembered transactions it is of, -1 for none.

    Ids come back: of those of one id a row is of the first that does not lie in front of its place in the log, and
    metadata of the one whose csn it tells. An event that tells neither is of any, and any event of one without a csn.
    """
    if not len(finished):
        return np.full(len(events), -1)
    first = np.searchsorted(finished["tx"], events["tx"], "left")
    end = np.searchsorted(finished["tx"], events["tx"], "right")
    is_row = events["kind"] == ev.ROW
    told, found = np.where(is_row, events["count"], events["csn"]), first.copy()
    for _ in range(int((end - first).max(initial=0))):
        csn = finished["csn"][np.minimum(found, len(finished) - 1)]
        found += (found < end) & (csn > 0) & (csn < told)
    csn = finished["csn"][np.minimum(found, len(finished) - 1)]
    other = ~is_row & (told > 0) & (csn > 0) & (csn != told)
    return np.where((found < end) & ~other, found, -1)


def _met(finished: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Say of which of the remembered transactions there are events."""
    found = entries(finished, events)
    met = np.zeros(len(finished), bool)
    met[found[found >= 0]] = True
    return met


def without(finished: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Forget the transactions that events are of."""
    kept: np.ndarray = finished[~_met(finished, events)]
    return kept


def joined(finished: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Remember more transactions; those of one id lie in commit order."""
    both = np.concatenate([finished, new])
    both = both[np.argsort(both["tx"], kind="stable")]
    came_back = bool((both["tx"][1:] == both["tx"][:-1]).any())
    return both[np.lexsort((both["csn"], both["tx"]))] if came_back else both


def newest(finished: np.ndarray, most: int) -> np.ndarray:
    """Forget the oldest where there are more than are to be remembered.

    Not before a call is over: what it decided itself no landing in it could know of.
    """
    if len(finished) <= most:
        return finished
    return joined(none(), finished[np.argsort(finished["at"], kind="stable")[-most:]])
