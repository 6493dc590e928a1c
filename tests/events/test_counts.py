"""Counts of transaction metadata: those that contradict themselves are no counts, whatever format writes them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from txloom.config import find
from txloom.events import rejections
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.goldengate.messages import MessageReader

TABLES = find("orders").tables
Decode = Callable[[dict[str, Any]], dict[str, Any]]
NOTHING = "the message has neither `event_count` nor `data_collections`"
HUGE = 2**63
ALONE = "event_count is 3, and there are no data_collections"
TWICE = "PUBLIC.ORDERS is counted twice: 2 and 1 events"


def counted(**counts: Any) -> list[dict[str, Any]]:
    """Return data_collections; a name may have a schema in front."""
    return [{"data_collection": name.replace("__", "."), "event_count": count} for name, count in counts.items()]


def said(total: int, **counts: Any) -> dict[str, Any]:
    return {"event_count": total, "data_collections": counted(**counts)}


def decode(form: str, message: dict[str, Any]) -> dict[str, Any]:
    """Decode one message of the transaction topic; goldengate also as the slow way reads it."""
    if form == "debezium":
        values = [json.dumps({"status": "END", "id": "776:31369312", **message}).encode()]
        (event,) = DebeziumDecoder(TABLES, "tx").decode("tx", values).to_pylist(maps_as_pydicts="strict")
        return dict(event)
    values = [json.dumps({"xid": "1.2.3", "csn": "7", **message}).encode()]
    event, slow = (kind(TABLES, "tx") for kind in (GoldenGateDecoder, MessageReader))
    (row,), (other,) = (t.to_pylist() for t in (event.decode("tx", values), slow.read("tx", values)))
    assert row == other
    return dict(row) | {"expected": None if row["expected"] is None else dict(row["expected"])}


@pytest.mark.parametrize("form", ["goldengate", "debezium"])
@pytest.mark.parametrize(
    ("message", "cause", "detail"),
    [
        ({"event_count": 3}, rejections.COUNTS, ALONE),
        ({"event_count": 3, "data_collections": None}, rejections.COUNTS, ALONE),
        ({}, rejections.NO_METADATA, NOTHING),
        (said(-1), rejections.COUNTS, "event_count is -1"),
        (said(HUGE, public__orders=1), rejections.COUNTS, f"event_count is {HUGE}"),
        (said(2, public__orders=-2), rejections.COUNTS, "public.orders has -2 events"),
        (said(2, public__orders=HUGE), rejections.COUNTS, f"public.orders has {HUGE} events"),
        (said(2, public__orders=None), rejections.COUNTS, "public.orders has None events"),
        (said(2, public__orders=2, other=1), rejections.COUNTS, "data_collections have 3 events, and event_count is 2"),
    ],
)
def test_counts_that_contradict_themselves_are_poison(
    form: str, message: dict[str, Any], cause: str, detail: str
) -> None:
    events = decode(form, message)
    assert (events["kind"], events["cause"], events["detail"]) == ("poison", cause, detail)


def test_a_table_that_goldengate_counts_twice_is_poison() -> None:
    events = decode("goldengate", said(9, public__orders=2, PUBLIC__ORDERS=1))
    assert (events["kind"], events["cause"], events["detail"]) == ("poison", rejections.COUNTS, TWICE)


def test_debezium_counts_a_table_of_another_case_as_another_table() -> None:
    events = decode("debezium", said(3, public__orders=2, PUBLIC__ORDERS=1))
    assert (events["kind"], events["expected"]) == ("metadata", {"orders": 2})


def test_a_row_in_the_transaction_topic_counts_nothing() -> None:
    row = {"table": "PUBLIC.ORDERS", "op_type": "I", "pos": "1", "after": {"ORDER_ID": 1}}
    assert decode("goldengate", row)["cause"] == rejections.NO_METADATA
    assert decode("debezium", {"status": None, "op": "c", "after": {}})["cause"] == rejections.NO_METADATA


@pytest.mark.parametrize("form", ["goldengate", "debezium"])
@pytest.mark.parametrize("message", [{"event_count": 0}, {"event_count": 0, "data_collections": []}], ids=repr)
def test_a_transaction_without_events_is_whole_at_once(form: str, message: dict[str, Any]) -> None:
    events = decode(form, message)
    assert (events["kind"], events["expected"], events["event_count"]) == ("metadata", {}, 0)


def test_goldengate_counts_operations_that_no_collection_is_named_for() -> None:
    assert decode("goldengate", {"event_count": 3, "data_collections": []})["expected"] == {}
    assert decode("goldengate", {"event_count": 3, "data_collections": counted(ORDERS=1)})["expected"] == {"orders": 1}


def test_debezium_counts_nothing_but_its_collections() -> None:
    assert decode("debezium", {"event_count": 3, "data_collections": []})["cause"] == rejections.COUNTS


@pytest.mark.parametrize("form", ["goldengate", "debezium"])
def test_counts_may_be_text_and_the_sum_may_be_left_out(form: str) -> None:
    events = decode(form, {"data_collections": counted(public__orders="2")})
    assert (events["kind"], events["expected"], events["event_count"]) == ("metadata", {"orders": 2}, None)
    assert decode(form, {"event_count": "2", "data_collections": counted(public__orders=2)})["event_count"] == 2
