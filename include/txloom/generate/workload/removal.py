"""Statements of an order desk that delete rows, change their keys, or truncate tables.

As in `txloom.generate.workload.order_entry`, each returns whether it changed a row, and changes no more rows than there
is room for.
"""

from txloom.generate.workload.order_entry import BIG_KEYS, add_up, insert_order
from txloom.generate.workload.source import Order, Work
from txloom.generate.workload.tables import ATTACHMENTS, CODES, DETAILS, LINES, ORDERS, USES
from txloom.generate.workload.values import identity, raised


def delete_order(work: Work) -> bool:
    """Delete an order with everything below it."""
    order = work.order()
    if order is None or order.rows > work.room:
        return False
    _delete(work, order)
    return True


def replace_order(work: Work) -> bool:
    """Delete an order and place another one under its key, in one transaction."""
    order = work.order()
    if order is None or order.rows >= work.room:
        return False
    _delete(work, order)
    insert_order(work, order.row.order_id, f"AGAIN-{order.row.order_ref[-8:]}", 1 + work.draw.below(4))
    return True


def delete_line(work: Work) -> bool:
    """Delete a line of an order, which changes its total."""
    order = work.order()
    if order is None or not order.lines or work.room < 2:
        return False
    work.deleted(LINES, order.lines.pop(work.draw.below(len(order.lines))))
    add_up(work, order)
    return True


def delete_attachment(work: Work) -> bool:
    """Delete an attachment of an order."""
    order = work.order()
    if order is None or not order.attachments:
        return False
    work.deleted(ATTACHMENTS, order.attachments.pop())
    if not order.attachments:
        work.source.attached.discard(order)
    return True


def delete_use(work: Work) -> bool:
    """Delete an order's use of a promotion."""
    order = work.order()
    if order is None or not order.uses:
        return False
    use = order.uses.pop()
    work.source.used[use.code] -= 1
    if not order.uses:
        work.source.discounted.discard(order)
    work.deleted(USES, use)
    return True


def delete_code(work: Work) -> bool:
    """Delete a promotion code that no order uses."""
    codes = work.source.codes
    if not codes:
        return False
    position = work.draw.below(len(codes))
    if work.source.used.get(codes[position].code, 0):
        return False
    work.deleted(CODES, codes.pop(position))
    return True


def rekey_order(work: Work) -> bool:
    """Change an order's key; its rows in other tables follow."""
    order = work.order()
    if order is None or order.rows > work.room:
        return False
    _rekey(work, order, _new_key(work))
    return True


def rekey_twice(work: Work) -> bool:
    """Change an order's key twice; about a third of such orders get their first key back after that."""
    order = work.order()
    if order is None or 3 * order.rows > work.room:
        return False
    first = order.row.order_id
    _rekey(work, order, _new_key(work))
    _rekey(work, order, _new_key(work))
    if work.draw.happens(0.3):
        _rekey(work, order, first)
    return True


def swap_keys(work: Work) -> bool:
    """Exchange the keys of two orders, by way of a key that no order has."""
    order, other = work.order(), work.order()
    if order is None or other is None or order is other or 2 * order.rows + other.rows > work.room:
        return False
    first, second = order.row.order_id, other.row.order_id
    _rekey(work, order, _new_key(work))
    _rekey(work, other, first)
    _rekey(work, order, second)
    return True


def rekey_line(work: Work) -> bool:
    """Change a line's key; its remark, which may be large, stays."""
    order = work.order()
    if order is None or not order.lines:
        return False
    position = work.draw.below(len(order.lines))
    old = order.lines[position]
    key = identity(work.source.next_number("lines"), BIG_KEYS * 4)
    order.lines[position] = old._replace(line_item_id=key, version=raised(old.version))
    work.updated(LINES, old, order.lines[position])
    return True


def rekey_attachment(work: Work) -> bool:
    """Change the number, and so the key, of an attachment."""
    order = work.order()
    if order is None or not order.attachments:
        return False
    old = order.attachments[-1]
    order.attachments[-1] = old._replace(attachment_no=str(int(old.attachment_no) + 1))
    work.updated(ATTACHMENTS, old, order.attachments[-1])
    return True


def truncate_attachments(work: Work) -> bool:
    """Truncate the attachments of all orders."""
    attached = work.source.attached
    work.truncated(ATTACHMENTS, [row for order in attached for row in order.attachments])
    for order in attached:
        order.attachments.clear()
    attached.clear()
    return True


def truncate_uses(work: Work) -> bool:
    """Truncate the uses of promotions, and now and then the promotions too."""
    source = work.source
    work.truncated(USES, [row for order in source.discounted for row in order.uses])
    for order in source.discounted:
        order.uses.clear()
    source.discounted.clear()
    source.used.clear()
    if work.room > 0 and work.draw.happens(0.5):
        work.truncated(CODES, source.codes, same_position=True)
        source.codes.clear()
    return True


def _delete(work: Work, order: Order) -> None:
    """Delete an order with its children: before it, as an application does, or after it, as ON DELETE CASCADE does."""
    cascade = work.draw.happens(0.5)
    if cascade:
        work.deleted(ORDERS, order.row)
    for row in order.lines:
        work.deleted(LINES, row)
    for attachment in order.attachments:
        work.deleted(ATTACHMENTS, attachment)
    for use in order.uses:
        work.deleted(USES, use)
    if order.details is not None:
        work.deleted(DETAILS, order.details)
    if not cascade:
        work.deleted(ORDERS, order.row)
    work.source.remove(order)


def _new_key(work: Work) -> str:
    return identity(work.source.next_number("orders"), BIG_KEYS)


def _rekey(work: Work, order: Order, key: str) -> None:
    old = order.row
    order.row = old._replace(order_id=key, version=raised(old.version))
    work.updated(ORDERS, old, order.row)
    if order.details is not None:
        details = order.details
        order.details = details._replace(order_id=key, version=raised(details.version))
        work.updated(DETAILS, details, order.details)
    for position, line in enumerate(order.lines):
        order.lines[position] = line._replace(order_id=key, version=raised(line.version))
        work.updated(LINES, line, order.lines[position])
    for position, attachment in enumerate(order.attachments):
        order.attachments[position] = attachment._replace(order_id=key)
        work.updated(ATTACHMENTS, attachment, order.attachments[position])
    for position, use in enumerate(order.uses):
        order.uses[position] = use._replace(order_id=key)
        work.updated(USES, use, order.uses[position])
