"""What a request may ask for, and how it is refused."""

from typing import Any

import pytest

from txloom.config import load
from txloom.config.project import PROJECT
from txloom.errors import ConfigurationError
from txloom.page.requests import csn_of, longer_than, row_query, sane

ORDERS = load(PROJECT / "include" / "pipelines" / "orders.yaml")
REFUSED: tuple[tuple[Any, str, str], ...] = (
    (csn_of, "1e3", "csn is a number; found '1e3'"),
    (csn_of, str(2**63), f"csn is a number; found '{2**63}'"),
    (csn_of, "-1", "csn is a number; found '-1'"),
    (longer_than, "soon", "longer is a duration such as 10m or 2h; found 'soon'"),
    (longer_than, "99999999999d", "longer is a duration such as 10m or 2h; found '99999999999d'"),
    (lambda text: sane("id", text), "a\u202eb", "id has a sign that nobody sees (U+202E); look it up by its csn"),
    (lambda text: sane("id", text), "a\x00b", "id has a sign that nobody sees (U+0000); look it up by its csn"),
    (lambda text: sane("id", text), "9" * 301, "id has 301 characters; at most 300 are looked up"),
)


@pytest.mark.parametrize(("ask", "text", "message"), REFUSED)
def test_what_cannot_be_looked_up_is_refused_with_the_reason(ask: Any, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ask(text)
    assert str(refused.value) == message


def test_a_key_of_several_columns_is_whole_when_each_is_told() -> None:
    assert row_query(ORDERS, "orders", " 248 ", {}).key == {"order_id": "248"}
    some = row_query(ORDERS, "order_attachments", "248", {"key.order_id": "248"})
    assert (some.columns, some.key, some.given) == (("order_id", "attachment_no"), None, {"order_id": "248"})
    both = {"key.order_id": "248", "key.attachment_no": "1", "table": "order_attachments"}
    assert row_query(ORDERS, "order_attachments", None, both).key == {"order_id": "248", "attachment_no": "1"}


def test_a_table_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"pipeline orders has no table '\.\./etc'"):
        row_query(ORDERS, "../etc", "1", {})
