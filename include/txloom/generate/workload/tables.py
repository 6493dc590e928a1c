"""The source's tables, as include/pipelines/orders.yaml declares them: rows are tuples of texts as PostgreSQL's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

Text = str | None
Row = tuple[Text, ...]

STORED_APART = 2000
"""The characters from which a large value is stored apart, so that an update that does not change it leaves it out."""


class OrderRow(NamedTuple):
    """A row of orders."""

    order_id: str
    order_ref: str
    version: str
    order_date: str
    order_ts: str
    order_status: str
    order_type: Text
    total_amount: str
    currency: str
    customer_id: Text
    shipping_address_id: Text
    created_ts: str
    notes: Text


class DetailsRow(NamedTuple):
    """A row of order_details."""

    order_id: str
    version: str
    shipping_method: Text
    tracking_number: Text
    shipped_ts: Text
    estimated_delivery_date: Text
    carrier: Text
    delivery_status: Text
    address: Text


class LineRow(NamedTuple):
    """A row of order_line_items."""

    line_item_id: str
    order_id: str
    version: str
    product_id: str
    item_qty: str
    item_price: Text
    item_amount: Text
    item_currency: str
    remark: Text


class AttachmentRow(NamedTuple):
    """A row of order_attachments."""

    order_id: str
    attachment_no: str
    unit_rate: Text
    big: Text
    payload: Text
    doc: Text
    tags: Text
    codes: Text
    amounts: Text
    seen_at: Text
    at_time: Text
    ratio: Text
    ok: Text
    uid: Text
    body: Text


class CodeRow(NamedTuple):
    """A row of promo_codes."""

    code: str
    discount: Text
    valid_to: Text


class UseRow(NamedTuple):
    """A row of promo_uses."""

    code: str
    order_id: str
    used: Text


class AuditRow(NamedTuple):
    """A row of audit_log."""

    id: str
    what: str


@dataclass(frozen=True, eq=False)
class SourceTable:
    """A table of the source, and what its log has of a row.

    types: PostgreSQL's types, in the order of the columns. large: columns whose long values are stored apart.
    whole_before: the log has the whole old row, not only its key. invented: the values that a Debezium delete makes up
    for columns that the log does not have; null for any other column.
    """

    name: str
    row: Any
    types: tuple[str, ...]
    key: tuple[str, ...]
    large: tuple[str, ...] = ()
    whole_before: bool = False
    invented: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        names: tuple[str, ...] = self.row._fields
        return names

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Return the positions of the key columns in a row."""
        return tuple(self.columns.index(name) for name in self.key)

    @cached_property
    def _large_positions(self) -> tuple[int, ...]:
        return tuple(self.columns.index(name) for name in self.large)

    def key_of(self, row: Row) -> Row:
        """Return a row's key."""
        return tuple([row[position] for position in self.key_positions])

    def left_out(self, old: Row, new: Row) -> tuple[int, ...]:
        """Return the positions of large values that an update does not change, so that the log does not have them."""
        positions: tuple[int, ...] = ()
        for position in self._large_positions:
            value = new[position]
            if value is not None and len(value) >= STORED_APART and value == old[position]:
                positions = (*positions, position)
        return positions


ORDERS = SourceTable(
    "orders",
    OrderRow,
    (
        *("bigint", "character varying(64)", "numeric(10,0)", "date", "timestamp without time zone"),
        *("character varying(16)", "character varying(16)", "numeric(20,4)", "character(3)", "bigint", "bigint"),
        *("timestamp with time zone", "text"),
    ),
    ("order_id",),
    invented={
        "order_ref": "",
        "version": "1",
        "order_date": "1970-01-01",
        "order_ts": "1970-01-01 00:00:00",
        "order_status": "",
        "total_amount": "0.0000",
        "currency": "USD",
        "created_ts": "1970-01-01 00:00:00+00",
    },
)
DETAILS = SourceTable(
    "order_details",
    DetailsRow,
    (
        *("bigint", "numeric(10,0)", "character varying(32)", "character varying(64)", "timestamp with time zone"),
        *("date", "character varying(32)", "character varying(16)", "text"),
    ),
    ("order_id",),
    large=("address",),
    invented={"version": "1"},
)
LINES = SourceTable(
    "order_line_items",
    LineRow,
    (
        *("bigint", "bigint", "numeric(10,0)", "character varying(64)", "numeric(18,4)", "numeric(18,8)"),
        *("numeric(20,4)", "character(3)", "text"),
    ),
    ("line_item_id",),
    large=("remark",),
    whole_before=True,
)
ATTACHMENTS = SourceTable(
    "order_attachments",
    AttachmentRow,
    (
        *("bigint", "integer", "numeric(38,10)", "bigint", "bytea", "jsonb", "text[]", "integer[]", "numeric(20,4)[]"),
        *("timestamp with time zone", "time without time zone", "double precision", "boolean", "uuid", "text"),
    ),
    ("order_id", "attachment_no"),
    large=("body",),
)
CODES = SourceTable("promo_codes", CodeRow, ("character varying(32)", "numeric(20,4)", "date"), ("code",))
USES = SourceTable("promo_uses", UseRow, ("character varying(32)", "bigint", "numeric(20,4)"), ("code", "order_id"))
AUDIT = SourceTable("audit_log", AuditRow, ("bigint", "text"), ("id",))
"""A table that orders.yaml ignores: the source writes to it, but no pipeline watches it."""

WATCHED = (ORDERS, DETAILS, LINES, ATTACHMENTS, CODES, USES)
TABLES = {table.name: table for table in (*WATCHED, AUDIT)}
