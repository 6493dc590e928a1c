"""What `make break` can do to a real source: each fault is made in PostgreSQL or Kafka Connect, as it happens there."""

import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from txloom.generate.services.connect import connector_url
from txloom.generate.trial import damage
from txloom.generate.trial.catalogue import KINDS, Kind
from txloom.generate.trial.damage import Fault, orphan, planted_key
from txloom.generate.trial.real_services import PUBLICATION, Addresses

COLUMN = damage.COLUMN.lower()
NEWEST = 20
"""Orders that get a value in the column that is added."""

REAL_KINDS: Mapping[str, Kind] = {
    "lost-row": Kind(
        "a row is deleted while the connector's publication lacks its table: no event ever comes",
        "nothing, on any page: no count can know of it. `txloom audit orders` finds the row: not in the source.",
        "",
        "run the DAG orders_audit, then the DAG orders_repair and approve: it deletes that row, and no other",
    ),
    "orphan": replace(KINDS["orphan"], change=None),
    "quiet-source": KINDS["quiet-source"],
    "killed-task": KINDS["killed-task"],
    "schema-change": replace(
        KINDS["schema-change"],
        change=None,
        yours="declare it: add `gift_note: string` to the columns of orders in .state/real/pipelines/orders.yaml. The "
        "next run has it, and closes the finding",
    ),
    "connector-restart": Kind(
        "Debezium's connector and its task restart, through Kafka Connect's REST interface",
        "the run is green. What the connector sent anew is counted under Runs as duplicates; no table changes by it.",
        "",
    ),
}
"""The faults of a real source."""
IMPOSSIBLE: Mapping[str, str] = {
    "lost-metadata": "Kafka takes no record back, and Debezium sends an END for each transaction.",
    "bad-value": "the types of PostgreSQL refuse such a value.",
}
"""Why a fault of the source in files cannot be made here."""


def lose_row(connection: Any, fault: Fault) -> None:
    """Delete the details of the oldest order while the publication lacks their table."""
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT order_id FROM order_details JOIN orders USING (order_id) ORDER BY created_ts LIMIT 1")
        (key,) = cursor.fetchone()
    for sql in (
        f"ALTER PUBLICATION {PUBLICATION} DROP TABLE order_details",
        f"DELETE FROM order_details WHERE order_id = {int(key)}",
        f"ALTER PUBLICATION {PUBLICATION} ADD TABLE order_details",
    ):
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
    fault.made = f"the details of order {key} were deleted in the source, and the connector was not told"


def plant_orphan(connection: Any, fault: Fault) -> None:
    """Insert a line item of an order that does not exist, as a load does that has foreign keys off."""
    fault.planted = key = planted_key(fault)
    row = orphan(key)
    marks = ", ".join(["%s"] * len(row))
    with connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(f"INSERT INTO order_line_items ({', '.join(row).lower()}) VALUES ({marks})", [*row.values()])
    fault.made = f"line item {key} of order {key}, which never existed, was inserted while foreign keys were off"


def remove_orphan(connection: Any, fault: Fault) -> str:
    """Delete the planted line item."""
    with connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM order_line_items WHERE line_item_id = %s", (fault.planted,))
    return f"line item {fault.planted} was deleted in the source"


def add_column(connection: Any, fault: Fault) -> None:
    """Add a column to the orders, and give the newest a value in it."""
    with connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE orders ADD COLUMN IF NOT EXISTS {COLUMN} text")
        newest = f"SELECT order_id FROM orders ORDER BY created_ts DESC LIMIT {NEWEST}"
        cursor.execute(f"UPDATE orders SET {COLUMN} = 'with love' WHERE order_id IN ({newest})")
    fault.made = f"ALTER TABLE orders ADD COLUMN {COLUMN}, and {NEWEST} orders have a value in it"


def restart_connector(addresses: Addresses, fault: Fault) -> None:
    """Let Kafka Connect restart the connector and its task."""
    url = connector_url(addresses.connect, "restart?includeTasks=true")
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
        fault.made = "Kafka Connect restarted the connector debezium and its task"


IN_DATABASE: Mapping[str, Callable[[Any, Fault], None]] = {
    "lost-row": lose_row,
    "orphan": plant_orphan,
    "schema-change": add_column,
}
