"""A difference names table, key, column and both values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from oracle.comparison import differences, keyed, report, same

LEFT: dict[tuple[Any, ...], dict[str, Any]] = {
    (1,): {"id": 1, "name": "a", "items": [{"no": 1, "qty": Decimal("1.00")}]}
}


def test_equal_states_have_no_differences() -> None:
    right = {(1,): {**LEFT[1,], "_txloom_csn": 5}}
    assert differences({"orders": LEFT}, {"orders": right}) == []


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ({(1,): {**LEFT[1,], "name": None}}, "orders[1].name: expected 'a', found None"),
        (
            {(1,): {**LEFT[1,], "items": [{"no": 1, "qty": Decimal("1.0")}]}},
            "orders[1].items[0].qty: expected Decimal('1.00'), found Decimal('1.0')",
        ),
        ({(1,): {"id": 1, "items": LEFT[1,]["items"]}}, "orders[1].name: expected 'a', found (missing)"),
        ({(1,): {**LEFT[1,], "more": 2}}, "orders[1].more: expected (missing), found 2"),
        ({(1,): {**LEFT[1,], "items": []}}, f"orders[1].items: expected {LEFT[1,]['items']!r}, found []"),
        ({}, f"orders[1].(row): expected {LEFT[1,]!r}, found (missing)"),
        ({**LEFT, (2,): {"id": 2}}, "orders[2].(row): expected (missing), found {'id': 2}"),
    ],
    ids=[
        "value",
        "scale of a nested value",
        "column missing",
        "column too many",
        "list",
        "row missing",
        "row too many",
    ],
)
def test_a_difference_reads_as_a_sentence(right: dict[tuple[Any, ...], dict[str, Any]], expected: str) -> None:
    assert report(differences({"orders": LEFT}, {"orders": right})) == expected


def test_a_missing_table_is_all_its_rows() -> None:
    assert [difference.table for difference in differences({"orders": LEFT}, {})] == ["orders"]


def test_a_report_is_bounded() -> None:
    many = {(number,): {"id": number} for number in range(30)}
    assert report(differences({"t": many}, {}), limit=2).splitlines()[-1] == "... and 28 more"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (1, Decimal(1)),
        (Decimal("1.0"), Decimal("1.00")),
        (None, ""),
        (None, "null"),
        (b"", None),
        ([1], [1, None]),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_alike_is_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)
    assert same(left, left)


def test_what_spark_returns_for_bytes_and_not_a_number_is_the_same() -> None:
    assert same(b"ab", bytearray(b"ab"))
    assert same(float("nan"), float("nan"))


def test_two_rows_under_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two rows under key \(1,\)"):
        keyed([{"id": 1}, {"id": 1}], ("id",))
