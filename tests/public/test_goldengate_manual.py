"""The sample messages of GoldenGate's own manual, one of each operation, read as they are printed there.

They carry no transaction: the handler's template adds xid and csn, and so do these tests where a whole way is gone.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from oracle.capture import Message
from txloom.config import load
from txloom.events import rejections
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.images.reader import ImageReader
from workloads.core import Core

SOURCE = "Oracle GoldenGate for Big Data, Using the JSON Formatter: operation-modelled sample messages"
HERE = Path(__file__).parent
PIPELINE = load(HERE / "goldengate_manual.yaml")
MESSAGES = dict(zip("IUDT", (HERE / "goldengate_manual.jsonl").read_text().splitlines(), strict=True))
BILL = ("BILL", datetime(1995, 12, 31, 15, 0), "CAR", 765)
WILL = ("WILL", datetime(1994, 9, 30, 15, 33), "CAR", 144)
NAMES = PIPELINE.tables[0].column_names


def decoded(message: str) -> dict[str, Any]:
    decoder = GoldenGateDecoder(PIPELINE.tables, PIPELINE.source.transaction_topic)
    (event,) = decoder.decode("qasource.tcustord", [message.encode()]).to_pylist(maps_as_pydicts="strict")
    return dict(event)


def read(op: str) -> dict[str, Any]:
    (images,) = ImageReader(PIPELINE.tables[0]).read([MESSAGES[op]]).to_pylist()
    return dict(images)


def within(op: str, csn: int) -> str:
    """Put the manual's message into a transaction, its text otherwise as printed."""
    return f'{MESSAGES[op][:-1]},"csn":"{csn}","xid":"1.2.{csn}"}}'


def metadata(csn: int) -> Message:
    counts = [{"data_collection": "TCUSTORD", "event_count": 1}]
    return "metadata", json.dumps({"xid": f"1.2.{csn}", "csn": str(csn), "data_collections": counts})


@pytest.mark.parametrize("op", MESSAGES)
def test_a_message_that_names_no_transaction_is_poison_with_that_cause(op: str) -> None:
    event = decoded(MESSAGES[op])
    assert (event["kind"], event["cause"]) == ("poison", rejections.NO_TRANSACTION)
    assert event["value"] == MESSAGES[op]


@pytest.mark.parametrize(("op", "pos", "second"), [("I", 2928, 36), ("U", 4300, 39), ("D", 5272, 39), ("T", 5480, 39)])
def test_op_ts_has_a_space_current_ts_a_t_and_an_image_may_be_left_out(op: str, pos: int, second: int) -> None:
    event = decoded(within(op, 7))
    assert (event["kind"], event["table"], event["op"], event["csn"], event["pos"]) == ("row", "tcustord", op, 7, pos)
    assert event["committed_at"] == datetime(2015, 11, 5, 18, 45, second, tzinfo=UTC)


@pytest.mark.parametrize("op", MESSAGES)
def test_current_ts_says_when_it_was_sent_and_makes_no_other_event(op: str) -> None:
    first, again = within(op, 7), within(op, 7).replace("2016-10-05T", "2016-10-06 ")
    assert first != again
    assert decoded(first)["payload"] == decoded(again)["payload"]


def test_the_insert_has_no_image_before_and_its_date_is_a_moment() -> None:
    value = read("I")
    values = (*WILL, Decimal("17520.00"), 3, 100)
    assert value["after"] == dict(zip(NAMES, values, strict=True))
    assert (value["before"], value["unchanged"], value["problem"]) == (None, None, None)


def test_what_the_updates_after_leaves_out_is_unchanged() -> None:
    value = read("U")
    assert value["after"] == dict(zip(NAMES, (*BILL, Decimal("14000.00"), None, None), strict=True))
    assert value["unchanged"] == ["product_amount", "transaction_id"]
    assert value["before"] == dict(zip(NAMES, (*BILL, Decimal("15000.00"), 3, 100), strict=True))
    assert value["before_known"] == list(NAMES)


def test_the_delete_has_no_image_after() -> None:
    value = read("D")
    dave = ("DAVE", datetime(1993, 11, 3, 7, 51, 35), "PLANE", 600, Decimal("135000.00"), 2, 200)
    assert value["before"] == dict(zip(NAMES, dave, strict=True))
    assert (value["after"], value["problem"]) == (None, None)


def test_the_truncate_has_neither_image() -> None:
    value = read("T")
    assert [value[name] for name in ("after", "before", "unchanged", "before_known", "problem")] == [None] * 5


@pytest.mark.parametrize("op", MESSAGES)
def test_an_image_that_is_null_is_an_image_left_out(op: str) -> None:
    content = json.loads(MESSAGES[op])
    nulls = json.dumps({"before": None, "after": None, **content})
    (image,) = ImageReader(PIPELINE.tables[0]).read([nulls]).to_pylist()
    assert image == read(op)


@pytest.mark.parametrize("landings", [1, 4])
def test_the_four_of_them_one_after_the_other(landings: int) -> None:
    """Bill is known only from the update's images: what `after` leaves out comes from `before`."""
    core = Core(PIPELINE)
    each = [[("qasource.tcustord", within(op, csn)), metadata(csn)] for csn, op in enumerate(MESSAGES, 1)]
    if landings == 1:
        core.run([message for messages in each for message in messages])
    else:
        bill = dict(zip(NAMES, (*BILL, Decimal("14000.00"), 3, 100), strict=True))
        seen = []
        for messages in each:
            core.run(messages)
            seen.append(set(core.shown()["tcustord"]))
            assert core.shown()["tcustord"].get(BILL, bill) == bill
        assert seen == [{WILL}, {WILL, BILL}, {WILL, BILL}, set()]
    assert (core.shown()["tcustord"], core.valid_through) == ({}, 4)
    sent = [
        (row["cust_code"], row["_txloom_valid_from"], row["_txloom_valid_to"]) for row in core.intervals("tcustord")
    ]
    assert sorted(sent) == [("BILL", 2, 4), ("WILL", 1, 4)]
