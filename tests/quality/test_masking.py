"""What a sample shows of a row, a story of a message, and what neither ever shows."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.secret_names import MASK, is_secret
from txloom.quality.masking import hidden, masked, message


@pytest.mark.parametrize(
    "column", ["password", "user_passwd", "apiKey", "API_KEY", "clientSecret", "access_token", "pin", "pwd", "card_cvv"]
)
def test_a_column_is_secret_by_its_name(column: str) -> None:
    assert is_secret(column)
    assert masked([{column: 4711, "id": 1}]) == [{column: "***", "id": 1}]


@pytest.mark.parametrize("column", ["id", "shipping_city", "opinion", "key", "author", "passenger"])
def test_other_columns_are_not(column: str) -> None:
    assert not is_secret(column)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**60 + 1, 2**60 + 1),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "NaN"),
        (b"\x00\x01", "2 bytes"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        ("x" * 500, "x" * 197 + "..."),
        ([{"token": "t", "id": 1}], [{"token": "***", "id": 1}]),
        (list(range(25)), [*range(20), "... 5 more"]),
        ("see s3cret-host:1 there", "see *** there"),
        ("eu", "***"),
        ("neutral", "neutral"),
    ],
)
def test_a_value_is_shown_as_json_can_hold_it(value: Any, shown: Any) -> None:
    assert masked([{"value": value}], {"s3cret-host:1", "eu"}) == [{"value": shown}]


def test_a_sample_has_no_more_than_twenty_rows() -> None:
    assert len(masked([{"id": number} for number in range(21)])) == 20


SECRET = "\u00a7"
"""A sign that stands in secret values and nowhere else."""
PLAIN = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8", exclude_characters=SECRET))
NAMES = st.sampled_from(["id", "ID", "note", "lines", "x y", "na\u00efve", "columns", "after"])
SECRETS = st.sampled_from(["password", "API_KEY", "card_pin", "x17"])
HIDDEN = st.none() | st.text(st.characters(codec="utf-8")).map(lambda text: f"{SECRET}{text}{SECRET}")


def _objects(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    secret = HIDDEN | st.lists(HIDDEN) | st.dictionaries(NAMES, HIDDEN)
    return st.tuples(st.dictionaries(NAMES, inside), st.dictionaries(SECRETS, secret)).map(
        lambda both: both[0] | both[1]
    )


DOCUMENTS = _objects(st.recursive(PLAIN, lambda inside: st.lists(inside, max_size=3) | _objects(inside), max_leaves=8))


@given(document=DOCUMENTS, indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_a_message_is_itself_but_for_its_secrets(document: dict[str, Any], indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=is_ascii)
    shown = message(text, {"X17"})
    assert json.loads(shown) == hidden(document, {"x17"})
    assert SECRET not in json.dumps(json.loads(shown), ensure_ascii=False)


@given(document=DOCUMENTS, cut=st.integers(0, 400))
def test_no_message_that_was_cut_off_shows_a_secret(document: dict[str, Any], cut: int) -> None:
    assert SECRET not in message(json.dumps(document, ensure_ascii=False)[:cut], {"x17"})


WAL2JSON = [
    '{"action":"U","columns":[{"name":"id","type":"bigint","value":7},{"name":"pin","type":"text","value":"\u00a7"}],'
    '"identity":[{"name":"id","type":"bigint","value":7},{"name":"pin","type":"text","value":"\u00a7\\"\u00a7"}]}',
    '{"change":[{"kind":"update","columnnames":["id","pin"],"columntypes":["bigint","text"],"columnvalues":[7,"\u00a7"],'
    '"oldkeys":{"keynames":["pin"],"keytypes":["text"],"keyvalues":["\u00a7"]}}]}',
    '{"pin": "\u00a7',
    '{"pin" \n : \n ["\u00a7", {"a": "\u00a7"}], "id": 7}',
]


@pytest.mark.parametrize("text", WAL2JSON)
def test_names_may_stand_beside_their_values_or_in_a_list_of_their_own(text: str) -> None:
    shown = message(text)
    assert SECRET not in shown
    assert MASK in shown
    assert message(text.replace("pin", "pen")) == text.replace("pin", "pen")
