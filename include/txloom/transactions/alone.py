"""Which events can be decided without the landings before and after theirs: most, when many landings come at once."""

import numpy as np

from txloom.transactions import events as ev

PLAIN = (ev.ROW, ev.METADATA, ev.EXPECTED)


def alone(arrived: np.ndarray, held: np.ndarray, finished: np.ndarray) -> np.ndarray:
    """Find the events of transactions of which nothing is known yet, and all that came lies in one landing.

    arrived: events and clocks of some landings. held, finished: hashes of transactions that wait, or are remembered. A
    transaction that a mark concerns is none, nor is one of a landing that is not over.
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
