"""A small declaration that is right, and what is said of it once a part of it was changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load
from txloom.errors import ConfigurationError

SHOP = """\
name: shop
schedule: "*/15 * * * *"
source:
  format: goldengate
  files:
    path: inbox
  transaction_topic: dev.transactions
completeness:
  rule: counts
  patience: 30m
tables:
  - name: orders
    source: PUBLIC.ORDERS
    columns:
      order_id: long
      total_amount: decimal(20,4)
      tags: array<string>
    key: [order_id]
  - name: items
    source: PUBLIC.ITEMS
    columns:
      order_id: long
      item_no: int
      price: decimal(20,4)
    key: [order_id, item_no]
    version: item_no
targets:
  aggregates:
    - name: basket
      root: orders
      children:
        - table: items
          relation: many
          parent_key: [order_id]
  mirrors:
    - orders
    - table: items
      zorder: [item_no]
expectations:
  - kind: orphans
    id: orphan_items
    child: items
    parent: orders
    parent_key: [order_id]
    severity: block
    sentence: Every item belongs to an order.
    hint: Look at the source's foreign key.
  - kind: stuck_transactions
    id: stuck
    older_than: 10m
    severity: warn
    sentence: No transaction waits for long.
    hint: Look at the topics.
maintenance:
  vacuum:
    retain: 7d
"""

Change = tuple[str, str]


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write the declaration, with parts of it changed, as shop.yaml into a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def write(*changes: Change, text: str = SHOP) -> Path:
        for old, new in changes:
            assert text.count(old) >= 1, old
            text = text.replace(old, new, 1)
        Path("shop.yaml").write_text(text)
        return Path("shop.yaml")

    return write


@pytest.fixture
def refused(declared: Callable[..., Path]) -> Callable[..., str]:
    """Return the whole message about a declaration in which one text was replaced."""

    def message(old: str, new: str, *more: Change) -> str:
        with pytest.raises(ConfigurationError) as error:
            load(declared((old, new), *more))
        return str(error.value)

    return message
