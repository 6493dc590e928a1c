"""Texts of a source that are no value of their type: each way to be wrong is refused by itself."""

import pytest

from txloom.events.values.text import array_elements, read_timestamp


@pytest.mark.parametrize("text", ["{a", "a}", '{a b,"c}', '{"a"b}', "{,}", '{"a" ,b}', "{{a},{b}}"])
def test_a_text_that_is_no_array_of_one_dimension_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        array_elements(text)


@pytest.mark.parametrize("offset", ["+00:60", "-01:30:60", "+02:99"])
def test_an_offset_has_at_most_59_minutes_and_seconds(offset: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_timestamp(f"2026-01-01 10:00:00{offset}")
