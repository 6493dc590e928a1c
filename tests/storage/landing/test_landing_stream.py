"""The stream of landings: whatever was landed is planned once, in order, in batches that end where they may."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.storage.buffer import batch_plan
from txloom.storage.buffer.batch_plan import End
from txloom.storage.buffer.buffer_stream import NO_CLOCK
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_stream
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.transactions import compact_events
from txloom.transactions import events as ev
from txloom.transactions.compact_events import BUCKETS

LANDED = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), max_size=40)


def planned(landed: list[tuple[int, int]], known: int) -> list[End]:
    """Return the ends of batches."""
    return list(batch_plan._ends(landed, known))


def numbered(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return landings with their rows; a number may be left out, of a landing that died."""
    landings, number = [], 0
    for gap, rows in gaps:
        number += gap
        landings.append((number, rows))
    return landings


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_plan, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(batch_plan, "LANDINGS_AT_ONCE", 6)
    monkeypatch.setattr(batch_plan, "ROWS_OF_A_TASK", 9)


@pytest.mark.usefixtures("_small")
@given(LANDED, st.integers(0, 100))
def test_batches_take_every_landing_once_and_no_more_than_they_may(gaps: Any, known: int) -> None:
    landed, after = numbered(gaps), 0
    for end in planned(landed, known):
        taken = [(number, rows) for number, rows in landed if after < number <= end.landing]
        assert taken, "an empty batch"
        assert taken[-1][0] == end.landing
        assert len(taken) <= 6
        assert sum(rows for _, rows in taken[:-1]) < 50, "the last of them was one too many"
        assert after >= known or end.landing <= known or taken[0][0] > known, "what is known and what is new, in one"
        after = end.landing
    assert after == (landed[-1][0] if landed else 0)


@pytest.mark.usefixtures("_small")
@given(LANDED)
def test_small_landings_are_taken_together(gaps: Any) -> None:
    landed = numbered(gaps)
    ends = planned(landed, 0)
    for one, other in zip([End(0), *ends], ends[:-1], strict=False):
        taken = [rows for number, rows in landed if one.landing < number <= other.landing]
        assert sum(taken) >= 50 or len(taken) == 6


@given(st.integers(1, BUCKETS))
def test_the_tasks_of_a_batch_read_each_bucket_once(tasks: int) -> None:
    seen = list[int]()

    def arrivals(path: str, after: int, until: int, buckets: Any, parts: int) -> Any:
        assert (path, after, until, parts) == ("p", 2, 5, 3)
        seen.extend(buckets)
        return iter(())

    piece = {"after": 2, "until": 5, "tasks": tasks}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(landing_stream, "arrivals", arrivals)
        rows = pa.RecordBatch.from_pylist([piece | {"task": task} for task in range(tasks)])
        assert list(landing_stream._reader("p", 3)([rows])) == []
    assert sorted(seen) == list(range(BUCKETS))


def test_what_is_planned_is_never_planned_anew(tmp_path: Path) -> None:
    paths, plan = TablePaths(str(tmp_path), "shop"), str(tmp_path / "plan")
    small_tables.ensure(paths.change_events, EVENTS)
    land(paths, 1, 2, 4)
    assert batch_plan.planned(plan) == 0
    assert batch_plan.extend(paths, plan, known=2) == [End(2), End(4)]
    assert batch_plan.extend(paths, plan) == []
    land(paths, 5)
    assert batch_plan.extend(paths, plan) == [End(5)]
    rows = small_tables.query(plan, "select after, until, change_events as id from t order by until")
    assert [(row["after"], row["until"]) for row in rows] == [(0, 2), (2, 4), (4, 5)]
    assert {row["id"] for row in rows} == {batch_plan.change_events_id(paths)}


def test_a_landing_that_is_not_over_is_not_planned(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "shop")
    small_tables.ensure(paths.change_events, EVENTS)
    land(paths, 1)
    small_tables.append(paths.change_events, [{"landing": 2, "kind": "row"}], EVENTS)
    assert batch_plan.ends(paths, 0) == [End(1)]


def test_a_clock_comes_to_every_bucket_with_the_holes_that_it_brings(tmp_path: Path) -> None:
    paths, at = TablePaths(str(tmp_path), "shop"), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    holes = ev.to_bytes(ev.unreadable_ranges(3, [(7, 9)]))
    clock = {"landing": 3, "landed_at": at}
    rows = [
        clock | {"kind": "clock", "csn": 40, "numbers": holes},
        clock | {"kind": "numbers", "bucket": 1, "numbers": b"x"},
    ]
    small_tables.append(paths.change_events, rows, CHANGE_EVENTS)
    arrived = pa.concat_tables(landing_stream.arrivals(paths.change_events, 2, 3, (1, 5))).to_pylist()
    clocks = [{"bucket": bucket, "landing": 3, "at": 5_000_000, "reached": 40, "numbers": holes} for bucket in (1, 5)]
    numbers = {"bucket": 1, "landing": 3, "at": 5_000_000, "reached": NO_CLOCK, "numbers": b"x"}
    assert sorted(arrived, key=repr) == sorted([*clocks, numbers], key=repr)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)), max_size=60), st.integers(1, 5))
def test_the_parts_of_buckets_hold_every_event_once_and_a_transaction_in_one(events: Any, parts: int) -> None:
    records = np.zeros(len(events), ev.EVENT)
    for number, (tx, row) in enumerate(events):
        records[number]["tx"], records[number]["row"] = tx, row
    buckets = records["tx"] % BUCKETS
    arrived = list[tuple[int, int]]()
    for bucket in range(BUCKETS):
        mine = records[buckets == bucket]
        for part, packed in compact_events.split(bucket, ev.to_bytes(mine), parts) if len(mine) else ():
            assert part % BUCKETS == bucket and part < BUCKETS * parts
            some = ev.from_bytes(packed, ev.EVENT)
            assert len(some) and set((some["tx"] // BUCKETS % parts).tolist()) <= {part // BUCKETS}
            arrived += zip(some["tx"].tolist(), some["row"].tolist(), strict=True)
    assert sorted(arrived) == sorted(events)


def test_a_split_bucket_gets_its_events_by_parts_and_each_part_the_clock(tmp_path: Path) -> None:
    paths, at = TablePaths(str(tmp_path), "shop"), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    records = np.zeros(3, ev.EVENT)
    records["tx"] = [1, 9, 17]
    clock = {"landing": 3, "landed_at": at}
    rows = [
        clock | {"kind": "clock", "csn": 40},
        clock | {"kind": "numbers", "bucket": 1, "numbers": ev.to_bytes(records)},
    ]
    small_tables.append(paths.change_events, rows, CHANGE_EVENTS)
    arrived = pa.concat_tables(landing_stream.arrivals(paths.change_events, 2, 3, (1,), 2)).to_pylist()
    assert sorted(row["bucket"] for row in arrived if row["reached"] == 40) == [1, 9]
    packed = {row["bucket"]: row["numbers"] for row in arrived if row["reached"] == NO_CLOCK}
    assert {bucket: ev.from_bytes(each, ev.EVENT)["tx"].tolist() for bucket, each in packed.items()} == {
        1: [1, 17],
        9: [9],
    }


def test_a_plan_keeps_the_number_of_parts_that_it_began_with(tmp_path: Path) -> None:
    paths, plan = TablePaths(str(tmp_path), "shop"), str(tmp_path / "plan")
    small_tables.ensure(paths.change_events, EVENTS)
    assert batch_plan.parts_of(plan) is None
    batch_plan.extend(paths, plan, parts=4)
    batch_plan.extend(paths, plan, parts=2)
    assert batch_plan.parts_of(plan) == 4
    small_tables.ensure(str(tmp_path / "old"), batch_plan.PLAN)
    assert batch_plan.parts_of(str(tmp_path / "old")) == 1


EVENTS = pa.schema([("landing", pa.int64()), ("kind", pa.string()), ("detail", pa.string())])


def land(paths: TablePaths, *landings: int) -> None:
    rows = [{"landing": landing, "kind": kind} for landing in landings for kind in ("row", "numbers", "clock")]
    small_tables.append(paths.change_events, rows, EVENTS)
