"""The order desk at a real database: transactions of the workload, as SQL that is committed.

What it knows of the rows it reads from the database when it begins; how far it is lies in a table there, which each
transaction writes too. So a desk that is killed goes on where the database is.
"""

import json
from collections.abc import Iterator
from typing import Any

from txloom.generate.trial.source_folder import ROWS
from txloom.generate.workload.changes import Change
from txloom.generate.workload.orders import Position, Workload
from txloom.generate.workload.settings import shares_of, sizes_of
from txloom.generate.workload.source import Order, Source
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
    SourceTable,
    Text,
    UseRow,
)

SEED = 1
Statement = tuple[str, list[Text]]


def statement(change: Change) -> Statement:
    """Return a change as SQL and its parameters, texts whose types the database knows.

    >>> statement(Change(CODES, "U", ("P1", "1.0000", None), ("P1", "2.0000", None)))
    ('UPDATE promo_codes SET discount = %s WHERE code = %s', ['2.0000', 'P1'])
    """
    table, old, new = change.table, change.before, change.after
    if old is None and new is None:
        return f"TRUNCATE {table.name}", []
    if old is None and new is not None:
        # Some identities are GENERATED ALWAYS.
        marks = ", ".join(["%s"] * len(new))
        names = ", ".join(table.columns)
        return f"INSERT INTO {table.name} ({names}) OVERRIDING SYSTEM VALUE VALUES ({marks})", _values(table, new)
    assert old is not None
    condition = " AND ".join(f"{name} = %s" for name in table.key)
    key = list(table.key_of(old))
    if new is None:
        return f"DELETE FROM {table.name} WHERE {condition}", key
    changed = [place for place, text in enumerate(new) if text != old[place]] or [*range(len(new))]
    parts = ", ".join(f"{table.columns[place]} = %s" for place in changed)
    values = _values(table, new)
    return f"UPDATE {table.name} SET {parts} WHERE {condition}", [*(values[place] for place in changed), *key]


def _values(table: SourceTable, row: tuple[Text, ...]) -> list[Text]:
    """Return a row's texts as PostgreSQL reads them; the workload writes bytes as hexadecimal digits alone."""
    pairs = zip(table.types, row, strict=True)
    return [f"\\x{text}" if kind == "bytea" and text is not None else text for kind, text in pairs]


class OrderDesk:
    """An order desk at a database; connection: psycopg2's, with autocommit off, of a session in UTC."""

    def __init__(self, connection: Any) -> None:
        """Read where the desk is, and the rows."""
        self._connection = connection
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT number, made FROM order_entry.position")
            number, made = cursor.fetchone() or (0, {})
            source = _read(cursor)
            source.made = dict(made)
            if not number:
                cursor.execute("INSERT INTO order_entry.position VALUES (0, '{}')")
        position = Position(number, 0, 0, 0)
        self._workload = Workload(SEED, source, position, sizes_of(ROWS), shares_of([]), 0)

    @property
    def number(self) -> int:
        """How many transactions the desk has committed since it was opened first."""
        return self._workload.position.number

    def commit(self, now: int) -> int:
        """Commit the next transaction; now: microseconds since 1970. Return how many rows it changed.

        What a foreign key cascades the workload does itself, too: the second of both finds nothing left to do.
        """
        self._workload.position.until = now
        (transaction,) = self._workload.transactions(1)
        with self._connection, self._connection.cursor() as cursor:
            for change in transaction.changes:
                cursor.execute(*statement(change))
            made = json.dumps(self._workload.source.made)
            cursor.execute("UPDATE order_entry.position SET number = %s, made = %s", (self.number, made))
        return len(transaction.changes)


def _rows(cursor: Any, table: SourceTable, order: str) -> Iterator[tuple[Text, ...]]:
    """Yield the rows of a table as the workload's texts."""
    columns = ", ".join(
        f"encode({name}, 'hex')" if kind == "bytea" else f"{name}::text"
        for name, kind in zip(table.columns, table.types, strict=True)
    )
    cursor.execute(f"SELECT {columns} FROM {table.name} ORDER BY {order}")
    yield from cursor.fetchall()


def _read(cursor: Any) -> Source:
    """Return the rows of the database; what belongs to an order that is not there is left out."""
    source, orders = Source(), dict[Text, Order]()
    for row in _rows(cursor, ORDERS, "created_ts, order_id"):
        order = orders[row[0]] = Order(OrderRow(*row))  # type: ignore[arg-type]
        source.add(order)
    source.codes += [CodeRow(*row) for row in _rows(cursor, CODES, "code")]  # type: ignore[arg-type]
    for details in (DetailsRow(*row) for row in _rows(cursor, DETAILS, "order_id")):  # type: ignore[arg-type]
        orders[details.order_id].details = details
    for line in (LineRow(*row) for row in _rows(cursor, LINES, "line_item_id")):  # type: ignore[arg-type]
        if line.order_id in orders:
            orders[line.order_id].lines.append(line)
    for attachment in (AttachmentRow(*row) for row in _rows(cursor, ATTACHMENTS, "order_id, attachment_no")):  # type: ignore[arg-type]
        source.attach(orders[attachment.order_id], attachment)
    for use in (UseRow(*row) for row in _rows(cursor, USES, "order_id, code")):  # type: ignore[arg-type]
        if use.order_id in orders:
            source.use(orders[use.order_id], use)
    return source
