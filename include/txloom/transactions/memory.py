"""What one bucket of the buffer remembers of finished transactions, sorted by their hash: how long decides nothing."""

import numpy as np

from txloom.transactions import events as ev

REMEMBERED = 50_000
"""Finished transactions that a bucket remembers from call to call, and those that a landing to come may not know of. Of
those that it forgot a landing tells which of its transactions were finished before (events of the kind KNOWN), out of
the table `transactions`."""


AT_POSITION = np.dtype([("tx", "i8"), ("csn", "i8")])
"""A transaction that a landing says was finished before: hash of its id, and the csn of that time (-1: not known)."""


def none() -> np.ndarray:
    """Return a memory of nothing."""
    return np.empty(0, ev.FINISHED)


def recalled(finished: np.ndarray, waiting: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Remember again what a landing says was finished before it, but for what is being decided again.

    waiting: hashes of the transactions of which events are held.
    """
    known = batch[batch["kind"] == ev.KNOWN]
    known = known[~np.isin(known["tx"], finished["tx"]) & ~np.isin(known["tx"], waiting)]
    if not len(known):
        return finished
    _, first = np.unique(known["tx"], return_index=True)
    recalled_rows = np.empty(len(first), ev.FINISHED)
    for name in ev.FINISHED.names or ():
        recalled_rows[name] = known[name][first]
    return joined(finished, recalled_rows)


def without_reused(finished: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Forget transactions whose id another one has now.

    Metadata of this landing tells it with another csn, or a row lies behind its csn in the log.
    """
    is_row = batch["kind"] == ev.ROW
    named = batch[((batch["kind"] == ev.METADATA) & (batch["csn"] > 0)) | (is_row & (batch["count"] > 0))]
    if not len(finished) or not len(named):
        return finished
    position = np.minimum(np.searchsorted(finished["tx"], named["tx"]), len(finished) - 1)
    csn = finished["csn"][position]
    differs = np.where(named["kind"] == ev.ROW, named["count"] > csn, named["csn"] != csn)
    other = (finished["tx"][position] == named["tx"]) & (csn > 0) & differs
    kept: np.ndarray = finished[~np.isin(finished["tx"], named["tx"][other])]
    return kept


def joined(finished: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Remember more transactions."""
    both = np.concatenate([finished, new])
    return both[np.argsort(both["tx"], kind="stable")]


def newest(finished: np.ndarray, most: int, decided: int) -> np.ndarray:
    """Forget the oldest where there are more than are to be remembered, but none that a landing may not know of.

    decided: what landings up to this one finished, every landing that is to come knows. One that was landed before it
    was decided on what lies in front of it does not, in whatever batch it is taken in, then or by a rebuild.
    """
    if len(finished) <= most:
        return finished
    stays = finished["landing"] > decided
    stays[np.argsort(finished["at"], kind="stable")[len(finished) - most :]] = True
    kept: np.ndarray = finished[stays]
    return kept


def without_decided(arrived: np.ndarray) -> tuple[int, np.ndarray]:
    """Return up to which landing what was finished is known to all that is to come (-1: none), and the other events."""
    says = arrived["kind"] == ev.DECIDED
    return int(arrived["count"][says].max(initial=-1)), arrived[~says]
