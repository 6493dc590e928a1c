"""Images of rows: every declared type is read exactly, or the row says which value is not."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import capture, declarations
from oracle.values import typed_row
from txloom.config import find
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.images.reader import ImageReader


def table(declared: str, **more: Any) -> Table:
    columns = (Column(name="k", type=parse("long"), source="K"), Column(name="v", type=parse(declared), source="V"))
    return Table(name="t", source="S.T", columns=columns, key=("k",), **more)


def read(declared: str, value: str) -> Any:
    """Read one value, given as JSON text, as a declared type; a problem comes back as text in brackets."""
    message = f'{{"op_type": "I", "after": {{"K": 1, "V": {value}}}}}'
    (row,) = ImageReader(table(declared)).read([message]).to_pylist()
    return f"[{row['problem']}]" if row["problem"] else row["after"]["v"]


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("long", '"9007199254740993"', 9007199254740993),
        ("long", "-9223372036854775808", -9223372036854775808),
        ("long", "9223372036854775808", "[V: '9223372036854775808' is not a long]"),
        ("long", '"1.5"', "[V: '1.5' is not a long]"),
        ("int", "2147483648", "[V: '2147483648' is not an int]"),
        (
            "decimal(38,10)",
            "1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        ("decimal(20,4)", '"1000.5000"', Decimal("1000.5000")),
        ("decimal(20,4)", "1.50000", Decimal("1.5000")),
        ("decimal(20,4)", '"1.00001"', "[V: '1.00001' is not a decimal(20,4)]"),
        ("decimal(5,2)", '"1000"', "[V: '1000' is not a decimal(5,2)]"),
        ("decimal(5,2)", '"1e999999999"', "[V: '1e999999999' is not a decimal(5,2)]"),
        ("decimal(5,2)", '"NaN"', "[V: 'NaN' is not a decimal(5,2)]"),
        ("decimal(20,4)", '"12x"', "[V: '12x' is not a decimal(20,4)]"),
        ("double", '"1e+300"', 1e300),
        ("double", '"Infinity"', float("inf")),
        ("boolean", '"t"', True),
        ("boolean", "false", False),
        ("boolean", '"yes?"', "[V: 'yes?' is not a boolean]"),
        ("date", '"1969-12-31"', date(1969, 12, 31)),
        ("date", '"2100-01-01 00:00:00"', date(2100, 1, 1)),
        ("date", '"2100-01-01 10:00:00"', "[V: '2100-01-01 10:00:00' is not a date]"),
        ("timestamp", '"1969-12-31 23:59:59.999999"', datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp", '"1994-09-30:15:33:00"', datetime(1994, 9, 30, 15, 33)),
        ("timestamptz", '"2026-03-29 02:59:59.5+01:30"', datetime(2026, 3, 29, 1, 29, 59, 500000, UTC)),
        ("timestamptz", '"2026-03-29T01:00:00Z"', datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
        ("time", '"24:00:00"', "24:00:00"),
        ("time", '"25:00:00"', "[V: '25:00:00' is not a time]"),
        ("binary", '"\\\\x00ff"', b"\x00\xff"),
        ("binary", '"0g"', "[V: '0g' is not a binary]"),
        ("uuid", '"nope"', "[V: 'nope' is not an uuid]"),
        ("json", '"{\\"a\\": 1}"', '{"a": 1}'),
        ("json", '{"a": 1.50}', '{"a": 1.50}'),
        ("array<string>", '"{a,\\"b,c\\",NULL,\\"\\"}"', ["a", "b,c", None, ""]),
        ("array<int>", "[1, null, -2147483648]", [1, None, -2147483648]),
        ("array<decimal(20,4)>", '["1.5", 2.0000]', [Decimal("1.5000"), Decimal("2.0000")]),
        ("array<int>", '"{1,x}"', "[V: '{1,x}' is not an array<int>]"),
        ("string", '"null"', "null"),
        ("string", "null", None),
    ],
)
def test_a_value_is_read_exactly_or_named(declared: str, value: str, expected: Any) -> None:
    image = read(declared, value)
    assert (image, str(image)) == (expected, str(expected))


def one(message: dict[str, Any], declared: Table | None = None) -> dict[str, Any]:
    (row,) = ImageReader(declared or table("string")).read([json.dumps(message)]).to_pylist()
    return dict(row)


def test_a_column_that_an_update_leaves_out_is_unchanged_not_null() -> None:
    row = one({"op_type": "U", "before": {"K": 1}, "after": {"K": 1}})
    assert (row["after"], row["unchanged"]) == ({"k": 1, "v": None}, ["v"])
    assert (row["before"], row["before_known"]) == ({"k": 1, "v": None}, ["k"])


def test_a_column_that_an_update_sets_to_null_is_changed() -> None:
    assert one({"op_type": "U", "after": {"k": 1, "v": None}})["unchanged"] is None


def test_a_column_flagged_as_missing_is_unchanged() -> None:
    assert one({"op_type": "U", "after": {"K": 1, "V": "x", "V_isMissing": True}})["unchanged"] == ["v"]


def test_a_delete_has_no_after_and_an_insert_no_before() -> None:
    assert one({"op_type": "D", "before": {"K": 1}, "after": {"K": 1}})["after"] is None
    assert one({"op_type": "I", "before": {"K": 1}, "after": {"K": 1}})["before"] is None


def test_an_undeclared_column_is_ignored_or_quarantined_as_declared() -> None:
    message = {"op_type": "I", "after": {"K": 1, "V": "x", "NEW": 1}}
    assert one(message)["problem"] is None
    refused = one(message, table("string", undeclared_columns="quarantine"))
    assert refused["problem"] == "NEW: not a declared column, and undeclared_columns is quarantine"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**27), max_value=10**27))
def test_decimals_keep_every_digit(number: Decimal) -> None:
    for text in (f"{number:f}", json.dumps(f"{number:f}")):
        assert read("decimal(38,10)", text) == number


@given(st.text())
def test_text_comes_out_as_it_went_in(text: str) -> None:
    kept = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert read("string", json.dumps(kept)) == kept


def test_every_image_of_the_sample_is_what_the_oracle_reads() -> None:
    pipeline = find("orders")
    readers = {declared.source: ImageReader(declared) for declared in pipeline.tables}
    names = {declared.source: declared.name for declared in pipeline.tables}
    for arrival in capture.arrivals()[:2]:
        for _, message in capture.messages(arrival):
            content = json.loads(message)
            if content.get("table") in readers:
                (row,) = readers[content["table"]].read([message]).to_pylist()
                assert row["problem"] is None
                after = content.get("after")
                if after is not None and len(after) == len(declarations.TABLES[names[content["table"]]].columns):
                    lower = {column.lower(): value for column, value in after.items()}
                    expected = typed_row(lower, declarations.TABLES[names[content["table"]]])
                    assert {column: row["after"][column] for column in expected} == expected
