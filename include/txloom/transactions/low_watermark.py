"""The low watermark over a source's partitions: it makes a transaction whole where no metadata counts its events.

Transactions have csns that grow, and each partition shows them in that order. A partition that has shown a csn has
shown all its events of lower csns, so a transaction is whole when every partition has passed it (rule `progress`).
Where metadata counts the events, the low watermark of the metadata's partitions bounds valid-through (promise 4).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from txloom.transactions.events import NOWHERE


@dataclass(frozen=True)
class Partition:
    """What one partition has shown.

    csn: the highest csn, None before the first. at: when it last showed one, or was first seen, in microseconds.
    unreadable_since: the last csn before events that could not be read, if no csn came after them; else None.
    """

    csn: int | None
    at: int
    unreadable_since: int | None = None


UnreadableRange = tuple[int, int]
"""A first and a last csn: events of unknown transactions between them could not be read."""


def advanced(before: Partition, csns: Sequence[int | None], at: int) -> tuple[Partition, list[UnreadableRange]]:
    """Return a partition after a landing, and its new unreadable ranges.

    csns: the csn of each event in order of arrival, None if it could not be read. at: the landing's time, in
    microseconds.

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
    """The csn up to which every partition has shown all its events, NOWHERE before the first.

    unreadable_ranges: those that begin at or below it.
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
    """Return the low watermark over all partitions.

    Args:
        partitions: What each partition has shown.
        now: The time of the landing, in microseconds.
        idle_after: After how many microseconds without an event a partition is taken to hold no more events of csns
            that the others have shown; None: every partition is waited for.
        inclusive: Whether each csn comes once and in one partition, as in metadata; then the lowest csn counts itself.
        unreadable_ranges: Those that are already known; they are passed on.

    Returns:
        The low watermark; csn is NOWHERE while a busy partition has shown none.

    >>> low_watermark([Partition(345, 0), Partition(343, 0)], 10, None, inclusive=False)
    LowWatermark(csn=342, unreadable_ranges=())
    >>> low_watermark([Partition(345, 8), Partition(343, 0)], 10, 5, inclusive=False)
    LowWatermark(csn=344, unreadable_ranges=())
    """
    known = list(partitions)
    idle = [partition for partition in known if idle_after is not None and now - partition.at >= idle_after]
    busy = [partition for partition in known if partition not in idle]
    if any(partition.csn is None for partition in busy):
        return LowWatermark(NOWHERE, tuple(unreadable_ranges))
    lowest = min((partition.csn for partition in busy if partition.csn is not None), default=None)
    if lowest is not None:
        reached = lowest if inclusive else lowest - 1
    else:
        reached = max((partition.csn for partition in idle if partition.csn is not None), default=NOWHERE)
    open_ranges = [
        (partition.unreadable_since, reached)
        for partition in idle
        if partition.unreadable_since is not None and partition.unreadable_since <= reached
    ]
    return LowWatermark(reached, (*open_ranges, *unreadable_ranges))


def bounded(reached: LowWatermark | None, bound: int | None) -> LowWatermark | None:
    """Return the lower of a low watermark and a bound (csn); None stands for no limit, for either.

    >>> [each.csn for each in (bounded(None, 39), bounded(LowWatermark(345), 39), bounded(LowWatermark(20), 39))]
    [39, 39, 20]
    """
    if bound is None:
        return reached
    return LowWatermark(bound) if reached is None else replace(reached, csn=min(reached.csn, bound))
