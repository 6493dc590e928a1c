"""Two small tables that tests of expectations look at, as a declaration has them."""

from decimal import Decimal
from typing import Any

TABLES = """
tables:
  - {name: orders, source: S.ORDERS, key: [id], version: version,
     columns: {id: long, version: long, total: "decimal(10,2)", email: string, api_token: string}}
  - {name: lines, source: S.LINES, key: [id], columns: {id: long, order_id: long, amount: "decimal(10,2)"}}
targets: {mirrors: ["*"]}
"""


def order(number: int, **more: Any) -> dict[str, Any]:
    """Return a row of orders that every expectation likes; more: what differs."""
    return {"id": number, "version": 1, "total": Decimal("10.00"), "email": "a@b.c", "api_token": "t"} | more
