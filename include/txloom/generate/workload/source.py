"""The current rows of the source: orders with their rows in other tables, and promotion codes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from txloom.generate.workload.changes import Change
from txloom.generate.workload.tables import (
    ATTACHMENTS,
    CODES,
    DETAILS,
    LINES,
    ORDERS,
    USES,
    AttachmentRow,
    CodeRow,
    DetailsRow,
    LineRow,
    OrderRow,
    Row,
    SourceTable,
    UseRow,
)
from txloom.generate.workload.values import Draw

TOUCHED_AGAIN = 0.2
"""How often a statement takes the order of the last statement, so that a transaction changes a row several times."""


class Order:
    """An order and its rows in other tables; `index` is its position among the source's orders."""

    __slots__ = ("attachments", "details", "index", "lines", "row", "uses")

    def __init__(self, row: OrderRow) -> None:
        """Begin with an order without rows in other tables."""
        self.row = row
        self.details: DetailsRow | None = None
        self.lines: list[LineRow] = []
        self.attachments: list[AttachmentRow] = []
        self.uses: list[UseRow] = []
        self.index = -1

    @property
    def rows(self) -> int:
        """Return how many rows the order has in all tables."""
        return 1 + (self.details is not None) + len(self.lines) + len(self.attachments) + len(self.uses)


@dataclass
class Source:
    """All rows of the source, and how many of each kind it ever made, from which new keys are derived."""

    orders: list[Order] = field(default_factory=list)
    codes: list[CodeRow] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    attached: set[Order] = field(default_factory=set)
    discounted: set[Order] = field(default_factory=set)

    def next_number(self, kind: str) -> int:
        """Count one more row of a kind, and return how many were ever made."""
        number = self.made[kind] = self.made.get(kind, 0) + 1
        return number

    def add(self, order: Order) -> None:
        """Add an order."""
        order.index = len(self.orders)
        self.orders.append(order)

    def remove(self, order: Order) -> None:
        """Remove an order; the last order takes its index."""
        last = self.orders.pop()
        if last is not order:
            self.orders[order.index] = last
            last.index = order.index
        for use in order.uses:
            self.used[use.code] -= 1
        self.attached.discard(order)
        self.discounted.discard(order)

    def attach(self, order: Order, row: AttachmentRow) -> None:
        """Add an attachment to an order."""
        order.attachments.append(row)
        self.attached.add(order)

    def use(self, order: Order, row: UseRow) -> None:
        """Add the use of a promotion to an order."""
        order.uses.append(row)
        self.used[row.code] = self.used.get(row.code, 0) + 1
        self.discounted.add(order)

    def rows_of(self, table: SourceTable) -> Iterator[Row]:
        """Yield a table's rows, in no particular order."""
        if table is CODES:
            yield from self.codes
            return
        for order in self.orders:
            if table is ORDERS:
                yield order.row
            elif table is DETAILS:
                yield from (order.details,) if order.details is not None else ()
            elif table is LINES:
                yield from order.lines
            elif table is ATTACHMENTS:
                yield from order.attachments
            elif table is USES:
                yield from order.uses


@dataclass
class Work:
    """An open transaction that may change `size` rows; now: the time of its commit, as PostgreSQL writes it."""

    source: Source
    draw: Draw
    size: int
    now: str
    changes: list[Change] = field(default_factory=list)
    touched: Order | None = None

    @property
    def room(self) -> int:
        """Return how many more rows the transaction may change."""
        return self.size - len(self.changes)

    def inserted(self, table: SourceTable, row: Row, *, same_position: bool = False) -> None:
        """Record that a row was inserted."""
        self.changes.append(Change(table, "I", None, row, same_position))

    def updated(self, table: SourceTable, old: Row, new: Row) -> None:
        """Record that a row was updated."""
        self.changes.append(Change(table, "U", old, new))

    def deleted(self, table: SourceTable, row: Row) -> None:
        """Record that a row was deleted."""
        self.changes.append(Change(table, "D", row, None))

    def truncated(self, table: SourceTable, rows: Sequence[Row], *, same_position: bool = False) -> None:
        """Record that a table with these rows was truncated."""
        self.changes.append(Change(table, "T", None, None, same_position, sorted(rows, key=str)))

    def order(self) -> Order | None:
        """Return an order, most often a recent one; None while there are none."""
        orders = self.source.orders
        if not orders:
            return None
        known = self.touched
        if known is None or not 0 <= known.index < len(orders) or orders[known.index] is not known:
            known = None
        if known is None or not self.draw.happens(TOUCHED_AGAIN):
            known = orders[len(orders) - 1 - int(len(orders) * self.draw.unit() ** 3)]
        self.touched = known
        return known
