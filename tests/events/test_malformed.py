"""A message that is larger than the declaration allows: a dead letter of which the first bytes are kept."""

import json
from typing import Any

import pytest

from events.goldengate.test_decoder import AFTER, GOOD, METADATA
from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.events import rejections
from txloom.events.formats import SourceDecoder
from txloom.events.malformed import KEPT, cut

LIMIT = 200
ROW = json.dumps({**GOOD, "after": AFTER}, separators=(",", ":")).encode()
LARGE = json.dumps({**GOOD, "after": {**AFTER, "CODE": "é" * KEPT}}, ensure_ascii=False).encode()
EXAMPLES = ("orders", "orders_debezium", "orders_wal2json", "change_events", "change_sets")


def limited(name: str, limit: int = LIMIT) -> Pipeline:
    """Return a shipped pipeline whose messages may have so many bytes."""
    file = name if name == "orders" else f"include/pipelines/examples/{name}.yaml"
    pipeline = find(file)
    return pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"max_message_bytes": limit})})


def decode(name: str, topic: str, *values: bytes | None, limit: int = LIMIT) -> list[dict[str, Any]]:
    events = SourceDecoder(limited(name, limit)).decode(topic, values)
    return [dict(row) for row in events.to_pylist(maps_as_pydicts="strict")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_above_the_limit_is_a_dead_letter_of_its_first_bytes(name: str) -> None:
    (event,) = decode(name, "rows", LARGE)
    assert (event["kind"], event["cause"]) == ("poison", rejections.TOO_LARGE)
    assert event["detail"] == f"the message has {len(LARGE)} bytes; its first {KEPT} are kept"
    assert event["value"] == LARGE[:KEPT].decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("topic", ["rows", METADATA])
def test_its_neighbours_are_what_they_were(topic: str) -> None:
    alone = decode("orders", topic, ROW)
    *others, large, again = decode("orders", topic, ROW, None, LARGE, ROW)
    assert [others[0]["kind"], large["cause"], again["kind"]] == [
        alone[0]["kind"],
        rejections.TOO_LARGE,
        alone[0]["kind"],
    ]
    assert others[1]["kind"] == "tombstone"


def test_the_limit_itself_is_allowed() -> None:
    assert [row["kind"] for row in decode("orders", "rows", ROW, limit=len(ROW))] == ["row"]
    assert [row["kind"] for row in decode("orders", "rows", ROW, limit=len(ROW) - 1)] == ["poison"]


def test_what_a_reader_has_cut_is_poison_even_where_its_beginning_is_an_event() -> None:
    (event,) = decode("orders", "rows", cut(ROW, 10**9))
    assert (event["cause"], event["value"]) == (rejections.TOO_LARGE, ROW.decode())
    assert event["detail"] == f"the message has 1000000000 bytes; its first {len(ROW)} are kept"


def test_a_wal2json_message_above_the_limit_may_have_been_a_row_of_its_transaction() -> None:
    begin, end = (b'{"action":"%s","xid":7,"lsn":"0/10"}' % action for action in (b"B", b"C"))
    large, logical = (b'{"action":"%s","xid":7,"columns":"%s"}' % (action, b"x" * LIMIT) for action in (b"I", b"M"))
    first, row, commit = decode("orders_wal2json", "wal", begin, large, end)
    assert (first["kind"], row["cause"], row["pos"]) == ("marker", rejections.TOO_LARGE, 1)
    assert commit["cause"] == "transaction with unreadable messages"
    assert [events["kind"] for events in decode("orders_wal2json", "wal", begin, logical, end)][1:] == [
        "poison",
        "metadata",
    ]
