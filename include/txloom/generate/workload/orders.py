"""The workload: order entry as a sequence of transactions that a seed decides.

Each transaction has a separate random stream, from the seed and its number. So a run that continues another makes the
same transactions as one long run, and no fault or format changes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from txloom.generate.workload import extras, order_entry, removal
from txloom.generate.workload.changes import LSN_STEP, Change, Transaction, short_moment
from txloom.generate.workload.settings import Shares, Sizes
from txloom.generate.workload.source import Source, Work
from txloom.generate.workload.values import Draw

Statement = Callable[[Work], bool]

ENTRIES: tuple[Statement, ...] = (
    *(order_entry.place_order,) * 9,
    *(order_entry.change_order,) * 5,
    *(order_entry.change_line,) * 4,
    *(order_entry.change_details,) * 2,
    *(order_entry.add_line,) * 2,
    *(order_entry.move_line, extras.add_attachment, extras.change_attachment),
    *(extras.change_codes, extras.use_a_code, extras.write_audit),
)
"""Statements that insert and update; one that is listed twice is twice as frequent."""
DELETES: tuple[Statement, ...] = (
    *(removal.delete_order, removal.delete_order, removal.delete_line, removal.delete_line),
    *(removal.delete_attachment, removal.delete_use, removal.delete_code, removal.replace_order),
)
KEY_CHANGES: tuple[Statement, ...] = (
    *(removal.rekey_order, removal.rekey_order, removal.rekey_twice, removal.swap_keys),
    *(removal.rekey_line, removal.rekey_attachment),
)
TRUNCATES: tuple[Statement, ...] = (removal.truncate_attachments, removal.truncate_uses)
LOADS: tuple[Statement, ...] = (order_entry.load_order,)
SMALLEST: tuple[Statement, ...] = (order_entry.change_order, extras.change_codes)
"""Statements that change one row, tried when no other fits; the last one always fits."""
SEEDS = 1 << 40
"""How many transactions a seed has before it would repeat those of another seed."""
LONGEST = 2_000_000
"""The most microseconds that a transaction takes."""


@dataclass
class Position:
    """The state of a workload: how many transactions it made, and the last one's csn, position and microsecond."""

    number: int
    csn: int
    pos: int
    until: int


@dataclass
class Workload:
    """A seeded source. gap: microseconds between two commits, on average."""

    seed: int
    source: Source
    position: Position
    sizes: Sizes
    shares: Shares
    gap: int

    def __post_init__(self) -> None:
        """Prepare the random stream, which every transaction restarts."""
        self._draw = Draw()

    def transactions(self, count: int, large: int = 0) -> Iterator[Transaction]:
        """Yield `count` committed transactions; with `large`, the one in the middle changes so many rows."""
        for number in range(count):
            yield self._transaction(large if number == count // 2 else 0)

    def _transaction(self, large: int) -> Transaction:
        last, draw = self.position, self._draw
        draw.restart(self.seed * SEEDS + last.number)
        committed = last.until + 1 + int(2 * self.gap * draw.unit())
        begun = committed - draw.below(LONGEST)
        size = 0 if draw.happens(self.shares.empty) else self.sizes.draw(draw)
        work = Work(self.source, draw, large or size, short_moment(committed))
        while work.room > 0:
            _first_that_fits(work, LOADS if large else self._choice(draw), draw)
        csn = last.csn + LSN_STEP * (len(work.changes) + 2 + draw.below(8))
        # Formats without transactions order changes by their time, so each change gets different microseconds.
        until = committed + sum([_messages(change) for change in work.changes])
        self.position = Position(last.number + 1, csn, last.pos + len(work.changes), until)
        return Transaction(
            last.number, _xid(last.number), csn, last.csn, last.pos + 1, begun, committed, until, work.changes
        )

    def _choice(self, draw: Draw) -> tuple[Statement, ...]:
        lot, shares = draw.unit(), self.shares
        for share, statements in (
            (shares.deletes, DELETES),
            (shares.key_changes, KEY_CHANGES),
            (shares.truncates, TRUNCATES),
        ):
            if lot < share:
                return statements
            lot -= share
        return ENTRIES


def _first_that_fits(work: Work, statements: tuple[Statement, ...], draw: Draw) -> None:
    first = draw.below(len(statements))
    for statement in (*statements[first:], *statements[:first], *SMALLEST):
        if statement(work):
            return


def _messages(change: Change) -> int:
    """Return the most messages that any format writes for a change."""
    return 2 + len(change.removed)


def _xid(number: int) -> int:
    """Return a transaction's id, which the source assigns when it begins, so that ids are not in commit order."""
    return 1000 + number - number % 8 + (5 * number + 3) % 8
