"""How far every partition of a source has gone: what makes a transaction whole where nothing counts its events.

Transactions have ids that grow, and a partition shows them in that order. Whoever has shown an id has shown all events
of the lower ones that it will ever show: so a transaction is whole when every partition has gone past it (rule
`progress`). Where metadata counts the events, the same bounds valid-through by the metadata's partitions (promise 4).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from txloom.transactions.events import NOWHERE


@dataclass(frozen=True)
class Partition:
    """What one partition has shown.

    csn: the highest id, None before the first. at: when it last showed one, or was first seen; in microseconds. torn:
    the id behind which came events that nobody could read, and nothing since; None where there were none.
    """

    csn: int | None
    at: int
    torn: int | None = None


Hole = tuple[int, int]
"""Ids, from one to another: events between them could not be read, and whose they were is not known."""


def advanced(before: Partition, told: Sequence[int | None], at: int) -> tuple[Partition, list[Hole]]:
    """Return a partition after a landing, and its holes; told: the id of each event in order, None: unreadable.

    >>> advanced(Partition(7, 0), [8, None, 9, None], 5)
    (Partition(csn=9, at=5, torn=9), [(8, 9)])
    """
    last, torn, highest, holes = before.csn, before.torn, before.csn, list[Hole]()
    for csn in told:
        if csn is None:
            torn = torn if torn is not None else last or 0
            continue
        if torn is not None:
            holes.append((min(torn, csn), max(torn, csn)))
            torn = None
        last, highest = csn, csn if highest is None else max(highest, csn)
    return Partition(highest, at if told else before.at, torn), holes


@dataclass(frozen=True)
class Frontier:
    """Up to which id every transaction has shown all its events, NOWHERE before the first; and the holes below it."""

    csn: int
    holes: Sequence[Hole] = ()


def frontier(
    partitions: Iterable[Partition],
    now: int,
    idle_after: int | None,
    *,
    inclusive: bool,
    holes: Iterable[Hole] = (),
) -> Frontier:
    """Return how far all partitions together are; holes: those that are known already.

    now, idle_after: in microseconds; a partition that showed nothing for so long is taken to have nothing more of what
    the others have shown; None: each is waited for. inclusive: an id comes once in one partition, as in metadata.

    >>> frontier([Partition(345, 0), Partition(343, 0)], 10, None, inclusive=False)
    Frontier(csn=342, holes=())
    >>> frontier([Partition(345, 8), Partition(343, 0)], 10, 5, inclusive=False)
    Frontier(csn=344, holes=())
    """
    known = list(partitions)
    idle = [each for each in known if idle_after is not None and now - each.at >= idle_after]
    busy = [each for each in known if each not in idle]
    if any(each.csn is None for each in busy):
        return Frontier(NOWHERE, tuple(holes))
    lowest = min((each.csn for each in busy if each.csn is not None), default=None)
    if lowest is not None:
        reached = lowest if inclusive else lowest - 1
    else:
        reached = max((each.csn for each in idle if each.csn is not None), default=NOWHERE)
    torn = [(each.torn, reached) for each in idle if each.torn is not None and each.torn <= reached]
    return Frontier(reached, (*torn, *holes))


def bounded(reached: Frontier | None, bound: int | None) -> Frontier | None:
    """Return how far a source is that is not to be shown above a bound; None stands for no bound, of either.

    >>> bounded(None, 39), bounded(Frontier(345), 39), bounded(Frontier(20), 39)
    (Frontier(csn=39, holes=()), Frontier(csn=39, holes=()), Frontier(csn=20, holes=()))
    """
    if bound is None:
        return reached
    return Frontier(bound) if reached is None else replace(reached, csn=min(reached.csn, bound))
