"""What the sample's source declares: its watched tables and the shape of an order, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Table:
    """A watched source table: lake name, source name, key and the declared type of each column."""

    name: str
    source: str
    key: tuple[str, ...]
    columns: dict[str, str]


@dataclass(frozen=True)
class Child:
    """A table whose rows hang below a root: `parent_key` are its columns that hold the root's key."""

    table: str
    field: str
    relation: Literal["one", "many"]
    parent_key: tuple[str, ...]


@dataclass(frozen=True)
class Aggregate:
    """A root table and its children, seen as one nested document."""

    name: str
    root: str
    children: tuple[Child, ...]


ORDERS = Table(
    name="orders",
    source="PUBLIC.ORDERS",
    key=("order_id",),
    columns={
        "order_id": "long",
        "order_ref": "string",
        "version": "decimal(10,0)",
        "order_date": "date",
        "order_ts": "timestamp",
        "order_status": "string",
        "order_type": "string",
        "total_amount": "decimal(20,4)",
        "currency": "string",
        "customer_id": "long",
        "shipping_address_id": "long",
        "created_ts": "timestamptz",
        "notes": "string",
    },
)

ORDER_DETAILS = Table(
    name="order_details",
    source="PUBLIC.ORDER_DETAILS",
    key=("order_id",),
    columns={
        "order_id": "long",
        "version": "decimal(10,0)",
        "shipping_method": "string",
        "tracking_number": "string",
        "shipped_ts": "timestamptz",
        "estimated_delivery_date": "date",
        "carrier": "string",
        "delivery_status": "string",
        "address": "string",
    },
)

ORDER_LINE_ITEMS = Table(
    name="order_line_items",
    source="PUBLIC.ORDER_LINE_ITEMS",
    key=("line_item_id",),
    columns={
        "line_item_id": "long",
        "order_id": "long",
        "version": "decimal(10,0)",
        "product_id": "string",
        "item_qty": "decimal(18,4)",
        "item_price": "decimal(18,8)",
        "item_amount": "decimal(20,4)",
        "item_currency": "string",
        "remark": "string",
    },
)

ORDER_ATTACHMENTS = Table(
    name="order_attachments",
    source="PUBLIC.ORDER_ATTACHMENTS",
    key=("order_id", "attachment_no"),
    columns={
        "order_id": "long",
        "attachment_no": "int",
        "unit_rate": "decimal(38,10)",
        "big": "long",
        "payload": "binary",
        "doc": "json",
        "tags": "array<string>",
        "codes": "array<int>",
        "amounts": "array<decimal(20,4)>",
        "seen_at": "timestamptz",
        "at_time": "time",
        "ratio": "double",
        "ok": "boolean",
        "uid": "uuid",
        "body": "string",
    },
)

PROMO_CODES = Table(
    name="promo_codes",
    source="PUBLIC.PROMO_CODES",
    key=("code",),
    columns={"code": "string", "discount": "decimal(20,4)", "valid_to": "date"},
)

PROMO_USES = Table(
    name="promo_uses",
    source="PUBLIC.PROMO_USES",
    key=("code", "order_id"),
    columns={"code": "string", "order_id": "long", "used": "decimal(20,4)"},
)

TABLES: dict[str, Table] = {
    table.name: table for table in (ORDERS, ORDER_DETAILS, ORDER_LINE_ITEMS, ORDER_ATTACHMENTS, PROMO_CODES, PROMO_USES)
}

ORDER: Aggregate = Aggregate(
    name="order",
    root="orders",
    children=(
        Child(table="order_details", field="order_details", relation="one", parent_key=("order_id",)),
        Child(table="order_line_items", field="line_items", relation="many", parent_key=("order_id",)),
        Child(table="order_attachments", field="attachments", relation="many", parent_key=("order_id",)),
    ),
)
