"""Images that cannot be read as declared: each says why, and no value is bent to fit."""

import pytest

from events.images.test_reader import one, read
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.images.reader import ImageReader


@pytest.mark.parametrize("value", ["1000.000", "1000.00", "1e3", "-1000.0000", "99999"])
def test_a_decimal_with_too_many_digits_before_the_point_is_refused_however_it_is_written(value: str) -> None:
    assert read("decimal(5,2)", f'"{value}"') == f"[V: '{value}' is not a decimal(5,2)]"


@pytest.mark.parametrize("value", ["999.99", "999.9900", "9.9999e2", "-999.99"])
def test_the_largest_decimals_are_read(value: str) -> None:
    assert str(read("decimal(5,2)", f'"{value}"')).lstrip("-") == "999.99"


@pytest.mark.parametrize("op", ["I", "U"])
@pytest.mark.parametrize("image", [{"K": None, "V": "x"}, {"V": "x"}], ids=["null", "missing"])
def test_a_row_without_its_key_is_refused(op: str, image: dict[str, str | None]) -> None:
    assert one({"op_type": op, "after": image})["problem"] == "K: a key without a value"


@pytest.mark.parametrize(("name", "source"), [("card_pin", "V"), ("v", "CARD_PIN"), ("v", "V")])
def test_a_secret_value_is_not_shown_in_the_problem(name: str, source: str) -> None:
    columns = (Column(name="k", type=parse("long"), source="K"), Column(name=name, type=parse("int"), source=source))
    reader = ImageReader(Table(name="t", source="S.T", columns=columns, key=("k",)))
    (row,) = reader.read([f'{{"op_type": "I", "after": {{"K": 1, "{source}": "s3cret"}}}}']).to_pylist()
    shown = "s3cret" if name == "v" and source == "V" else "***"
    assert row["problem"] == f"{source}: '{shown}' is not an int"
