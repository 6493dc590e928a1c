"""Judge whether rows may be missing between several producer runs that sent one transaction (docs/adr/0031).

A producer that restarts inside a transaction continues from the position that it stored. Each run sends rows without
a gap, in the order of the source's log, so between two runs that both sent some row nothing is missing. Where they
share no row, rows between them may be missing, whatever the metadata counts: inside a COPY all rows lie at one position
of the log, and after a restart Debezium leaves out rows at the position that it stored.
"""

import numpy as np

from txloom.transactions import events as ev

ONE = 0
"""All rows come from one run, or their runs are unknown."""
CONNECTED = 1
"""Rows come from several runs, and the runs share rows: nothing is missing between them."""
UNCONNECTED = 2
"""Rows come from several runs, and some may be missing between them."""


def judged(events: np.ndarray, number: np.ndarray, size: int, keyless: frozenset[int]) -> np.ndarray:
    """Return, for each transaction, ONE, CONNECTED or UNCONNECTED.

    events: deduplicated, sorted by transaction, with the records of their duplicates (REPEATED). number: the
    transaction of each, from 0 to size. keyless: hashes of tables in which two rows may have one identity, so that
    sharing it proves nothing. Duplicates alone do not make a transaction suspect: one run sent every row then.
    """
    verdicts = np.zeros(size, np.int64)
    kind = events["kind"]
    sent = ((kind == ev.ROW) | (kind == ev.REPEATED)) & (events["run"] != 0)
    first = np.zeros(size, np.int64)
    kept = sent & (kind == ev.ROW)
    first[number[kept][::-1]] = events["run"][kept][::-1]
    several = np.unique(number[kept][events["run"][kept] != first[number[kept]]])
    for tx in several:
        start, end = np.searchsorted(number, [tx, tx + 1])
        rows = events[start:end][sent[start:end]]
        verdicts[tx] = CONNECTED if _share_rows(rows, keyless) else UNCONNECTED
    return verdicts


def _share_rows(rows: np.ndarray, keyless: frozenset[int]) -> bool:
    """Return whether the runs of some rows are all connected by rows that two of them sent."""
    runs, run = np.unique(rows["run"], return_inverse=True)
    provable = ~np.isin(rows["table"], list(keyless))
    names = [rows[name][provable] for name in ("identity", "table")]
    run = run.reshape(-1)[provable]
    order = np.lexsort([run, *names])
    same = np.ones(max(len(order) - 1, 0), bool)
    for name in names:
        same &= name[order][1:] == name[order][:-1]
    pairs = np.unique(np.column_stack([run[order][:-1], run[order][1:]])[same], axis=0)
    return _is_one_group(len(runs), pairs)


def _is_one_group(size: int, pairs: np.ndarray) -> bool:
    """Return whether pairs connect all numbers below a size.

    >>> _is_one_group(3, np.array([[0, 1], [1, 2]])), _is_one_group(3, np.array([[0, 1]]))
    (True, False)
    """
    reached = {0}
    for _ in range(size):
        reached |= {int(number) for pair in pairs if reached & {int(member) for member in pair} for number in pair}
    return len(reached) == size
