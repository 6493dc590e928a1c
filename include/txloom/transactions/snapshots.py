"""Bound valid-through while a connector's snapshot is under way: nothing at or above its csn is shown (docs/adr/0024).

A snapshot comes as rows, each a separate transaction at the snapshot's csn, over hours and many landings. It has ended
once its last row, or any later event of the stream, was read: the connector sent all rows before. Rows may still be on
their way in other partitions, so the snapshot closes only with the next landing that took all that the source had.
"""

from dataclasses import dataclass

from txloom.transactions.events import NOWHERE


@dataclass(frozen=True)
class Shown:
    """What one landing shows of snapshots.

    rows: how many rows of snapshots; lowest, highest: their csns, None without any. last: the highest csn of a row that
    ends its snapshot. stream: the highest csn of an event that is no row of a snapshot. beside: how many rows were read
    beside the stream, which these snapshots do not concern. ahead: how many rows that
    `beside` does not count were read beside the stream, and may be ahead of it.
    """

    rows: int = 0
    lowest: int | None = None
    highest: int | None = None
    last: int = NOWHERE
    stream: int = NOWHERE
    beside: int = 0
    ahead: int = 0


@dataclass(frozen=True)
class Snapshots:
    """The state of snapshots after a landing.

    rows: how many rows of open snapshots; lowest, highest: their csns, None where none is open. ended: up to this csn
    the connector has sent all snapshots whole. closed: up to this csn they are landed whole.
    """

    rows: int = 0
    lowest: int | None = None
    highest: int | None = None
    ended: int = NOWHERE
    closed: int = NOWHERE

    @property
    def bound(self) -> int | None:
        """Return the csn up to which the source may be shown, None where no snapshot is open.

        >>> Snapshots(7, 40, 40).bound
        39
        """
        return None if self.lowest is None else self.lowest - 1

    @property
    def is_ending(self) -> bool:
        """Return whether one more landing would raise the bound, even one without new events."""
        return self.lowest is not None and self.lowest <= self.ended


def advanced(before: Snapshots, shown: Shown, *, everything: bool) -> Snapshots:
    """Return the state of snapshots after a landing.

    everything: whether the landing took all that the source had when it was planned. Rows at or below `closed` are
    late; they do not open a snapshot again.

    >>> first = advanced(Snapshots(), Shown(2, 40, 40, last=40), everything=True)
    >>> first.bound, advanced(first, Shown(), everything=True).bound
    (39, None)
    """
    closed = before.ended if everything else before.closed
    ended = max(before.ended, shown.last, shown.stream - 1)
    highest = max((csn for csn in (before.highest, shown.highest) if csn is not None), default=NOWHERE)
    if highest <= closed:
        return Snapshots(ended=ended, closed=closed)
    lowest = min(csn for csn in (before.lowest, shown.lowest) if csn is not None)
    return Snapshots(before.rows + shown.rows, max(lowest, closed + 1), highest, ended, closed)
