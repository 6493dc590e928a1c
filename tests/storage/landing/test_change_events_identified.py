"""Rows that have nothing of their own to be known by are known by the place that they were sent at."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from txloom.config import load
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.storage.landing.change_events import with_position
from txloom.storage.sources.splits import LandingPlan, Range, Task
from txloom.transactions import buffer, completeness
from txloom.transactions.compact_events import compact_events_of

DECLARED = """
name: shop
source: {format: debezium, files: {path: inbox}, transaction_topic: transaction}
completeness: {rule: counts, patience: 2h}
tables:
  - {name: notes, source: public.notes, key: none, columns: {note: string}}
  - {name: items, source: public.items, key: [id], columns: {id: long}}
targets: {mirrors: ["*"]}
"""
AT = datetime(2026, 1, 1, tzinfo=UTC)


def decoder(folder: Path) -> DebeziumDecoder:
    file = folder / "shop.yaml"
    file.write_text(DECLARED)
    return DebeziumDecoder(load(file).tables, "transaction")


def row(table: str, after: dict[str, Any], number: int | None = None) -> bytes:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": 40}
    source_fields = None if number is None else {"id": "7:40", "total_order": number}
    op = "r" if number is None else "c"
    return json.dumps(
        {"before": None, "after": after, "source": source, "transaction": source_fields, "op": op}
    ).encode()


def landed(folder: Path, *values: bytes, number: int = 1, first: int = 1, file: str = "a.jsonl") -> pa.Table:
    task = Task(1, "notes", file, 0)
    places = range(first, first + len(values))
    return with_position(decoder(folder).decode("notes", values), task, places, LandingPlan(number, AT, (task,)))


def named(events: pa.Table) -> list[tuple[str, str, str]]:
    rows = events.select(["transaction_id", "xid", "identity"]).to_pylist()
    return [(each["transaction_id"], each["xid"], each["identity"]) for each in rows]


def test_equal_rows_of_a_snapshot_without_a_key_are_transactions_of_their_own(tmp_path: Path) -> None:
    one, other = named(landed(tmp_path, row("notes", {"note": "a"}), row("notes", {"note": "a"})))
    assert one != other
    assert one[0].endswith("@a.jsonl:1") and other[0].endswith("@a.jsonl:2")
    assert one == (one[0],) * 3


def test_a_line_that_is_landed_again_is_the_row_that_it_was(tmp_path: Path) -> None:
    message = row("notes", {"note": "a"})
    assert named(landed(tmp_path, message)) == named(landed(tmp_path, message, number=5))
    assert named(landed(tmp_path, message)) != named(landed(tmp_path, message, file="b.jsonl"))


def test_a_record_is_known_by_its_topic_partition_and_offset(tmp_path: Path) -> None:
    task = Task(3, "notes", "", 0, Range("notes", "id", 2, 10, 12))
    events = decoder(tmp_path).decode("notes", [row("notes", {"note": "a"})])
    assert named(with_position(events, task, [11], LandingPlan(1, AT, (task,))))[0][0].endswith("@notes:2:11")


def test_rows_with_a_key_or_a_transaction_keep_what_they_are_known_by(tmp_path: Path) -> None:
    values = row("items", {"id": 1}), row("notes", {"note": "a"}, 1)
    assert named(landed(tmp_path, *values)) == named(landed(tmp_path, *values, first=9))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=12))
def test_every_row_of_a_table_without_a_key_is_one_event_and_a_redelivery_is_none(
    tmp_path_factory: Any, rows_sent: list[tuple[str, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("notes")
    values = [row("notes", {"note": note}, n if within else None) for n, (note, within) in enumerate(rows_sent, 1)]
    end = {"status": "END", "id": "7:41", "data_collections": []}
    count = sum(within for _, within in rows_sent)
    end["data_collections"] = [{"data_collection": "public.notes", "event_count": count}]
    task = Task(2, "transaction", "t.jsonl", 0)
    ends = with_position(
        decoder(folder).decode("transaction", [json.dumps(end).encode()]), task, [1], LandingPlan(1, AT, (task,))
    )
    events = [landed(folder, *values), landed(folder, *values, number=2), ends]
    held, decisions = buffer.Held(), []
    for each in events:
        held, decided = buffer.decide(held, compact_events_of(each), completeness.Rules(10))
        decisions.append(decided)
    released = sum(int(part.rows.sum()) for decided in decisions for part in decided.released)
    assert released == len(rows_sent)
    assert len(held.events) == 0
