"""GoldenGate messages: the traps of the format, one fact each."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config import find
from txloom.events import rejections
from txloom.events.goldengate.decoder import GoldenGateDecoder

PIPELINE = find("orders")
ROWS, METADATA = "dev.appuser.promo_codes.json", PIPELINE.source.transaction_topic
GOOD = {
    "table": "PUBLIC.PROMO_CODES",
    "op_type": "I",
    "pos": "00000000110009047521",
    "xid": "1.2.3",
    "csn": "0334516829",
}
AFTER = {"CODE": "P1", "DISCOUNT": "1.5000", "VALID_TO": None}


def decode(topic: str, *values: bytes | None) -> list[dict[str, Any]]:
    events = GoldenGateDecoder(PIPELINE.tables, METADATA).decode(topic, values)
    return [dict(row) for row in events.to_pylist(maps_as_pydicts="strict")]


def row(**changed: Any) -> dict[str, Any]:
    message = {**GOOD, "after": AFTER, **changed}
    (event,) = decode(ROWS, json.dumps({name: value for name, value in message.items() if value != "gone"}).encode())
    return event


def test_a_row_is_known_by_transaction_and_position() -> None:
    event = row()
    assert (event["kind"], event["transaction_id"], event["csn"]) == ("row", "1.2.3:334516829", 334516829)
    assert (event["pos"], event["identity"], event["table"]) == (110009047521, "110009047521", "promo_codes")


def test_a_redelivery_with_another_time_stamp_has_the_same_payload() -> None:
    again = row(current_ts="2026-01-01T00:00:00")
    assert row()["payload"] == again["payload"] != row(after={**AFTER, "DISCOUNT": "2"})["payload"]


def test_images_that_do_not_apply_may_be_missing_or_null() -> None:
    assert row(before=None)["kind"] == "row"
    assert row(op_type="D", before={"CODE": "P1"}, after="gone")["kind"] == "row"
    assert row(op_type="T", after="gone")["op"] == "T"


def test_a_sparse_update_may_leave_its_key_to_the_old_image() -> None:
    assert row(op_type="u", before={"CODE": "P1"}, after={"DISCOUNT": "2"})["op"] == "U"


def test_an_unwatched_table_is_a_row_without_a_declared_name() -> None:
    event = row(table="PUBLIC.AUDIT_LOG", after="gone")
    assert (event["kind"], event["table"], event["source_table"]) == ("row", None, "PUBLIC.AUDIT_LOG")


@pytest.mark.parametrize(
    ("changed", "cause", "detail"),
    [
        ({"xid": None}, rejections.NO_TRANSACTION, "the message has no `xid`"),
        ({"csn": None}, rejections.NO_CSN, "csn is None"),
        ({"csn": "12a"}, rejections.NO_CSN, "csn is '12a'"),
        ({"csn": 2**63}, rejections.NO_CSN, "csn is 9223372036854775808"),
        ({"pos": "gone"}, rejections.NO_POSITION, "pos is None"),
        ({"table": None}, rejections.NO_TABLE, "the message has no `table`"),
        ({"op_type": "X"}, rejections.OPERATION, "op_type is 'X'"),
        ({"after": None}, rejections.NO_IMAGE, "operation I without `after`"),
        ({"op_type": "D"}, rejections.NO_IMAGE, "operation D without `before`"),
        ({"after": {**AFTER, "CODE": None}}, rejections.NO_KEY, "code is null"),
        ({"after": {"DISCOUNT": "1"}}, rejections.NO_KEY, "code is missing"),
    ],
)
def test_a_row_that_cannot_be_placed_is_poison_with_its_cause(changed: dict[str, Any], cause: str, detail: str) -> None:
    event = row(**changed)
    assert (event["kind"], event["cause"], event["detail"]) == ("poison", cause, detail)


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", rejections.EMPTY),
        (b"  ", rejections.EMPTY),
        (b'{"table": "PUBLIC.PRO', rejections.BROKEN),
        (b'{"a": "\xff"}', rejections.ENCODING),
        (b'{"a": 1}\x00', rejections.NUL),
        (b"[1, 2]", rejections.NOT_AN_OBJECT),
        (b'{"id":2}{"id":3}', rejections.SEVERAL),
        (b'{"xid": [1]}', rejections.BROKEN),
    ],
)
def test_what_is_no_message_is_poison_and_keeps_what_came(value: bytes, cause: str) -> None:
    (event,) = decode(ROWS, value)
    assert (event["kind"], event["cause"]) == ("poison", cause)
    assert event["value"] == value.decode("utf-8", "backslashreplace")


def test_a_tombstone_is_neither_an_event_nor_poison() -> None:
    assert [events["kind"] for events in decode(ROWS, None)] == ["tombstone"]


def metadata(**changed: Any) -> dict[str, Any]:
    message = {"xid": "1.2.3", "csn": "7", "event_count": 9, "data_collections": [], **changed}
    (event,) = decode(METADATA, json.dumps(message).encode())
    return event


def test_metadata_counts_watched_tables_by_their_short_names() -> None:
    counts = [
        {"data_collection": name, "event_count": n} for name, n in (("ORDERS", 2), ("AUDIT_LOG", 3), ("PROMO_CODES", 1))
    ]
    event = metadata(data_collections=counts)
    assert (event["kind"], event["expected"], event["event_count"]) == ("metadata", {"orders": 2, "promo_codes": 1}, 9)
    assert event["transaction_id"] == "1.2.3:7"


@pytest.mark.parametrize("collections", [None, []])
def test_metadata_of_an_empty_transaction_expects_nothing(collections: list[Any] | None) -> None:
    assert metadata(data_collections=collections, event_count=0)["expected"] == {}


@pytest.mark.parametrize("given", ["2025-07-07 23:33:54.000000", "2025-07-07T23:33:54", 1751931234000])
def test_times_come_with_a_space_a_t_or_as_milliseconds(given: Any) -> None:
    assert metadata(tx_ts=given)["committed_at"].isoformat() == "2025-07-07T23:33:54+00:00"


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=20))
def test_any_bytes_come_out_as_one_row_each(values: list[bytes | None]) -> None:
    for topic in (ROWS, METADATA):
        events = decode(topic, *values)
        assert [each["ordinal"] for each in events] == list(range(len(values)))


def test_every_cause_has_a_hint() -> None:
    declared = {value for name, value in vars(rejections).items() if name.isupper() and isinstance(value, str)}
    assert declared == set(rejections.HINTS)
