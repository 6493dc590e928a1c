"""An extract against current rows, without Spark: the differences by value, as events that read back exactly."""

import json
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from public.snapshots import difference as by_value
from public.snapshots import keyed
from txloom.config import load
from txloom.current.row_diff import with_hashes
from txloom.events.images.reader import ImageReader
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.snapshots.extract_diff import Compared, Comparison, compared, empty, read
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.sources.splits import LandingPlan

DECLARED = """
name: club
source: {format: snapshots, files: {path: inbox}, snapshots: {extracts: full}}
completeness: {rule: single}
tables:
  - name: things
    source: CLUB.THINGS
    key: [a, b]
    columns:
      a: string
      b: {type: 'decimal(10,2)', source: NUMBER_B}
      text: string
      whole: long
      money: decimal(20,4)
      flag: boolean
      day: date
      at: timestamp
      instant: timestamptz
      bytes: binary
      ratio: double
      list: array<string>
targets: {mirrors: ["*"]}
"""
with tempfile.TemporaryDirectory() as _folder:
    Path(_folder, "club.yaml").write_text(DECLARED)
    CLUB = load(Path(_folder, "club.yaml"))
THINGS = CLUB.table("things")
TRANSACTION = InternalTransaction(
    CLUB, LandingPlan(3, datetime(2026, 11, 21, tzinfo=UTC), ()), "snapshot:x", 20261120, None
)
TEXTS = st.sampled_from(["", "a", "ab", "null", '"', "ä\n", "\\", "1.0"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "whole": st.integers(-(2**63), 2**63 - 1),
    "money": st.decimals(-(10**15), 10**15, places=4),
    "flag": st.booleans(),
    "day": st.dates(date(1, 1, 1)),
    "at": st.datetimes().map(lambda at: at.replace(fold=0)),
    "instant": st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(ZoneInfo("UTC"))).map(
        lambda at: at.replace(fold=0)
    ),
    "bytes": st.binary(max_size=3),
    "ratio": st.floats(allow_nan=False, allow_infinity=False),
    "list": st.lists(st.none() | TEXTS, max_size=2),
}
KEYS = {"a": TEXTS, "b": st.sampled_from([Decimal("1.00"), Decimal("1.10"), Decimal("-0.01"), Decimal("11.00")])}
Rows = list[dict[str, Any]]


def unique(rows: Rows) -> Rows:
    """Return rows with a key of their own, columns in the order of their declaration."""
    return [{name: row[name] for name in THINGS.column_names} for row in keyed(rows, "a", "b").values()]


ROWS = st.lists(
    st.fixed_dictionaries(KEYS | {name: st.none() | values for name, values in VALUES.items()}), max_size=6
).map(unique)
CHANGES = [{}, {"text": None}, {"whole": 7}, {"list": []}, {"money": Decimal("1.0000")}]


def plain(value: Any) -> Any:
    """Write a value as an export to JSON does."""
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | float | list | str) else str(value)


def extracted(rows: Rows, folder: str, name: str) -> tuple[pa.Table, SnapshotFile]:
    """Write rows as an extract and read them again."""
    file = SnapshotFile("things", f"{folder}/{name}.jsonl", 0)
    lines = [{THINGS.column(key).source: plain(value) for key, value in row.items()} for row in rows]
    Path(file.path).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = Compared()
    typed = pa.concat_tables([empty(THINGS), *read(THINGS, 0, file, result)])
    assert (result.problems, result.undeclared) == ([], set())
    return with_hashes(typed, THINGS.key, THINGS.column_names), file


@settings(max_examples=examples(60))
@given(ROWS, ROWS, st.data())
def test_events_are_the_differences_and_read_back_exactly(old: Rows, new: Rows, data: st.DataObject) -> None:
    kept = [row | data.draw(st.sampled_from(CHANGES)) for row in old[: data.draw(st.integers(0, len(old)))]]
    new = unique([*new, *kept])
    with tempfile.TemporaryDirectory() as folder:
        current, _ = extracted(old, folder, "old")
        extract, file = extracted(new, folder, "new")
        result = Compared()
        comparison = Comparison(TRANSACTION, THINGS, [file], full=True)
        chunks = list(compared(comparison, extract, current, 5, result))
    expected = by_value(keyed(old, "a", "b"), keyed(new, "a", "b"))
    event_changes = []
    for events in chunks:
        assert pc.all(pc.equal(events.column("kind"), "row")).as_py()
        images = ImageReader(THINGS).read(events.column("value").to_pylist())
        assert images.column("problem").null_count == images.num_rows
        sides = [images.column(name).to_pylist() for name in ("before", "after")]
        event_changes += list(zip(events.column("op").to_pylist(), *sides, strict=True))
        for op, after, line in zip(
            events.column("op").to_pylist(), sides[1], events.column("line").to_pylist(), strict=True
        ):
            assert (line is None) if op == "D" else new[line - 1] == after
    assert sorted(map(repr, event_changes)) == sorted(map(repr, expected))
    assert {kind: result.counts[kind] for kind in ("inserts", "updates", "deletes", "missing")} == {
        "inserts": sum(op == "I" for op, _, _ in expected),
        "updates": sum(op == "U" for op, _, _ in expected),
        "deletes": sum(op == "D" for op, _, _ in expected),
        "missing": 0,
    }
    assert result.rows == len(new)
    positions = [position for events in chunks for position in events.column("pos").to_pylist()]
    assert len(set(positions)) == len(positions)


def test_a_partial_extract_deletes_nothing() -> None:
    rows = [dict.fromkeys(THINGS.column_names) | {"a": a, "b": Decimal(1)} for a in "xyz"]
    with tempfile.TemporaryDirectory() as folder:
        current, _ = extracted(rows, folder, "old")
        extract, file = extracted([rows[1], rows[2] | {"text": "new"}], folder, "new")
        result = Compared()
        comparison = Comparison(TRANSACTION, THINGS, [file], full=False)
        (events,) = compared(comparison, extract, current, 5, result)
    assert events.column("op").to_pylist() == ["U"]
    assert dict(result.counts) == {"inserts": 0, "updates": 1, "missing": 1, "unchanged": 1}
