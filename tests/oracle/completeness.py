"""How far a pipeline may publish, from what it has heard so far (counts: metadata names the events of each table)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

from oracle.capture import Capture, messages
from oracle.declarations import TABLES, Table


def valid_through(capture: Capture, finished: Collection[str] = ()) -> int | None:
    """Return the largest csn at or below which every transaction heard of is whole, or None when there is none.

    Transactions (xids) in `finished` are dead-lettered gaps and hold nothing up. The csn is that of a transaction.
    """
    bound = capture.highest_metadata_csn
    if bound is None:
        return None
    waiting = [t.csn for t in capture.transactions if not t.whole and t.xid not in finished]
    first_waiting = min(waiting, default=inf)
    return max((t.csn for t in capture.transactions if t.csn <= bound and t.csn < first_waiting), default=None)


@dataclass(frozen=True)
class Progress:
    """Where a pipeline stands after an arrival; `heard` is a capture of the messages up to then."""

    arrival: Path
    valid_through: int | None
    released: frozenset[str]
    waiting: frozenset[str]
    heard: Capture


def progress(arrivals: Iterable[Path], tables: Mapping[str, Table] = TABLES) -> Iterator[Progress]:
    """Yield the progress after each arrival; valid-through never moves backwards."""
    capture, reached = Capture(tables), None
    for arrival in arrivals:
        for _, message in messages(arrival):
            capture.take(message)
        now = valid_through(capture)
        reached = max((csn for csn in (reached, now) if csn is not None), default=None)
        whole = {transaction.xid: transaction.whole for transaction in capture.transactions}
        released = frozenset(xid for xid, is_whole in whole.items() if is_whole)
        yield Progress(arrival, reached, released, frozenset(whole) - released, capture.copy())
