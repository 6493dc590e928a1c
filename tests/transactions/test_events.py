"""Arrays of compact events: sorted, joined and merged as plain Python does it, record by record."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from txloom.transactions import buffer
from txloom.transactions import events as ev

FEW = st.integers(-2, 2)
KINDS = (ev.ROW, ev.METADATA, ev.EXPECTED, ev.REPEATED, ev.REOPEN)
NAMES = ev.FIELDS


def record(kinds: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw a record with few values in each field, so that many are equal."""
    fields = [st.sampled_from(kinds) if name == "kind" else FEW for name in NAMES]
    return st.tuples(*fields)


def records(*kinds: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(record(kinds or KINDS), max_size=30).map(lambda rows: np.array(rows, ev.EVENT))


def plain(array: np.ndarray) -> list[Any]:
    return array.tolist()


def key(row: Any, *names: str) -> tuple[Any, ...]:
    return tuple(row[NAMES.index(name)] for name in names)


@given(records(), st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=8))
def test_records_are_sorted_by_some_fields_and_equal_ones_stay_in_order(array: np.ndarray, names: list[str]) -> None:
    once = ev.ordered(array, names)
    assert plain(once) == sorted(plain(array), key=lambda row: key(row, *names))
    assert ev.ordered(once, names) is once, "what is sorted is not copied"


@given(st.lists(records(), max_size=4), records(ev.CLOCK))
def test_what_was_packed_is_unpacked_into_one_array(parts: list[np.ndarray], others: np.ndarray) -> None:
    whole = ev.unpacked([ev.to_bytes(part) for part in parts], others)
    assert plain(whole) == [row for part in (*parts, others) for row in plain(part)]


@given(records(ev.ROW, ev.METADATA), records(ev.EXPECTED, ev.REPEATED))
def test_what_follows_a_transaction_is_merged_as_if_all_were_sorted(some: np.ndarray, following: np.ndarray) -> None:
    some = ev.ordered(some, ev.IDENTITY)
    merged = ev.merged(some, following)
    assert plain(merged) == plain(ev.ordered(np.concatenate([some, following]), ev.IDENTITY))


@given(records(), st.data())
def test_chosen_records_are_those_of_the_flags(array: np.ndarray, data: st.DataObject) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array)))
    chosen = ev.chosen(array, np.array(flags, bool))
    assert plain(chosen) == [row for row, is_chosen in zip(plain(array), flags, strict=True) if is_chosen]


@given(records(ev.ROW, ev.METADATA, ev.REOPEN))
def test_of_equal_events_the_one_that_came_first_stays(array: np.ndarray) -> None:
    before = plain(array)
    first, repeated = buffer._first_of_each(ev.ordered(array, ev.IDENTITY))
    assert sorted([*plain(first), *plain(repeated)]) == sorted(before), "none is lost and none is there twice"
    assert plain(array) == before, "nothing is written into what came"
    ordered = sorted(before, key=lambda row: key(row, *ev.IDENTITY, "payload", "high", "landing", "row"))
    expected: list[Any] = []
    last: Any = None
    for row in ordered:
        same = last is not None and key(row, *ev.IDENTITY, "payload") == key(last, *ev.IDENTITY, "payload")
        if not (same and (key(last, "high") == (0,) or key(row, *ev.COMPARED) == key(last, *ev.COMPARED))):
            expected.append(row)
        last = row
    assert sorted(plain(first)) == sorted(expected)
    assert [key(row, *ev.IDENTITY) for row in plain(first)] == [key(row, *ev.IDENTITY) for row in expected]
