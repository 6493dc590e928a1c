"""Metadata that comes twice: the same counts are a duplicate in whatever order, any other counts a conflict."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from txloom.storage.own import CHANGE_EVENTS
from txloom.transactions import buffer
from txloom.transactions import events as ev
from txloom.transactions.numbers import numbers_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Counts = list[tuple[str, int]]


def cause_of(*metadata: Counts) -> str:
    """Return why a transaction waits of which one row and these metadata came."""
    own = {"transaction_id": "x:7", "tx": 1, "csn": 7, "landing": 1, "landed_at": NOW}
    events = [{**own, "kind": "row", "row": 0, "table": "orders", "identity": "1", "payload": 5}]
    events += [{**own, "kind": "metadata", "row": n, "expected": counts} for n, counts in enumerate(metadata, 1)]
    numbers = numbers_of(pa.Table.from_pylist(events, CHANGE_EVENTS))
    held, _ = buffer.decide(buffer.Held(), numbers, buffer.Rules(10))
    _, decisions = buffer.decide(held, ev.clocks(numbers["landing"][:1], numbers["at"][:1]), buffer.Rules(10))
    (standing,) = decisions.waiting
    return standing.cause


def test_the_same_counts_in_another_order_are_a_duplicate() -> None:
    counts = [("orders", 2), ("lines", 1)]
    assert cause_of(counts, counts[::-1]) == buffer.SHORT


@pytest.mark.parametrize(
    "other",
    [[("orders", 3)], [("lines", 2)], [("orders", 2), ("lines", 1)], []],
    ids=["another_count", "another_table", "one_table_more", "no_tables"],
)
def test_other_counts_are_a_conflict(other: Counts) -> None:
    assert cause_of([("orders", 2)], other) == buffer.CONFLICT
