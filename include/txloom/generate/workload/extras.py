"""Statements of an order desk on attachments, promotions and the audit.

As in `txloom.generate.workload.order_entry`, each returns whether it changed a row; all of them change one row.
"""

from txloom.generate.workload.source import Order, Work
from txloom.generate.workload.tables import ATTACHMENTS, AUDIT, CODES, USES, AttachmentRow, AuditRow, CodeRow, UseRow
from txloom.generate.workload.values import ARRAYS, DAYTIMES, DOCUMENTS, DOUBLES, ODD_INSTANTS

TAGS, NUMERIC, AMOUNTS = ((None, *ARRAYS[name]) for name in ("tags", "codes", "amounts"))
RATIOS = tuple(DOUBLES)


def add_attachment(work: Work) -> bool:
    """Add an attachment to some order."""
    order = work.order()
    return order is not None and attach(work, order)


def attach(work: Work, order: Order) -> bool:
    """Add an attachment to this order."""
    draw = work.draw
    number = max((int(row.attachment_no) for row in order.attachments), default=0) + 1
    row = AttachmentRow(
        order_id=order.row.order_id,
        attachment_no=str(number),
        unit_rate=draw.rate(),
        big=draw.large_integer(),
        payload=draw.payload(),
        doc=draw.pick(DOCUMENTS),
        tags=draw.pick(TAGS),
        codes=draw.pick(NUMERIC),
        amounts=draw.pick(AMOUNTS),
        seen_at=draw.pick(ODD_INSTANTS),
        at_time=draw.pick(DAYTIMES),
        ratio=draw.pick(RATIOS),
        ok=draw.pick(("true", "false", None)),
        uid=draw.uid(),
        body=draw.long_text(0.15),
    )
    work.source.attach(order, row)
    work.inserted(ATTACHMENTS, row)
    return True


def change_attachment(work: Work) -> bool:
    """Change an attachment; its body, which may be large, stays."""
    order = work.order()
    if order is None or not order.attachments:
        return False
    draw, position = work.draw, work.draw.below(len(order.attachments))
    old = order.attachments[position]
    new = old._replace(unit_rate=draw.rate(), big=draw.large_integer(), tags=draw.pick(TAGS), ratio=draw.pick(RATIOS))
    order.attachments[position] = new
    work.updated(ATTACHMENTS, old, new)
    return True


def change_codes(work: Work) -> bool:
    """Make a promotion code, or change its discount."""
    draw, codes = work.draw, work.source.codes
    if not codes or draw.happens(0.4):
        number = work.source.next_number("codes")
        valid_to = draw.day(work.now[:10]) if draw.happens(0.8) else None
        codes.append(CodeRow(f"P{number}", draw.money(100), valid_to))
        work.inserted(CODES, codes[-1])
        return True
    position = draw.below(len(codes))
    old = codes[position]
    codes[position] = old._replace(discount=draw.money(100) if draw.happens(0.9) else None)
    work.updated(CODES, old, codes[position])
    return True


def use_a_code(work: Work) -> bool:
    """Use a promotion code for some order, or change how much of it was used."""
    order = work.order()
    return order is not None and use_code(work, order)


def use_code(work: Work, order: Order) -> bool:
    """Use a promotion code for this order, or change how much of it was used."""
    draw, codes = work.draw, work.source.codes
    if not codes:
        return False
    code = draw.pick(codes).code
    for position, old in enumerate(order.uses):
        if old.code == code:
            order.uses[position] = old._replace(used=draw.money(100))
            work.updated(USES, old, order.uses[position])
            return True
    row = UseRow(code, order.row.order_id, draw.money(100) if draw.happens(0.9) else None)
    work.source.use(order, row)
    work.inserted(USES, row)
    return True


def write_audit(work: Work) -> bool:
    """Insert a row into a table that no pipeline watches."""
    number = work.source.next_number("audit")
    work.inserted(AUDIT, AuditRow(str(number), f"desk {work.draw.below(9)}: {work.draw.text() or 'ok'}"))
    return True
