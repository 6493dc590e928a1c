"""The finished transactions that one bucket of the buffer remembers, sorted by hash.

How long they are remembered does not change any decision.
"""

import numpy as np

from txloom.transactions import events as ev

REMEMBERED = 50_000
"""How many finished transactions a bucket remembers from call to call, beside those that a later landing may not know
of. A landing names which of its transactions were finished before (events of the kind KNOWN, read from the table
`transactions`), so that forgotten ones are recalled."""


AT_POSITION = np.dtype([("tx", "i8"), ("csn", "i8")])
"""A transaction that was finished before a landing: hash of its id, and the csn of that time (-1: not known)."""


def none() -> np.ndarray:
    """Return an empty array of finished transactions."""
    return np.empty(0, ev.FINISHED)


def recalled(finished: np.ndarray, waiting: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return the finished transactions with those that the landing's KNOWN events name.

    waiting: hashes of the transactions whose events are held; these are being decided again and are not added.
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
    """Return the finished transactions without those whose id was reused by another transaction.

    The id was reused if metadata of this landing has another csn, or a row lies after its csn in the log.
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
    """Return finished transactions and new ones together, sorted by hash."""
    return ev.ordered(ev.concatenate([finished, new]), ["tx"])


def newest(finished: np.ndarray, most: int, decided: int) -> np.ndarray:
    """Return at most `most` finished transactions, the newest, and all that a later landing may not know of.

    decided: transactions that landings up to this one finished are known to every later landing. A landing that was
    written before the landings in front of it were decided does not know theirs, in whatever batch it is taken in,
    live or by a rebuild.
    """
    if len(finished) <= most:
        return finished
    stays = finished["landing"] > decided
    stays[np.argsort(finished["at"], kind="stable")[len(finished) - most :]] = True
    kept: np.ndarray = finished[stays]
    return kept


def without_decided(arrived: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the highest `count` of DECIDED events (-1: none), and the other events.

    Whatever the landings up to that number finished is known to all later landings.
    """
    is_decided = arrived["kind"] == ev.DECIDED
    return int(arrived["count"][is_decided].max(initial=-1)), ev.chosen(arrived, ~is_decided)
