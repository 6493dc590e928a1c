"""Images of wal2json rows: every value as the source had it, in the layout that image readers know."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.wal2json.test_decoder import PIPELINE, inside, row
from oracle.comparison import same
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.images.reader import ImageReader
from txloom.events.wal2json.images import Wal2JsonImages

PROMO = next(table for table in PIPELINE.tables if table.name == "promo_codes")


def table(declared: str = "string", source: str = "v") -> Table:
    columns = (Column(name="k", type=parse("long"), source="K"), Column(name="v", type=parse(declared), source=source))
    return Table(name="t", source="PUBLIC.T", columns=columns, key=("k",), undeclared_columns="evolve")


def canonical(message: bytes, of: Table = PROMO) -> dict[str, Any]:
    op = json.loads(message)["action"]
    (image,) = Wal2JsonImages(of).canonical([message.decode()], [op], [None])
    return dict(json.loads(image))


def read(declared_as: str, declared: str, source: str = "v") -> Any:
    """Read one value, given as it stands in a message, as a declared type; a problem comes back in brackets."""
    cell = f'{{"name":{json.dumps(source)},"type":"any","value":{declared_as}}}'
    message = f'{{"action":"I","columns":[{{"name":"k","type":"bigint","value":1}},{cell}]}}'
    of_table = table(declared, source)
    (images,) = ImageReader(of_table).read(Wal2JsonImages(of_table).canonical([message], ["I"], [None])).to_pylist()
    return f"[{images['problem']}]" if images["problem"] else images["after"]["v"]


def test_the_old_key_is_the_image_before_and_the_columns_the_one_after() -> None:
    insert = row("I", "promo_codes", {"code": "P", "discount": 1, "valid_to": None})
    update = row("U", "promo_codes", {"code": "Q", "discount": 2}, {"code": "P"})
    delete = row("D", "promo_codes", None, {"code": "Q"})
    assert [canonical(message) for message in (insert, update, delete, row("T", "promo_codes"))] == [
        {"op_type": "I", "before": None, "after": {"code": "P", "discount": 1, "valid_to": None}},
        {"op_type": "U", "before": {"code": "P"}, "after": {"code": "Q", "discount": 2}},
        {"op_type": "D", "before": {"code": "Q"}, "after": None},
        {"op_type": "T", "before": None, "after": None},
    ]


def test_under_a_full_identity_every_old_column_is_known() -> None:
    message = row("U", "promo_codes", {"code": "P", "discount": 2}, {"code": "P", "discount": 1, "valid_to": None})
    (image,) = ImageReader(PROMO).read(Wal2JsonImages(PROMO).canonical([message.decode()], ["U"], [None])).to_pylist()
    assert image["before_known"] == ["code", "discount", "valid_to"]
    assert image["before"] == {"code": "P", "discount": Decimal("1.0000"), "valid_to": None}


def test_a_large_value_that_did_not_change_is_absent_and_a_null_is_null() -> None:
    message = row("U", "promo_codes", {"code": "P", "valid_to": None}, {"code": "P"})
    (image,) = ImageReader(PROMO).read(Wal2JsonImages(PROMO).canonical([message.decode()], ["U"], [None])).to_pylist()
    assert (image["unchanged"], image["after"]["valid_to"]) == (["discount"], None)


@pytest.mark.parametrize(
    ("given", "declared", "expected"),
    [
        ("12345678901234567890123456.0123456789", "decimal(38,10)", Decimal("12345678901234567890123456.0123456789")),
        ("12345678901234567890123456.0123456789", "string", "12345678901234567890123456.0123456789"),
        ("9007199254741064", "long", 9007199254741064),
        ("-9223372036854775808", "long", -(2**63)),
        ("0.0000", "decimal(20,4)", Decimal("0.0000")),
        ("0.0000", "string", "0.0000"),
        ("-0.0000000001", "decimal(38,10)", Decimal("-0.0000000001")),
        ("1.00001", "decimal(20,4)", "[v: '1.00001' is not a decimal(20,4)]"),
        ('"691572.9471"', "decimal(20,4)", Decimal("691572.9471")),
        ('"NaN"', "decimal(20,4)", "[v: 'NaN' is not a decimal(20,4)]"),
        ("null", "double", None),
        ("-0", "double", -0.0),
        ("1e+300", "double", 1e300),
        ("5e-324", "double", 5e-324),
        ("true", "boolean", True),
        ("false", "boolean", False),
        ("null", "boolean", None),
        ('"00ff8062696e"', "binary", b"\x00\xff\x80bin"),
        ('""', "binary", b""),
        ('"{\\"b\\": 1152921504606846977}"', "json", '{"b": 1152921504606846977}'),
        ('"null"', "json", "null"),
        ('"{a,\\"b,c\\",NULL,\\"q\\\\\\"uote\\",\\"\\"}"', "array<string>", ["a", "b,c", None, 'q"uote', ""]),
        ('"{1.5000,2.0000,NULL}"', "array<decimal(20,4)>", [Decimal("1.5000"), Decimal("2.0000"), None]),
        ('"2026-02-18 07:15:30.25+00"', "timestamptz", datetime(2026, 2, 18, 7, 15, 30, 250000, UTC)),
        ('"2026-02-18 12:45:30.25+05:30"', "timestamptz", datetime(2026, 2, 18, 7, 15, 30, 250000, UTC)),
        ('"1969-12-31 23:59:59.999999"', "timestamp", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ('"infinity"', "timestamptz", "[v: 'infinity' is not a timestamptz]"),
        ('"\\u202eRTL \\\\N \\ud83e\\udde8"', "string", "\u202eRTL \\N \U0001f9e8"),
    ],
)
def test_a_value_is_what_the_source_had(given: str, declared: str, expected: Any) -> None:
    assert same(expected, read(given, declared)), read(given, declared)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**27), max_value=10**27))
def test_numbers_keep_every_digit(number: Decimal) -> None:
    assert read(f"{number:f}", "decimal(38,10)") == number
    assert read(f"{number:f}", "string") == f"{number:f}"


@given(st.text(min_size=1).map(lambda name: name.encode("utf-8", "replace").decode()).filter(lambda name: name != "k"))
def test_a_column_keeps_its_name_whatever_it_is(name: str) -> None:
    assert canonical(row("I", "t", {"k": 1, name: 5}), table())["after"] == {"k": 1, name: 5}


def test_a_column_named_as_a_flag_of_goldengate_hides_nothing() -> None:
    message = (
        '{"action":"I","columns":[{"name":"k","value":1},{"name":"v","value":"a"},{"name":"v_ismissing","value":true}]}'
    )
    (image,) = ImageReader(table()).read(Wal2JsonImages(table()).canonical([message], ["I"], [None])).to_pylist()
    assert image["after"] == {"k": 1, "v": "a"}


@pytest.mark.parametrize("order", [("v", "V", "\u0076\u0131"), ("V", "v", "x")])
def test_a_column_that_differs_in_case_only_yields_to_the_declared_one(order: tuple[str, ...]) -> None:
    values = {"K": 1} | {name: f"value of {name}" for name in order}
    after = canonical(row("I", "t", values), table())["after"]
    assert after["v"] == "value of v"
    assert "V" not in after
    assert order[2] in after


def test_a_renamed_column_is_read_by_its_name_in_any_case() -> None:
    assert canonical(row("I", "t", {"k": 1, "V": "a"}), table())["after"] == {"k": 1, "V": "a"}


def test_each_row_has_its_own_columns_also_inside_one_transaction() -> None:
    messages = [
        row("I", "t", {"k": 1}),
        row("I", "t", {"k": 2, "v": "a", "new": 1.50}),
        row("I", "t", {"k": 3, "v": "b"}),
    ]
    values = [message.decode() for message in messages]
    image = ImageReader(table()).read(Wal2JsonImages(table()).canonical(values, ["I"] * 3, [None] * 3)).to_pylist()
    assert [each["absent"] for each in image] == [["v"], None, None]
    assert [each["undeclared"] for each in image] == [None, ["new"], None]
    assert [each["after"]["v"] for each in image] == [None, "a", "b"]


@pytest.mark.parametrize("images", ['"columns":{"k":1}', '"columns":[{"name":"k","value":1},5]', '"identity":[]'])
def test_images_that_are_none_leave_the_row_without_a_key(images: str) -> None:
    (result,) = (
        ImageReader(table()).read(Wal2JsonImages(table()).canonical([f"{{{images}}}"], ["I"], [None])).to_pylist()
    )
    assert result["problem"] == "K: a key without a value"


def test_a_row_with_odd_spacing_is_the_same_row() -> None:
    message = row("U", "promo_codes", {"code": "P", "discount": 1}, {"code": "P"})
    spaced = json.dumps(json.loads(message)).encode()
    (event,) = inside(spaced)
    assert (event["kind"], event["table"]) == ("row", "promo_codes")
    assert canonical(spaced) == canonical(message)
