"""Values as Debezium writes them: every type comes out exactly, with a schema or without, or as a problem."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.debezium.images import DebeziumImages
from txloom.events.images.reader import ImageReader

TIME, CONNECT, DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
DIGITS = Decimal("1234567890123456789012345678.0123456789")


def base64(number: int, size: int | None = None) -> str:
    content = number.to_bytes(size or number.bit_length() // 8 + 1, "big", signed=True)
    return b64encode(content).decode()


def unscaled(number: Decimal) -> int:
    """Return a number's digits without its point."""
    return int(f"{number:f}".replace(".", ""))


def read(declared: str, value: Any, declared_as: dict[str, Any] | None = None, **options: Any) -> Any:
    """Read one value as a declared type; declared_as: its part of the schema. A problem: text in brackets."""
    columns = (Column(name="k", type=parse("long")), Column(name="v", type=parse(declared)))
    table = Table(name="t", source="s.t", columns=columns, key=("k",))
    message: dict[str, Any] = {"op": "c", "source": {"connector": "postgresql"}, "after": {"k": 1, "v": value}}
    if declared_as is not None:
        fields = [{"type": "int64", "field": "k"}, {"type": "int64", **declared_as, "field": "v"}]
        image = {"type": "struct", "fields": fields, "optional": True}
        envelope = [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}]
        message = {"schema": {"type": "struct", "fields": envelope}, "payload": message}
    canonical = DebeziumImages(table, **options).canonical([json.dumps(message)], ["I"], [None])
    (row,) = ImageReader(table).read(canonical).to_pylist()
    return f"[{row['problem']}]" if row["problem"] else row["after"]["v"]


def scale(digits: Any) -> dict[str, Any]:
    return {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": str(digits)}}


def bits(length: int) -> dict[str, Any]:
    return {"type": "bytes", "name": f"{DATA}Bits", "parameters": {"length": str(length)}}


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("date", 20501, date(2026, 2, 17)),
        ("date", -1, date(1969, 12, 31)),
        ("date", -719162, date(1, 1, 1)),
        ("date", 2932896, date(9999, 12, 31)),
        ("date", 2932897, "[v: '2932897, days since 1970' is not a date]"),
        ("date", "2026-02-17", date(2026, 2, 17)),
        ("date", "2026-02-17Z", date(2026, 2, 17)),
        ("date", "infinity", "[v: 'infinity' is not a date]"),
        ("timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", 1792895400000000, datetime(2026, 10, 25, 2, 30)),
        ("timestamp", 253402300799999999, datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", -62135596800000000, datetime(1, 1, 1)),
        (
            "timestamp",
            9223372036825200000,
            "[v: '9223372036825200000, 1000000 to a second since 1970' is not a timestamp]",
        ),
        ("timestamp", "2026-02-17T10:15:30.5", datetime(2026, 2, 17, 10, 15, 30, 500000)),
        ("timestamp", "2026-02-17T10:15:30.5Z", datetime(2026, 2, 17, 10, 15, 30, 500000)),
        ("timestamptz", "1969-12-31T23:59:59.000001Z", datetime(1969, 12, 31, 23, 59, 59, 1, UTC)),
        ("timestamptz", "2026-02-17T10:15:30+01:30", datetime(2026, 2, 17, 8, 45, 30, tzinfo=UTC)),
        ("timestamptz", 1500000, datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)),
        ("time", 86399999999, "23:59:59.999999"),
        ("time", 29730500000, "08:15:30.5"),
        ("time", 0, "00:00:00"),
        ("time", 86400000000, "24:00:00"),
        ("time", -3600000000, "[v: '-01:00:00' is not a time]"),
        ("time", "10:15:30Z", "10:15:30"),
        ("timestamp", 2023120112345.5, "[v: '2023120112345.5, no timestamp' is not a timestamp]"),
        ("date", {"year": 2026}, "[v: '{\"year\": 2026}, no date' is not a date]"),
        ("decimal(20,4)", "549486.9713", Decimal("549486.9713")),
        ("decimal(38,10)", str(DIGITS), DIGITS),
        ("decimal(20,4)", 12.5, Decimal("12.5000")),
        ("decimal(20,4)", base64(54948697), "[v: 'A0ZzWQ==' is not a decimal(20,4)]"),
        ("decimal(20,4)", {"scale": 4, "value": base64(-54948697)}, Decimal("-5494.8697")),
        ("decimal(20,4)", {"scale": 0, "value": 7}, '[v: \'{"scale": 0, "value": 7}\' is not a decimal(20,4)]'),
        ("long", {"scale": 0, "value": base64(2**62)}, 2**62),
        ("long", -(2**63), -(2**63)),
        ("double", 4.9e-324, 5e-324),
        ("double", "NaN", "nan"),
        ("boolean", True, True),
        ("binary", "AP+AYmlu", bytes.fromhex("00ff8062696e")),
        ("binary", "_-7d", bytes.fromhex("ffeedd")),
        ("binary", "", b""),
        ("binary", "00ff8", "[v: '\"00ff8\", no base64' is not a binary]"),
        ("string", "A'\"\\u2028 \u202e", "A'\"\\u2028 \u202e"),
        ("uuid", "6d6bbc9c-3784-5506-835b-b8050585d23f", "6d6bbc9c-3784-5506-835b-b8050585d23f"),
        ("json", '{"a": [1.50, null]}', '{"a": [1.50, null]}'),
        ("array<int>", [1, None, -(2**31)], [1, None, -(2**31)]),
        ("array<string>", ["a", "b,c", None, 'q"uote', ""], ["a", "b,c", None, 'q"uote', ""]),
        ("array<decimal(20,4)>", ["1.5000", None], [Decimal("1.5000"), None]),
        ("array<date>", [-1, None], [date(1969, 12, 31), None]),
        ("array<timestamp>", [-1], [datetime(1969, 12, 31, 23, 59, 59, 999999)]),
        ("array<int>", [], []),
        ("date", None, None),
        ("array<date>", None, None),
    ],
)
def test_without_a_schema_the_declared_type_tells(declared: str, value: Any, expected: Any) -> None:
    image = read(declared, value, time_precision_mode="microseconds")
    assert (str(image) if expected == "nan" else image) == expected


@pytest.mark.parametrize(
    ("unit", "timestamp", "time"),
    [
        ("adaptive", 1500000, 29730123000),
        ("millis", 1500, 29730123),
        ("connect", 1500, 29730123),
        ("nanos", 1500000000, 29730123000000),
    ],
)
def test_without_a_schema_the_option_tells_the_unit_of_time(unit: str, timestamp: int, time: int) -> None:
    assert read("timestamp", timestamp, time_unit=unit) == datetime(1970, 1, 1, 0, 0, 1, 500000)
    assert read("timestamptz", timestamp, time_unit=unit) == datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)
    assert read("time", time, time_unit=unit) == "08:15:30.123"
    assert read("date", 1, time_unit=unit) == date(1970, 1, 2)


TODAY = {"millis": 1_763_817_600_123, "micros": 1_763_817_600_123_000, "nanos": 1_763_817_600_123_000_000}


@pytest.mark.parametrize(
    ("database", "mode", "unit", "time"),
    [
        ("mysql", None, "millis", 29730123000),
        ("mariadb", "adaptive_time_microseconds", "millis", 29730123000),
        ("mysql", "connect", "millis", 29730123),
        (None, "connect", "millis", 29730123),
        ("postgresql", None, "micros", 29730123000),
        ("postgresql", "adaptive", "micros", 29730123000),
        ("oracle", "adaptive", "micros", 29730123000),
        ("sqlserver", "adaptive", "nanos", 29730123000000),
        ("sqlserver", "adaptive_time_microseconds", "nanos", 29730123000),
        (None, "microseconds", "micros", 29730123000),
        ("oracle", "nanoseconds", "nanos", 29730123000000),
    ],
)
def test_without_a_schema_database_and_mode_tell_the_unit_and_another_one_is_refused(
    database: Any, mode: Any, unit: str, time: int
) -> None:
    options = {"database": database, "time_precision_mode": mode}
    assert read("timestamp", TODAY[unit], **options) == datetime(2025, 11, 22, 13, 20, 0, 123_000)
    assert read("timestamptz", TODAY[unit], **options) == datetime(2025, 11, 22, 13, 20, 0, 123_000, UTC)
    assert read("time", time, **options) == "08:15:30.123"
    assert read("timestamp", 0, **options) == datetime(1970, 1, 1)
    if mode not in ("connect", "microseconds", "nanoseconds"):
        for other in set(TODAY) - {unit}:
            assert str(read("timestamp", TODAY[other], **options)).startswith(f"[v: '{TODAY[other]}, ")


@pytest.mark.parametrize("mode", ["adaptive", "connect"])
def test_the_last_day_of_year_9999_is_read_whatever_counts_finer_units(mode: Any) -> None:
    options = {"database": "mysql", "time_precision_mode": mode}
    assert read("timestamp", 253402300799000, **options) == datetime(9999, 12, 31, 23, 59, 59)
    value = read("timestamp", 253402214399000, **options)
    assert (value == datetime(9999, 12, 30, 23, 59, 59)) == (mode == "connect")


@pytest.mark.parametrize("options", [{}, {"time_precision_mode": "isostring"}])
def test_a_number_of_a_time_column_whose_unit_nobody_tells_is_no_value(options: Any) -> None:
    problem = "its unit is unknown: tell source.debezium.database and source.debezium.time_precision_mode"
    for declared in ("timestamp", "timestamptz", "time"):
        assert read(declared, 1500000, **options) == f"[v: '1500000, {problem}' is not a {declared}]"
    assert read("timestamp", "2026-02-17T10:15:30Z", **options) == datetime(2026, 2, 17, 10, 15, 30)
    assert read("timestamp", 1500, {"name": f"{TIME}Timestamp"}, **options) == datetime(1970, 1, 1, 0, 0, 1, 500000)
    assert read("date", 1, **options) == date(1970, 1, 2)


@pytest.mark.parametrize(
    ("declared", "name", "value", "expected"),
    [
        ("date", f"{TIME}Date", -1, date(1969, 12, 31)),
        ("date", f"{CONNECT}Date", 20501, date(2026, 2, 17)),
        ("date", f"{TIME}Timestamp", -86400000, date(1969, 12, 31)),
        ("date", f"{TIME}IsoDate", "2026-02-17Z", date(2026, 2, 17)),
        ("timestamp", f"{TIME}Date", -1, datetime(1969, 12, 31)),
        ("timestamp", f"{TIME}Timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ("timestamp", f"{CONNECT}Timestamp", 1500, datetime(1970, 1, 1, 0, 0, 1, 500000)),
        ("timestamp", f"{TIME}MicroTimestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", f"{TIME}NanoTimestamp", -1000, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", f"{TIME}IsoTimestamp", "2026-02-17T10:15:30Z", datetime(2026, 2, 17, 10, 15, 30)),
        ("timestamptz", f"{TIME}ZonedTimestamp", "2026-02-17T10:15:30Z", datetime(2026, 2, 17, 10, 15, 30, tzinfo=UTC)),
        (
            "timestamp",
            f"{TIME}ZonedTimestamp",
            "2026-02-17T10:15:30Z",
            "[v: '2026-02-17T10:15:30Z' is not a timestamp]",
        ),
        ("time", f"{TIME}Time", 29730500, "08:15:30.5"),
        ("time", f"{CONNECT}Time", 29730500, "08:15:30.5"),
        ("time", f"{TIME}MicroTime", 29730123456, "08:15:30.123456"),
        ("time", f"{TIME}NanoTime", 29730123456000, "08:15:30.123456"),
        ("time", f"{TIME}NanoTime", 29730123456789, "[v: '08:15:30.123456789' is not a time]"),
        ("time", f"{TIME}IsoTime", "10:15:30Z", "10:15:30"),
        ("time", f"{TIME}ZonedTime", "10:15:30Z", "[v: '10:15:30Z' is not a time]"),
        ("long", f"{TIME}MicroTimestamp", 1500000, 1500000),
        ("string", f"{TIME}MicroTimestamp", 1500000, "1500000"),
        ("json", f"{DATA}Json", '{"a": 1.50}', '{"a": 1.50}'),
        ("string", f"{DATA}Enum", "small", "small"),
        ("uuid", f"{DATA}Uuid", "6d6bbc9c-3784-5506-835b-b8050585d23f", "6d6bbc9c-3784-5506-835b-b8050585d23f"),
        ("int", f"{TIME}Year", 1999, 1999),
        ("timestamp", None, 1500000, datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ],
)
def test_with_a_schema_its_names_tell(declared: str, name: str | None, value: Any, expected: Any) -> None:
    assert read(declared, value, {"name": name}, time_unit="adaptive") == expected


@pytest.mark.parametrize(
    ("declared", "value", "given", "expected"),
    [
        ("decimal(20,4)", base64(5494869713), scale(4), Decimal("549486.9713")),
        ("decimal(20,4)", base64(-1), scale(4), Decimal("-0.0001")),
        ("decimal(20,4)", base64(0), scale(4), Decimal("0.0000")),
        ("decimal(20,4)", base64(7, size=9), scale(-2), Decimal("700.0000")),
        ("decimal(38,10)", base64(unscaled(DIGITS)), scale(10), DIGITS),
        ("decimal(20,4)", base64(123456), scale(5), "[v: '1.23456' is not a decimal(20,4)]"),
        ("decimal(20,4)", "12.5000", scale(4), "[v: '\"12.5000\", a decimal without its bytes or its scale' is not a"),
        (
            "decimal(20,4)",
            base64(1),
            scale("four"),
            "[v: '\"AQ==\", a decimal without its bytes or its scale' is not a",
        ),
        ("decimal(20,4)", 12.5, scale(4), Decimal("12.5000")),
        ("decimal(20,4)", base64(1, size=1001), scale(0), "[v: '"),
        ("long", base64(-(2**63)), scale(0), -(2**63)),
        ("string", base64(150), scale(2), "1.50"),
        (
            "decimal(20,4)",
            {"scale": 1, "value": base64(15)},
            {"name": f"{DATA}VariableScaleDecimal"},
            Decimal("1.5000"),
        ),
        ("array<decimal(20,4)>", [base64(15000)], {"type": "array", "items": scale(4)}, [Decimal("1.5000")]),
        ("array<date>", [-1], {"type": "array", "items": {"name": f"{TIME}Date"}}, [date(1969, 12, 31)]),
        ("binary", "AP8=", {"type": "bytes"}, b"\x00\xff"),
        ("string", b64encode(bytes([0b101])).decode(), bits(5), "00101"),
        ("string", b64encode(bytes([1, 2])).decode(), bits(10), "1000000001"),
        ("long", b64encode(bytes([1, 2])).decode(), bits(10), 513),
        ("boolean", b64encode(bytes([1])).decode(), bits(1), True),
        ("binary", b64encode(bytes([1, 2])).decode(), bits(10), b"\x01\x02"),
        ("string", b64encode(bytes([255])).decode(), bits(3), '"/w==", more than 3 bits'),
        ("string", b64encode(bytes([5])).decode(), bits(2**31 - 1), "BQ=="),
    ],
)
def test_bytes_are_read_exactly_with_a_schema(declared: str, value: Any, given: dict[str, Any], expected: Any) -> None:
    image = read(declared, value, given)
    if isinstance(expected, str) and expected.startswith("[v: "):
        assert str(image).startswith(expected)
    else:
        assert image == expected


@pytest.mark.parametrize("given", [None, {"type": "string"}])
def test_hexadecimal_bytes_pass_where_the_option_says_so(given: dict[str, Any] | None) -> None:
    assert read("binary", "00ff", given, binary_mode="hex") == b"\x00\xff"


def test_the_schema_knows_better_than_the_options() -> None:
    assert read("binary", "AP8=", {"type": "bytes"}, binary_mode="hex") == b"\x00\xff"
    fields = {"name": f"{TIME}MicroTimestamp"}
    assert read("timestamp", 1500000, fields, time_unit="nanos") == datetime(1970, 1, 1, 0, 0, 1, 500000)


MOMENTS = st.datetimes()
PER_SECOND: list[tuple[str, Callable[[timedelta], int]]] = [
    ("MicroTimestamp", lambda since: since // timedelta(microseconds=1)),
    ("NanoTimestamp", lambda since: since // timedelta(microseconds=1) * 1000),
]


@given(MOMENTS, st.sampled_from(PER_SECOND))
def test_every_moment_comes_back_exactly(moment: datetime, unit: tuple[str, Callable[[timedelta], int]]) -> None:
    name, count = unit
    since = moment - datetime(1970, 1, 1)
    assert read("timestamp", count(since), {"name": f"{TIME}{name}"}) == moment
    assert read("timestamptz", count(since), {"name": f"{TIME}{name}"}) == moment.replace(tzinfo=UTC)


@given(st.dates())
def test_every_day_comes_back_exactly(day: date) -> None:
    assert read("date", (day - date(1970, 1, 1)).days) == day


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**27), max_value=10**27, places=10))
def test_every_decimal_comes_back_exactly(number: Decimal) -> None:
    content = base64(unscaled(number))
    assert read("decimal(38,10)", content, scale(10)) == number
    assert read("decimal(38,10)", {"scale": 10, "value": content}) == number


@given(st.binary(max_size=40))
def test_every_byte_comes_back_exactly(content: bytes) -> None:
    assert read("binary", b64encode(content).decode()) == content


@pytest.mark.parametrize(("declared", "declared_as"), [("array<long>", {"type": "array", "items": {"type": "int64"}})])
def test_an_array_that_is_none_is_no_value(declared: str, declared_as: dict[str, Any]) -> None:
    assert read(declared, [1, None, 3], declared_as) == [1, None, 3]
    assert read(declared, 7, declared_as).startswith("[")


@pytest.mark.parametrize("value", [7, "no base64!", {"a": 1}])
def test_bytes_that_are_no_base64_are_no_value(value: Any) -> None:
    assert "no base64" in read("binary", value, {"type": "bytes"})
