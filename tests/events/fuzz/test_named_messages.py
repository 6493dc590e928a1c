"""Messages that the fuzzer found: each ended a decoder or a release with an exception, or was two things at once."""

import json
from typing import Any

import pytest

from events.fuzz.sources import DEBEZIUM, METADATA, PIPELINES, ROWS, SOURCES, TABLE, TABLES, wal2json_v1
from txloom.events import formats, rejections
from txloom.events.debezium.messages import HEADER, NEW_KEY, OLD_KEY
from txloom.events.formats import SourceDecoder
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.goldengate.messages import MessageReader
from txloom.events.images.reader import ImageReader
from txloom.events.malformed import LONGEST
from txloom.events.wal2json.version_1 import expanded

ROW = {"table": "SHOP.WIDE", "op_type": "I", "pos": "1", "csn": "2", "xid": "3", "after": {"ID": 1}}


def text(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def both(value: bytes) -> dict[str, Any]:
    """Decode a GoldenGate row by column and by message; they must be the same."""
    events = GoldenGateDecoder(TABLES, METADATA, "RUN").decode(ROWS, [value]).to_pylist()
    assert events == MessageReader(TABLES, METADATA, "RUN").read(ROWS, [value]).to_pylist()
    return dict(events[0])


@pytest.mark.parametrize("op", ["I", "U", "D", "T"])
@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("image", [5, "a", [], [{"ID": 1}], True], ids=repr)
def test_an_image_that_is_no_object_is_poison_whether_or_not_it_is_needed(op: str, name: str, image: Any) -> None:
    value = both(text({**ROW, "before": {"ID": 1}, "op_type": op, name: image}))
    assert (value["cause"], value["detail"]) == (rejections.BROKEN, f"`{name}` is no object")


def test_a_key_inside_another_object_is_none() -> None:
    assert both(text({**ROW, "after": {"DOC": {"ID": 1}}}))["detail"] == "id is missing"
    assert both(text({**ROW, "after": {"DOC": {"ID": 1}, "ID": 2}}))["kind"] == "row"


def test_a_number_that_no_type_holds_leaves_its_row_a_row() -> None:
    value = both(text(ROW).replace(b'"ID":1', b'"ID":1,"RATIO":1e400'))
    assert value["kind"] == "row"
    (image,) = ImageReader(TABLE).read([value["value"]]).to_pylist()
    assert image["problem"] is None or "ratio" in image["problem"]


@pytest.mark.parametrize(
    "tokens", [b'"\xff"', b'{"RUN":"\xff"}', b"[" * 5_000 + b"]" * 5_000, b'{"RUN":' * 500 + b"1" + b"}" * 500], ids=len
)
def test_tokens_that_nobody_can_read_end_no_landing(tokens: bytes) -> None:
    value = both(text(ROW)[:-1] + b',"tokens":' + tokens + b"}")
    assert value["kind"] in ("row", "poison")


@pytest.mark.parametrize(
    "changed", [{"csn": "a" * 5_000}, {"op_type": "a" * 5_000}, {"after": {"x": 1}, "pos": "1" * 5_000}], ids=list
)
def test_a_detail_is_short_however_long_the_value_that_it_quotes(changed: dict[str, Any]) -> None:
    assert len(both(text({**ROW, **changed}))["detail"]) <= LONGEST + 1


def debezium(op: str, headers: dict[str, str]) -> dict[str, Any]:
    block = {"id": "776:31368536", "total_order": 3}
    message = {"op": op, "source": SOURCES["postgresql"], "before": {"id": 1}, "after": DEBEZIUM, "transaction": block}
    (sent,) = SourceDecoder(PIPELINES["debezium"]).decode(ROWS, [text(message)], [headers]).to_pylist()
    return dict(sent)


@pytest.mark.parametrize(
    "given", ["null", "x", "", "[]", "5", '{"id":' * 5_000, '"\\ud800"'], ids=lambda message: message[:6]
)
@pytest.mark.parametrize(("op", "name"), [("c", OLD_KEY), ("d", NEW_KEY), ("u", OLD_KEY)])
def test_a_key_header_that_nobody_can_read_is_told_when_it_lands(op: str, name: str, given: str) -> None:
    event = debezium(op, {name: given})
    assert (event["kind"], event["cause"]) == ("poison", HEADER)


def test_what_an_earlier_version_landed_with_such_a_header_is_a_problem_of_its_row() -> None:
    value, headers = debezium("u", {})["value"], [{OLD_KEY: "null"}]
    source = formats.images(PIPELINES["debezium"], TABLE)
    assert source is not None
    texts = formats.canonical(source, [value, value], ["U", "U"], [None, *headers])
    first, second = ImageReader(TABLE).read(texts).column("problem").to_pylist()
    assert first is None
    assert second == f"the message cannot be read: {HEADER}: {OLD_KEY} is no JSON object: 'null'"


@pytest.mark.parametrize(
    "value", [b"", b"{", b'{"op_type":5}', b'{"after":[]}', b'{"after":{"id":' + b"[" * 9_999], ids=len
)
def test_a_stored_message_that_no_release_can_read_is_a_problem_of_its_row(value: bytes) -> None:
    problems = (
        ImageReader(TABLE).read([value, text({"op_type": "I", "after": {"id": 1}})]).column("problem").to_pylist()
    )
    assert problems[0].startswith("the message cannot be read: ")
    assert problems[1] is None


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("change", 5, rejections.BROKEN),
        ("change", [{"kind": "merge"}], rejections.OPERATION),
        ("change", [{"kind": "insert", "columnnames": ["a"], "columnvalues": []}], rejections.BROKEN),
        ("change", [{"kind": "delete", "oldkeys": 5}], rejections.BROKEN),
        ("nextlsn", None, rejections.NO_CSN),
        ("xid", None, rejections.NO_TRANSACTION),
    ],
)
def test_a_transaction_of_format_version_1_that_nobody_can_read_is_one_dead_letter(
    name: str, value: Any, cause: str
) -> None:
    lines = [line for each in ({**wal2json_v1(), name: value}, wal2json_v1()) for line in expanded(text(each))]
    events = SourceDecoder(PIPELINES["wal2json"]).decode(ROWS, lines)
    first, *others = events.to_pylist()
    assert (first["cause"], first["value"]) == (cause, lines[0].decode())
    assert [row["kind"] for row in others] == ["marker", "row", "row", "row", "marker", "metadata"]
