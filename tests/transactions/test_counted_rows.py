"""Rows of a loaded snapshot that the buffer only counts: it decides what it decides where it sees each of them."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.transactions import buffer, completeness
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS, compact_events_of, of_snapshot
from txloom.transactions.hashes import hash64

ID = "_txloom_load:7"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 60_000_000
TABLES = ("orders", "lines", "notes")
SHOWN = ("tx", "csn", "rows", "first_at", "finished_at", "first_landing", "last_landing", "runs")

COUNTS = st.dictionaries(st.sampled_from(TABLES), st.integers(1, 9), min_size=1)
"""Loaded rows by table."""


def landed(kind: str, row: int, table: str | None = None, landing: int = 7, **more: Any) -> dict[str, Any]:
    fields = {"kind": kind, "landing": landing, "row": row, "transaction_id": ID, "tx": hash64(ID), "csn": 100}
    content = {"table": table, "identity": str(row), "payload": row * 3, "digest": bytes([row % 256]) * 16}
    return {**fields, **(content if table else {}), "landed_at": BEGIN, **more}


def loaded(counts: dict[str, int]) -> list[dict[str, Any]]:
    rows = [table for table, count in counts.items() for _ in range(count)]
    return [landed("row", 100 + number, table, op="r") for number, table in enumerate(rows)]


def head(counts: dict[str, int]) -> pa.Table:
    """Return the truncates, and metadata that counts them and so many rows."""
    rows = [landed("row", number, table, op="T") for number, table in enumerate(counts)]
    expected = [(table, count + 1) for table, count in counts.items()]
    rows.append(landed("metadata", 50, event_count=sum(count for _, count in expected), expected=expected))
    return pa.Table.from_pylist(rows, CHANGE_EVENTS)


def counted(parts: list[list[dict[str, Any]]]) -> np.ndarray:
    packed = [each for part in parts for each in of_snapshot(pa.Table.from_pylist(part, CHANGE_EVENTS))]
    assert {bucket for bucket, _ in packed} <= {hash64(ID) % BUCKETS}
    return ev.concatenate([ev.from_bytes(numbers, ev.EVENT) for _, numbers in packed])


def clock(landing: int, after: int) -> np.ndarray:
    at = int((BEGIN + timedelta(microseconds=after)).timestamp() * 1_000_000)
    return ev.clocks(np.array([landing]), np.array([at]))


def decided(batches: list[np.ndarray], rules: completeness.Rules) -> list[dict[str, Any]]:
    """Return what is decided batch by batch, and how many rows are held then."""
    held, seen = buffer.Held(), []
    for batch in batches:
        held, decisions = buffer.decide(held, batch, rules)
        released = [[getattr(each, name).tolist() for name in SHOWN] for each in decisions.released]
        seen.append(
            {
                "released": released,
                "places": decisions.repeated_in,
                "dead": decisions.dead.to_pylist(),
                "waiting": decisions.waiting.to_pylist(),
                "counts": (
                    decisions.rows,
                    decisions.metadata,
                    decisions.duplicates,
                    int(ev.row_counts(held.events).sum()),
                ),
            }
        )
    return seen


@given(st.data(), COUNTS, st.sampled_from((0, 0, 1, -1)), st.booleans(), st.sampled_from((None, 5, 1_000)))
def test_the_buffer_decides_the_same(
    data: st.DataObject, counts: dict[str, int], too_many: int, at_once: bool, largest: int | None
) -> None:
    """Whole or short, at once or landing by landing, in any parts, also where it is too large."""
    rows = loaded(counts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    promised = {**counts, min(counts): counts[min(counts)] + too_many}
    rules = completeness.Rules(PATIENCE, largest=largest)
    seen = []
    for of_rows in (compact_events_of(pa.Table.from_pylist(rows, CHANGE_EVENTS)), counted(parts)):
        landing = ev.concatenate([compact_events_of(head(promised)), of_rows])
        batches = [landing, clock(7, 10), clock(8, PATIENCE + 10)]
        seen.append(decided([ev.concatenate(batches)] if at_once else batches, rules))
    assert seen[0] == seen[1]
    assert sum(each["counts"][0] for each in seen[1]) == len(rows) + len(counts)


@given(COUNTS)
def test_each_row_is_counted_once(counts: dict[str, int]) -> None:
    records = counted([loaded(counts)])
    assert dict(zip(records["table"].tolist(), records["count"].tolist(), strict=True)) == Counter(
        {hash64(table): count for table, count in counts.items()}
    )
    assert set(records["kind"].tolist()) == {ev.ROWS}
    assert len(set(records["identity"].tolist())) == len(records)
