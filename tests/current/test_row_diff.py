"""Differences by hash are the differences by value, for rows of every type that a table may have."""

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from public.snapshots import difference as by_value
from public.snapshots import keyed
from txloom.current.row_diff import difference, with_hashes
from txloom.current.row_hashes import row_hashes, written

COLUMNS = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("money", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("small", pa.float32()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.string())),
    ]
)
KEY = ("a", "b", "n")
TEXTS = st.sampled_from(["", "a", "ab", "b", "1:", "-", "null", "None", "0", "1:a", "ä", "\x00"])
VALUES = {
    "text": TEXTS,
    "money": st.sampled_from([Decimal("1.00"), Decimal("1"), Decimal("-1.00"), Decimal("0.10"), Decimal("0.01")]),
    "ratio": st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300, math.inf]),
    "small": st.sampled_from([0.0, 0.5, 1.5]),
    "flag": st.booleans(),
    "day": st.sampled_from([date(2026, 1, 1), date(1970, 1, 1)]),
    "at": st.sampled_from([datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)]),
    "instant": st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
    "bytes": st.sampled_from([b"", b"\x00", b"-", b"1:a"]),
    "list": st.lists(st.none() | TEXTS, max_size=2),
}
ROW = st.fixed_dictionaries(
    {"a": TEXTS, "b": TEXTS, "n": st.integers(0, 2)} | {name: st.none() | values for name, values in VALUES.items()}
)
Rows = list[dict[str, Any]]


def arrow(rows: Rows) -> pa.Table:
    return with_hashes(pa.Table.from_pylist(rows, COLUMNS), KEY, COLUMNS.names)


def compared(old: Rows, new: Rows) -> list[tuple[str, Any, Any]]:
    difference_of = difference(arrow(old), arrow(new))
    assert difference_of.repeated is None
    assert len(new) == len(difference_of.inserted) + len(difference_of.updated) + difference_of.unchanged
    assert len(old) == len(difference_of.missing) + len(difference_of.replaced) + difference_of.unchanged
    gone = [("D", old[position], None) for position in difference_of.missing.to_pylist()]
    changed = zip(difference_of.replaced.to_pylist(), difference_of.updated.to_pylist(), strict=True)
    updates = [("U", old[before], new[after]) for before, after in changed]
    return [*gone, *updates, *(("I", None, new[position]) for position in difference_of.inserted.to_pylist())]


def unique(rows: Rows) -> Rows:
    return list(keyed(rows, *KEY).values())


@given(st.lists(ROW, max_size=12).map(unique), st.lists(ROW, max_size=12).map(unique), st.data())
def test_differences_by_hash_are_those_by_value(old: Rows, new: Rows, data: st.DataObject) -> None:
    """Rows of the new side are new ones, and old ones of which some changed in one value."""
    kept = [row | data.draw(st.sampled_from([{}, {"text": ""}, {"money": Decimal("1.0")}])) for row in old]
    new = unique([*new, *kept[: data.draw(st.integers(0, len(kept)))]])
    expected = by_value(keyed(old, *KEY), keyed(new, *KEY))
    difference_of = compared(old, new)
    assert sorted(map(repr, difference_of)) == sorted(map(repr, expected))


@given(st.lists(ROW, min_size=2, max_size=6))
def test_rows_are_written_alike_only_when_they_are_equal(rows: Rows) -> None:
    texts = written(pa.Table.from_pylist(rows, COLUMNS), COLUMNS.names).to_pylist()
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            assert (texts[i] == texts[j]) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("", "ab"), ("ab", "")),
        ((None, ""), ("", None)),
        (("null", ""), (None, "")),
        (("-", ""), (None, "")),
        (("1:a", ""), ("1", "a")),
    ],
)
def test_what_looks_alike_when_joined_differs(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    rows = pa.Table.from_pylist([{"a": pair[0], "b": pair[1]} for pair in (one, other)], COLUMNS.remove(2))
    first, second = row_hashes(rows, ["a", "b"]).to_pylist()
    assert first != second
    assert len(first) == 16


def test_what_is_no_number_equals_itself_and_decimals_have_their_declared_scale() -> None:
    rows = pa.table({"ratio": [math.nan, float("-nan"), None], "money": pa.array(["1.00", "1.0", "1"]).cast("float64")})
    rows = rows.set_column(1, "money", rows.column("money").cast(pa.decimal128(10, 2)))
    one, again, null = row_hashes(rows, ["ratio", "money"]).to_pylist()
    assert one == again != null


def test_a_slice_of_rows_has_the_hashes_of_its_rows() -> None:
    rows = pa.table({"list": pa.array([["a"], None, ["b", None], []], pa.list_(pa.string())), "n": [1, 2, 3, None]})
    whole = row_hashes(rows, ["list", "n"]).to_pylist()
    assert row_hashes(rows.slice(1, 2), ["list", "n"]).to_pylist() == whole[1:3]


def test_a_key_that_stands_twice_is_found_with_both_places() -> None:
    base: dict[str, Any] = dict.fromkeys(COLUMNS.names)
    rows = [base | {"a": a, "b": "", "n": 1, "text": a + str(i)} for i, a in enumerate("xyzy")]
    assert difference(arrow([]), arrow(rows)).repeated == (1, 3)


def test_10000_rows_of_which_2000_were_replaced_and_4000_updated() -> None:
    """The numbers of the hash-diff seed."""
    base: dict[str, Any] = dict.fromkeys(COLUMNS.names)
    old = [base | {"a": f"{i}", "b": "", "n": 1, "text": "old"} for i in range(10_000)]
    new = [row | {"text": "new"} if i < 6_000 else row for i, row in enumerate(old) if i >= 2_000]
    new += [base | {"a": f"{i}", "b": "", "n": 1} for i in range(10_000, 12_000)]
    difference_of = difference(arrow(old), arrow(new))
    assert Counter(op for op, _, _ in compared(old, new)) == Counter(I=2_000, U=4_000, D=2_000)
    assert difference_of.unchanged == 4_000


def test_rows_without_columns_are_all_one() -> None:
    assert written(pa.table({"a": [1, 2]}), []).to_pylist() == [b"", b""]
