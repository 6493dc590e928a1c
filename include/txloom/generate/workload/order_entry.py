"""Statements of an order desk that insert and update orders, their details and their lines.

Each takes an open transaction and returns whether it changed a row; it never changes more rows than there is room for.
After each statement an order's total is the sum of its lines' amounts.
"""

from txloom.generate.workload import extras
from txloom.generate.workload.source import Order, Work
from txloom.generate.workload.tables import DETAILS, LINES, ORDERS, DetailsRow, LineRow, OrderRow
from txloom.generate.workload.values import (
    CARRIERS,
    CURRENCIES,
    DELIVERIES,
    METHODS,
    ODD_INSTANTS,
    ODD_TIMESTAMPS,
    ORDER_TYPES,
    STATUSES,
    decimal,
    identity,
    raised,
    units,
)

MOST_LINES = 50
"""The most lines of an order; with more, its total could need more digits than its type has."""
BIG_KEYS = 16
"""One order in so many (one line in four times as many) has a key that a double cannot hold exactly."""


def place_order(work: Work) -> bool:
    """Place an order, with its details, some lines, and now and then an attachment or a promotion."""
    draw, source = work.draw, work.source
    number = source.next_number("orders")
    insert_order(work, identity(number, BIG_KEYS), f"WEB-{number:08}", 1 + draw.below(7))
    return True


def load_order(work: Work) -> bool:
    """Load an order with as many lines as it can have, as bulk imports do."""
    number = work.source.next_number("orders")
    insert_order(work, identity(number, BIG_KEYS), f"LOAD-{number:08}", MOST_LINES)
    return True


def insert_order(work: Work, key: str, ref: str, lines: int) -> Order:
    """Insert an order under a key, with as many of its lines and other rows as there is room for."""
    draw, source, now, room = work.draw, work.source, work.now, work.room - 1
    with_details = room > 0 and draw.happens(0.93)
    room -= with_details
    rows = [_line(work, key) for _ in range(min(lines, room))]
    order = Order(
        OrderRow(
            order_id=key,
            order_ref=ref,
            version="1",
            order_date=draw.day(now[:10]),
            order_ts=now if draw.happens(0.95) else draw.pick(ODD_TIMESTAMPS),
            order_status="NEW",
            order_type=draw.pick(ORDER_TYPES),
            total_amount=_total(rows),
            currency=draw.pick(CURRENCIES),
            customer_id=draw.customer(),
            shipping_address_id=draw.address_number(),
            created_ts=f"{now}+00",
            notes=draw.text(),
        )
    )
    source.add(order)
    work.touched = order
    work.inserted(ORDERS, order.row)
    if with_details:
        order.details = _details(work, key)
        work.inserted(DETAILS, order.details)
    copied = lines == MOST_LINES or draw.happens(0.3)
    for place, row in enumerate(rows):
        order.lines.append(row)
        work.inserted(LINES, row, same_position=copied and place > 0)
    if work.room > 0 and draw.happens(0.15):
        extras.attach(work, order)
    if work.room > 0 and draw.happens(0.1):
        extras.use_code(work, order)
    return order


def change_order(work: Work) -> bool:
    """Change an order's status, and sometimes its notes."""
    order = work.order()
    if order is None:
        return False
    draw, old = work.draw, order.row
    notes = draw.text() if draw.happens(0.3) else old.notes
    order.row = old._replace(version=raised(old.version), order_status=draw.pick(STATUSES), notes=notes)
    work.updated(ORDERS, old, order.row)
    return True


def change_details(work: Work) -> bool:
    """Change an order's carrier and delivery status; most often its address, which may be large, stays."""
    order = work.order()
    if order is None or order.details is None:
        return False
    draw, old = work.draw, order.details
    order.details = old._replace(
        version=raised(old.version),
        carrier=draw.pick(CARRIERS),
        delivery_status=draw.pick(DELIVERIES),
        shipped_ts=draw.pick(ODD_INSTANTS) if draw.happens(0.3) else f"{work.now}+00",
        address=draw.long_text() if draw.happens(0.1) else old.address,
    )
    work.updated(DETAILS, old, order.details)
    return True


def add_line(work: Work) -> bool:
    """Add a line to an order, which changes its total."""
    order = work.order()
    if order is None or work.room < 2 or len(order.lines) >= MOST_LINES:
        return False
    row = _line(work, order.row.order_id)
    order.lines.append(row)
    work.inserted(LINES, row)
    add_up(work, order)
    return True


def change_line(work: Work) -> bool:
    """Change the price of a line, which changes its order's total, or only its product and remark."""
    order = work.order()
    if order is None or not order.lines:
        return False
    draw, place = work.draw, work.draw.below(len(order.lines))
    old = order.lines[place]
    new = old._replace(version=raised(old.version))
    if work.room > 1 and draw.happens(0.7):
        quantity, price, amount = draw.priced()
        new = new._replace(item_qty=quantity, item_price=price, item_amount=amount)
    else:
        new = new._replace(product_id=_product(work), remark=draw.long_text() if draw.happens(0.3) else old.remark)
    order.lines[place] = new
    work.updated(LINES, old, new)
    if new.item_amount != old.item_amount:
        add_up(work, order)
    return True


def move_line(work: Work) -> bool:
    """Move a line to another order, which changes both totals."""
    order, other = work.order(), work.order()
    if order is None or other is None or order is other or work.room < 3:
        return False
    if not order.lines or len(other.lines) >= MOST_LINES:
        return False
    old = order.lines.pop(work.draw.below(len(order.lines)))
    new = old._replace(version=raised(old.version), order_id=other.row.order_id)
    other.lines.append(new)
    work.updated(LINES, old, new)
    add_up(work, order)
    add_up(work, other)
    return True


def add_up(work: Work, order: Order) -> None:
    """Update an order's total."""
    old = order.row
    order.row = old._replace(version=raised(old.version), total_amount=_total(order.lines))
    work.updated(ORDERS, old, order.row)


def _details(work: Work, key: str) -> DetailsRow:
    draw = work.draw
    return DetailsRow(
        order_id=key,
        version="1",
        shipping_method=draw.pick(METHODS),
        tracking_number=f"T{key}" if draw.happens(0.9) else None,
        shipped_ts=None,
        estimated_delivery_date=draw.day(work.now[:10]) if draw.happens(0.8) else None,
        carrier=draw.pick(CARRIERS),
        delivery_status="NEW",
        address=draw.long_text(),
    )


def _line(work: Work, order_key: str) -> LineRow:
    draw = work.draw
    quantity, price, amount = draw.priced()
    number = work.source.next_number("lines")
    return LineRow(
        line_item_id=identity(number, BIG_KEYS * 4),
        order_id=order_key,
        version="1",
        product_id=_product(work),
        item_qty=quantity,
        item_price=price,
        item_amount=amount,
        item_currency=draw.pick(CURRENCIES),
        remark=draw.long_text(),
    )


def _product(work: Work) -> str:
    return f"PROD-{work.draw.below(5000)}"


def _total(lines: list[LineRow]) -> str:
    return decimal(sum([units(line.item_amount) for line in lines]), 4)
