"""Whether two events of one identity say the same is told by 128 bits, from the message to the buffer."""

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from txloom.config import find
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.transactions import buffer, completeness
from txloom.transactions import events as ev
from txloom.transactions.compact_events import compact_events_of
from txloom.transactions.hashes import hash64

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = "218504449", "890439518"
"""Values whose messages have one checksum."""


def message(discount: str, **more: Any) -> bytes:
    fields = {"table": "PUBLIC.PROMO_CODES", "op_type": "I", "pos": "7", "xid": "1.2.3", "csn": "33"}
    return json.dumps({**fields, "after": {"CODE": "P1", "DISCOUNT": discount}} | more, separators=(",", ":")).encode()


def landed(*messages: bytes, without: str = "", first: int = 0) -> np.ndarray:
    """Return what the buffer sees of messages; without: a column that their landing did not know."""
    pipeline = find("orders")
    rows = GoldenGateDecoder(pipeline.tables, pipeline.source.transaction_topic).decode("rows", messages).to_pylist()
    columns = {"landing": 1, "landed_at": NOW, "tx": hash64("1.2.3:33"), without: None}
    events = pa.Table.from_pylist([{**row, **columns, "row": first + n} for n, row in enumerate(rows)], CHANGE_EVENTS)
    return compact_events_of(events)


def kept(*numbers: np.ndarray) -> int:
    """Return how many different rows the buffer sees in what was landed one after the other."""
    held = buffer.Held()
    for each in numbers:
        held, _ = buffer.decide(held, each, completeness.Rules(10))
    return int(np.count_nonzero(held.events["kind"] == ev.ROW))


def test_rows_with_one_checksum_are_two() -> None:
    both = landed(message(ONE), message(OTHER))
    assert len(set(both["payload"].tolist())) == 1
    assert kept(both) == 2


@pytest.mark.parametrize("again", [ONE, OTHER])
def test_what_was_landed_with_a_checksum_alone_is_compared_by_it(again: str) -> None:
    assert kept(landed(message(ONE), without="digest"), landed(message(again), first=5)) == 1
    assert kept(landed(message(ONE), without="digest"), landed(message("3"), first=5)) == 2


def test_a_row_is_told_from_one_whose_identity_has_its_hash() -> None:
    columns = {"landing": 1, "landed_at": NOW, "transaction_id": "7", "tx": 1, "kind": "row", "table": "promo_codes"}
    rows = [{**columns, "row": n, "identity": f"9:c:[{n}]", "payload": 1, "digest": bytes(16)} for n in range(2)]
    numbers = compact_events_of(pa.Table.from_pylist(rows, CHANGE_EVENTS))
    assert numbers["low"][0] != numbers["low"][1]


def test_a_state_that_was_written_before_digests_is_read() -> None:
    old = landed(message(ONE))
    fields = [name for name in ev.FIELDS if name not in ev.COMPARED]
    written = np.empty(len(old), [(name, old.dtype[name]) for name in fields])
    for name in fields:
        written[name] = old[name]
    held = buffer.Held(ev.from_bytes(ev.to_bytes(written), ev.EVENT))
    held, decisions = buffer.decide(held, landed(message(ONE), first=5), completeness.Rules(10))
    assert decisions.duplicates == 1


def test_events_of_a_landing_that_knew_neither_digests_nor_runs_are_compact_events_too() -> None:
    columns = {"landing": 1, "landed_at": NOW, "transaction_id": "7", "tx": 1, "kind": "row", "table": "promo_codes"}
    events = pa.Table.from_pylist([{**columns, "row": 0, "identity": "1", "payload": 9}], CHANGE_EVENTS)
    old = compact_events_of(events.drop_columns(["digest", "producer_run"]))
    assert [(each["payload"], each["high"], each["low"], each["run"]) for each in old] == [(9, 0, 0, 0)]
