"""While a connector's snapshot is under way, nothing at or above its csn may be shown (docs/adr/0024).

A snapshot comes as rows, each a transaction of its own at the snapshot's csn, over hours and many landings. It is over
once its last row was seen, or anything of the stream behind it: the connector sent all rows before. What it sent may
still be in flight in other partitions, so that this is believed from the next landing on that left nothing out.
"""

from dataclasses import dataclass

from txloom.transactions.events import NOWHERE


@dataclass(frozen=True)
class Shown:
    """What one landing shows. rows: of snapshots, between two csns, None without any.

    last: the highest csn of a row that ends its snapshot; stream: of anything that is no row of a snapshot.
    """

    rows: int = 0
    lowest: int | None = None
    highest: int | None = None
    last: int = NOWHERE
    stream: int = NOWHERE


@dataclass(frozen=True)
class Snapshots:
    """How far snapshots are after a landing.

    rows: of open ones, between two csns, None where none is open. ended: up to this csn all are known to be sent whole.
    closed: up to this csn they are landed whole.
    """

    rows: int = 0
    lowest: int | None = None
    highest: int | None = None
    ended: int = NOWHERE
    closed: int = NOWHERE

    @property
    def bound(self) -> int | None:
        """Return up to which csn the source may be shown; None: a snapshot bounds nothing.

        >>> Snapshots(7, 40, 40).bound
        39
        """
        return None if self.lowest is None else self.lowest - 1

    @property
    def is_ending(self) -> bool:
        """Tell whether one more landing would show more, also one that finds nothing new."""
        return self.lowest is not None and self.lowest <= self.ended


def advanced(before: Snapshots, shown: Shown, *, everything: bool) -> Snapshots:
    """Return how far snapshots are after a landing; everything: it took all that the source had when it was planned.

    Rows that come at or below what is closed are late; they open nothing again.

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
