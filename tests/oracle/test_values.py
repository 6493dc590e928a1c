"""PostgreSQL's text becomes exactly the value that the declared type means."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from oracle.comparison import same
from oracle.values import typed


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        ("long", "-9223372036854775808", -(2**63)),
        ("long", "9007199254740993", 2**53 + 1),
        ("int", "-2147483648", -(2**31)),
        ("decimal(10,0)", "12", Decimal("12")),
        ("decimal(20,4)", "1.5", Decimal("1.5000")),
        (
            "decimal(38,10)",
            "1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        ("decimal(38,10)", "-0.0000000001", Decimal("-0.0000000001")),
        ("double", "-0", -0.0),
        ("double", "5e-324", 5e-324),
        ("double", "1e+300", 1e300),
        ("boolean", "false", False),
        ("date", "2100-01-01", date(2100, 1, 1)),
        ("date", "1969-12-31", date(1969, 12, 31)),
        ("timestamp", "1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", "2026-10-25 02:30:00", datetime(2026, 10, 25, 2, 30)),
        ("timestamptz", "2026-02-18 07:15:30.25+00", datetime(2026, 2, 18, 7, 15, 30, 250000, UTC)),
        ("timestamptz", "2026-02-18 01:00:00+05:30", datetime(2026, 2, 17, 19, 30, tzinfo=UTC)),
        ("time", "23:59:59.999999", "23:59:59.999999"),
        ("binary", "00ff8062696e", b"\x00\xff\x80bin"),
        ("binary", "", b""),
        ("json", "null", "null"),
        ("string", "\\N", "\\N"),
        ("string", None, None),
        ("array<string>", '{a,"b,c",NULL,"q\\"uote",""}', ["a", "b,c", None, 'q"uote', ""]),
        ("array<string>", '{"NULL","a\\\\b","{}"," x "}', ["NULL", "a\\b", "{}", " x "]),
        ("array<int>", "{1,NULL,-2147483648}", [1, None, -(2**31)]),
        ("array<int>", "{}", []),
        ("array<decimal(20,4)>", "{1.5000,2.0000,NULL}", [Decimal("1.5000"), Decimal("2.0000"), None]),
    ],
)
def test_a_text_is_the_value_it_means(declared: str, text: str | None, expected: Any) -> None:
    assert same(expected, typed(text, declared))


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("long", "9223372036854775808"),
        ("int", "2147483648"),
        ("long", "1.0"),
        ("decimal(20,4)", "1.00001"),
        ("decimal(4,2)", "100.00"),
        ("decimal(20,4)", "NaN"),
        ("decimal(20,4)", "Infinity"),
        ("decimal(20,4)", "one"),
        ("date", "2026-02-30"),
        ("timestamp", "2026-02-18 07:15:30+00"),
        ("timestamptz", "2026-02-18 07:15:30"),
        ("binary", "0"),
        ("boolean", "yes"),
        ("array<int>", "1,2"),
        ("array<int>", "{1,}"),
        ("array<int>", "{,1}"),
        ("array<int>", "{{1},{2}}"),
        ("array<int>", "{1}{2}"),
    ],
)
def test_a_text_that_means_nothing_is_refused(declared: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|not a|does not fit|zone|invalid|day|hex"):
        typed(text, declared)
