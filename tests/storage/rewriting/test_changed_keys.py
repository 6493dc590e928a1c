"""Bounds of a file never leave out a row that may change, whatever type a key has."""

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.storage.rewriting.changed_keys import ChangedKeys, Values
from txloom.storage.rewriting.table_files import TableFile, comparable, has_order

VALUES: dict[pa.DataType, Any] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.integers(-5, 5),
    pa.string(): st.text(max_size=3) | st.sampled_from(["", "x" * 40, "\U0010ffff" * 33]),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes().map(lambda at: at.replace(tzinfo=None)),
    pa.decimal128(38, 10): st.decimals(-5, 5, places=10),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=2),
}


def file_of(column: pa.Array) -> TableFile:
    """Return a file whose bounds are those of a column, as its statistics have them."""
    known = column.drop_null()
    if not has_order(column.type) or not len(known):
        return TableFile("f", 1, {}, {})
    ordered = sorted(comparable(known))
    return TableFile("f", 1, {}, {"k": (ordered[0], ordered[-1])})


@given(st.data())
def test_a_row_with_a_changed_key_is_never_left_out(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(VALUES)))
    drawn = st.lists(st.none() | VALUES[kind], max_size=8)
    column, changed = (pa.array(data.draw(drawn), kind) for _ in range(2))
    keys = ChangedKeys({"k": Values.of([changed, changed], kind)})
    expected = [value is not None and value in changed.to_pylist() for value in column.to_pylist()]
    assert keys.among(pa.table({"k": column})).to_pylist() == expected
    assert keys.may_be_in(file_of(column)) or not any(expected)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)))
)
def test_of_a_key_of_two_columns_rows_are_chosen_by_both(stored: list[Any], changed: list[Any]) -> None:
    rows = pa.table(
        {"a": [a for a, _ in stored], "b": [b for _, b in stored]}, pa.schema([("a", pa.int64()), ("b", pa.int64())])
    )
    values = {
        name: Values.of([pa.array([pair[at] for pair in changed], pa.int64())], pa.int64())
        for at, name in enumerate("ab")
    }
    chosen = ChangedKeys(values).among(rows).to_pylist()
    assert all(is_chosen for pair, is_chosen in zip(stored, chosen, strict=True) if pair in changed)
    assert not changed or chosen == [a in [x for x, _ in changed] and b in [y for _, y in changed] for a, b in stored]


def test_rows_with_a_value_of_a_dropped_column_change_too() -> None:
    keys = ChangedKeys({"k": Values.of([pa.array([1])], pa.int64())}, ["gone"])
    assert keys.among(pa.table({"k": [1, 2, 3], "gone": [None, "x", None]})).to_pylist() == [True, True, False]
    assert keys.may_be_in(TableFile("f", 1, {}, {"k": (7, 9)}))


def test_without_keys_no_row_changes_and_no_file_is_read() -> None:
    keys = ChangedKeys({})
    assert not keys.may_be_in(TableFile("f", 1, {}, {}))
    assert ChangedKeys({}, everything=True).among(pa.table({"k": [1, 2]})).to_pylist() == [True, True]


@pytest.mark.parametrize("lost", [0, 999])
def test_the_bounds_of_times_may_end_at_their_millisecond(lost: int) -> None:
    """Spark writes them so."""
    at = datetime(2026, 1, 1, 0, 0, 0, 5_000)
    column = pa.array([at + timedelta(microseconds=lost)], pa.timestamp("us"))
    bound = comparable(pa.array([at], pa.timestamp("us")))[0]
    assert ChangedKeys({"k": Values.of([column], column.type)}).may_be_in(TableFile("f", 1, {}, {"k": (bound, bound)}))


def test_far_dates_have_bounds() -> None:
    column = pa.array([date(1, 1, 1), date(9999, 12, 31)])
    keys = ChangedKeys({"k": Values.of([column], column.type)})
    assert keys.may_be_in(file_of(column))
    assert not keys.may_be_in(file_of(pa.array([date(2000, 1, 1)])))
