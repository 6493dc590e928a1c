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

    csn: the highest id, None before the first. at: when it last showed one, or was first seen; in microseconds.
    unreadable_since: the id behind which came events that could not be read, and nothing since; None: none.
    """

    csn: int | None
    at: int
    unreadable_since: int | None = None


UnreadableRange = tuple[int, int]
"""Ids, from one to another: events between them could not be read, and whose they were is not known."""


def advanced(before: Partition, csns: Sequence[int | None], at: int) -> tuple[Partition, list[UnreadableRange]]:
    """Return a partition after a landing, and its new unreadable ranges.

    csns: the id of each event in the order in which they came, None: it could not be read. at: when, in microseconds.

    >>> advanced(Partition(7, 0), [8, None, 9, None], 5)
    (Partition(csn=9, at=5, unreadable_since=9), [(8, 9)])
    """
    last, highest, ranges = before.csn, before.csn, list[UnreadableRange]()
    since = before.unreadable_since
    for csn in csns:
        if csn is None:
            since = since if since is not None else last or 0
            continue
        if since is not None:
            ranges.append((min(since, csn), max(since, csn)))
            since = None
        last, highest = csn, csn if highest is None else max(highest, csn)
    return Partition(highest, at if csns else before.at, since), ranges


@dataclass(frozen=True)
class LowWatermark:
    """Up to which id every transaction has shown all its events, NOWHERE before the first.

    unreadable_ranges: those below it.
    """

    csn: int
    unreadable_ranges: Sequence[UnreadableRange] = ()


def low_watermark(
    partitions: Iterable[Partition],
    now: int,
    idle_after: int | None,
    *,
    inclusive: bool,
    unreadable_ranges: Iterable[UnreadableRange] = (),
) -> LowWatermark:
    """Return how far all partitions together are; unreadable_ranges: those that are known already.

    now, idle_after: in microseconds; a partition that showed nothing for so long is taken to have nothing more of what
    the others have shown; None: each is waited for. inclusive: an id comes once in one partition, as in metadata.

    >>> low_watermark([Partition(345, 0), Partition(343, 0)], 10, None, inclusive=False)
    LowWatermark(csn=342, unreadable_ranges=())
    >>> low_watermark([Partition(345, 8), Partition(343, 0)], 10, 5, inclusive=False)
    LowWatermark(csn=344, unreadable_ranges=())
    """
    known = list(partitions)
    idle = [each for each in known if idle_after is not None and now - each.at >= idle_after]
    busy = [each for each in known if each not in idle]
    if any(each.csn is None for each in busy):
        return LowWatermark(NOWHERE, tuple(unreadable_ranges))
    lowest = min((each.csn for each in busy if each.csn is not None), default=None)
    if lowest is not None:
        reached = lowest if inclusive else lowest - 1
    else:
        reached = max((each.csn for each in idle if each.csn is not None), default=NOWHERE)
    open_ranges = [
        (each.unreadable_since, reached)
        for each in idle
        if each.unreadable_since is not None and each.unreadable_since <= reached
    ]
    return LowWatermark(reached, (*open_ranges, *unreadable_ranges))


def bounded(reached: LowWatermark | None, bound: int | None) -> LowWatermark | None:
    """Return how far a source is that is not to be shown above a bound; None stands for no bound, of either.

    >>> [each.csn for each in (bounded(None, 39), bounded(LowWatermark(345), 39), bounded(LowWatermark(20), 39))]
    [39, 39, 20]
    """
    if bound is None:
        return reached
    return LowWatermark(bound) if reached is None else replace(reached, csn=min(reached.csn, bound))
