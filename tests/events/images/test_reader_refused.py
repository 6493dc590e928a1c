"""Images that cannot be read as declared: each says why, and no value is bent to fit."""

import pytest

from events.images.test_reader import one, read


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
