"""Find events that can be decided without the landings before and after theirs.

When many landings are taken in at once, these are most events.
"""

import numpy as np

from txloom.transactions import events as ev

PLAIN = (ev.ROW, ev.ROWS, ev.METADATA, ev.EXPECTED)


def alone(arrived: np.ndarray, held: np.ndarray, finished: np.ndarray) -> np.ndarray:
    """Return a mask over `arrived`: events of transactions that are new, and whose events all lie in one landing.

    arrived: events and clocks of some landings. held, finished: hashes of transactions that wait, or are remembered.
    The mask leaves out transactions with an event of another kind than PLAIN (REOPEN or KNOWN, for example), and those
    of a landing without a clock, because it is not over.
    """
    kind, landing = arrived["kind"], arrived["landing"]
    of_transaction = (kind != ev.CLOCK) & (kind != ev.UNREADABLE_RANGE)
    tx, number = np.unique(arrived["tx"], return_inverse=True)
    number = number.reshape(-1)
    first, last = np.full(len(tx), ev.LARGEST), np.full(len(tx), -1)
    np.minimum.at(first, number[of_transaction], landing[of_transaction])
    np.maximum.at(last, number[of_transaction], landing[of_transaction])
    marked = np.bincount(number[of_transaction & ~np.isin(kind, PLAIN)], minlength=len(tx)) > 0
    known = np.isin(tx, held) | np.isin(tx, finished)
    over = np.isin(first, landing[kind == ev.CLOCK])
    is_alone: np.ndarray = of_transaction & ((first == last) & ~marked & ~known & over)[number]
    return is_alone
