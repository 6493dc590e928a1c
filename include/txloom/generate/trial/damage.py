"""The faults of a living source: what each one does to a slice of the stream, and what makes it good again."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from txloom.generate.trial.slices import METADATA, Lines, Slice, topic_of

LINES, ORDERS = "order_line_items", "orders"
PLANTED = 900_000_000
"""Keys of planted rows begin here; the workload's are far below."""
COLUMN = "GIFT_NOTE"


class Fault(msgspec.Struct):
    """A fault that was made and is not repaired.

    made: what was done, in words. xid: the transaction that it hit. held: messages that were held back, by topic.
    planted: the key of a line item that has no order.
    """

    name: str
    at: datetime
    made: str = ""
    xid: str | None = None
    held: dict[str, list[str]] = msgspec.field(default_factory=dict)
    planted: int | None = None

    def lines(self) -> Lines:
        """Return the messages that were held back."""
        return {topic: [each.encode() for each in held] for topic, held in self.held.items()}


Damage = Callable[[Slice, Fault], None]
"""Damages a slice, and notes in the fault what it did."""


def lose_metadata(made: Slice, fault: Fault) -> None:
    """Hold back the metadata of a transaction."""
    place, message = next(made.messages(METADATA))
    fault.xid, fault.held = message["xid"], {METADATA: [made.take(METADATA, place).decode()]}
    fault.made = f"the metadata of transaction {fault.xid} (csn {message['csn']}) were lost on their way"


def lose_row(made: Slice, fault: Fault) -> None:
    """Hold back a line item of a transaction."""
    topic = topic_of(LINES)
    place, message = next(made.messages(topic))
    fault.xid, fault.held = message["xid"], {topic: [made.take(topic, place).decode()]}
    row = (message.get("after") or message["before"])["LINE_ITEM_ID"]
    fault.made = f"the event of line item {row} in transaction {fault.xid} was lost on its way"


def spoil_value(made: Slice, fault: Fault) -> None:
    """Let an application write an order's total as text; the next transaction of that order has it right again."""
    _, message = next((at, each) for at, each in made.messages(topic_of(ORDERS)) if _total(each) is not None)
    key = {"ORDER_ID": message["after"]["ORDER_ID"]}
    spoiled = f"{_total(message)}".replace(".", ",") + " EUR"
    after = {**message["after"], "TOTAL_AMOUNT": spoiled}
    row = {"op_type": "U", "primary_keys": ["ORDER_ID"], "before": key, "after": after}
    fault.xid = made.add_transaction(ORDERS, row)
    fault.made = f"transaction {fault.xid} wrote the total {spoiled!r} into order {key['ORDER_ID']}"


def plant_orphan(made: Slice, fault: Fault) -> None:
    """Let an application insert a line item of an order that does not exist."""
    fault.planted = planted_key(fault)
    fault.xid = made.add_row(LINES, {"op_type": "I", "primary_keys": ["LINE_ITEM_ID"], "after": orphan(fault.planted)})
    key = fault.planted
    fault.made = f"line item {key} of order {key}, which never existed, was inserted in transaction {fault.xid}"


def remove_orphan(made: Slice, fault: Fault) -> str:
    """Let the application delete the planted line item."""
    before = {"LINE_ITEM_ID": str(fault.planted)}
    xid = made.add_row(LINES, {"op_type": "D", "primary_keys": ["LINE_ITEM_ID"], "before": before})
    return f"line item {fault.planted} was deleted in the source, by transaction {xid}"


def planted_key(fault: Fault) -> int:
    """Return the key of the row that a fault plants, another one each second."""
    return PLANTED + int(fault.at.timestamp()) % PLANTED


def orphan(key: int) -> dict[str, str]:
    """Return the planted row."""
    return {
        "LINE_ITEM_ID": str(key),
        "ORDER_ID": str(key),
        "VERSION": "1",
        "PRODUCT_ID": "PROD-0000",
        "ITEM_QTY": "1.0000",
        "ITEM_PRICE": "1.00000000",
        "ITEM_AMOUNT": "1.0000",
        "ITEM_CURRENCY": "EUR",
        "REMARK": "planted by the trial",
    }


def add_column(made: Slice, fault: Fault) -> None:
    """Send a column of orders that nobody declared."""
    topic = topic_of(ORDERS)
    for place, message in made.messages(topic):
        if message.get("after") is not None:
            message["after"][COLUMN] = "with love"
            made.replace(topic, place, message)
    fault.made = f"the source added the column {COLUMN} to its table ORDERS"


def send_again(made: Slice, fault: Fault) -> None:
    """Send the slice before once more, as a connector does that restarts from its last committed offset."""
    before = made.before()
    for topic, lines in before.items():
        made.topics[topic] = [*lines, *made.topics.get(topic, [])]
    again = sum(map(len, before.values()))
    fault.made = f"the connector restarted from an old offset: {again} messages were sent a second time"


def _total(message: Any) -> Any:
    return (message.get("after") or {}).get("TOTAL_AMOUNT")
