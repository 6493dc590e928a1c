"""Format-version 1: a transaction in one object becomes the lines of format-version 2, with every digit."""

import json
from typing import Any

import msgspec
import pytest

from events.wal2json.test_decoder import AT, PIPELINE, TOPIC, decode, row
from events.wal2json.test_decoder_capture import transactions
from txloom.events import rejections
from txloom.events.malformed import Refused
from txloom.events.wal2json import version_1
from txloom.events.wal2json.decoder import Wal2JsonDecoder
from txloom.events.wal2json.images import Wal2JsonImages
from txloom.events.wal2json.version_1 import expanded

KINDS = {"I": "insert", "U": "update", "D": "delete"}
INSERT = (
    '{"kind":"insert","schema":"public","table":"promo_codes","columnnames":["code","discount"],'
    '"columntypes":["character varying(32)","numeric(20,4)"],"columnvalues":["P1",12345678901234567890.0000]}'
)
UPDATE = (
    '{"kind":"update","schema":"public","table":"promo_codes","columnnames":["code","discount"],'
    '"columntypes":["character varying(32)","numeric(20,4)"],"columnvalues":["P2",1.50],'
    '"oldkeys":{"keynames":["code"],"keytypes":["character varying(32)"],"keyvalues":["P1"]}}'
)
DELETE = (
    '{"kind":"delete","schema":"public","table":"promo_codes",'
    '"oldkeys":{"keynames":["code"],"keyvalues":["P2"]}}'
)  # fmt: skip
SAID = '{"kind":"message","transactional":true,"prefix":"app","content":"}{"}'


def transaction(*changes: str, stamps: str = f'"xid":7,"nextlsn":"0/10","timestamp":"{AT}",') -> bytes:
    return f'{{{stamps}"change":[{",".join(changes)}]}}'.encode()


def test_a_transaction_becomes_a_begin_its_rows_and_a_commit() -> None:
    assert [value.decode() for value in expanded(transaction(INSERT, UPDATE, SAID, DELETE))] == [
        f'{{"action":"B","xid":7,"timestamp":"{AT}","lsn":"0/10"}}',
        f'{{"action":"I","xid":7,"timestamp":"{AT}","schema":"public","table":"promo_codes","columns":'
        '[{"name":"code","type":"character varying(32)","value":"P1"},'
        '{"name":"discount","type":"numeric(20,4)","value":12345678901234567890.0000}]}',
        f'{{"action":"U","xid":7,"timestamp":"{AT}","schema":"public","table":"promo_codes","columns":'
        '[{"name":"code","type":"character varying(32)","value":"P2"},'
        '{"name":"discount","type":"numeric(20,4)","value":1.50}],'
        '"identity":[{"name":"code","type":"character varying(32)","value":"P1"}]}',
        f'{{"action":"M","xid":7,"timestamp":"{AT}"}}',
        f'{{"action":"D","xid":7,"timestamp":"{AT}","schema":"public","table":"promo_codes",'
        '"identity":[{"name":"code","value":"P2"}]}',
        f'{{"action":"C","xid":7,"timestamp":"{AT}","lsn":"0/10"}}',
    ]


def test_what_it_becomes_is_decoded_as_format_version_2() -> None:
    events = decode(*expanded(transaction(INSERT, UPDATE, SAID, DELETE)))
    assert [each["kind"] for each in events] == ["marker", "row", "row", "marker", "row", "metadata"]
    assert [each["op"] for each in events if each["kind"] == "row"] == ["I", "U", "D"]
    assert (events[-1]["transaction_id"], events[-1]["expected"]) == ("7:16", {"promo_codes": 3})
    assert events[1]["committed_at"].isoformat() == "2026-11-21T03:03:20.873280+00:00"


def test_a_truncate_was_lost_at_the_source() -> None:
    assert [each["kind"] for each in decode(*expanded(transaction()))] == ["marker", "metadata"]


def test_a_transaction_printed_over_several_lines_becomes_single_ones() -> None:
    pretty = json.dumps(json.loads(transaction(INSERT, UPDATE)), indent="\t").encode()
    assert all(b"\n" not in value for value in expanded(pretty))
    assert [each["kind"] for each in decode(*expanded(pretty))] == ["marker", "row", "row", "metadata"]


def test_a_message_outside_transactions_stands_alone() -> None:
    assert expanded(transaction(SAID, stamps="")) == [b'{"action":"M"}']


def test_types_may_be_left_out() -> None:
    bare = json.loads(INSERT)
    del bare["columntypes"]
    _, insert, _ = expanded(transaction(json.dumps(bare)))
    assert b'"columns":[{"name":"code","value":"P1"},' in insert
    assert [each["kind"] for each in decode(*expanded(transaction(json.dumps(bare))))] == ["marker", "row", "metadata"]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"{}",
        b"\xff",
        b'{"id":1}',
        row("I", "orders", {"order_id": 1}),
        b'{"change":null}',
        b'{"action":"M","change":[]}',
    ],
)
def test_anything_else_is_returned_as_it_is(value: bytes) -> None:
    assert expanded(value) == [value]


@pytest.mark.parametrize(
    ("value", "cause", "detail"),
    [
        (
            transaction(INSERT, stamps='"xid":7,'),
            rejections.NO_CSN,
            "the message has no `nextlsn`: the slot needs include-lsn",
        ),
        (
            transaction(INSERT, stamps='"nextlsn":"0/10",'),
            rejections.NO_TRANSACTION,
            "the message has no `xid`: the slot needs include-xids",
        ),
        (transaction('{"kind":"truncate"}'), rejections.OPERATION, "kind of a change is 'truncate'"),
        (transaction(INSERT.replace('"P1",', "")), rejections.BROKEN, "a change has 2 names and 1 values"),
        (transaction(INSERT.replace("columnvalues", "values")), rejections.BROKEN, "a change has 2 names and 0 values"),
        (transaction("5"), rejections.BROKEN, "Expected `object`, got `int` - at `$.change[0]`"),
    ],
)
def test_a_transaction_that_cannot_be_placed_is_refused_whole(value: bytes, cause: str, detail: str) -> None:
    (refused,) = expanded(value)
    assert isinstance(refused, Refused)
    assert (bytes(refused), refused.cause, refused.detail) == (value, cause, detail)


class Cell(msgspec.Struct):
    name: msgspec.Raw
    type: msgspec.Raw
    value: msgspec.Raw


def in_version_1(lines: list[bytes]) -> bytes:
    """Write a transaction of format-version 2 as its source would have in format-version 1; truncates get lost."""
    begin = json.loads(lines[0])
    header = f'{{"xid":{begin["xid"]},"nextlsn":"{begin["lsn"]}","timestamp":"{begin["timestamp"]}","change":['
    return header.encode() + b",".join(_change(line) for line in lines[1:-1] if b'"T"' not in line[:16]) + b"]}"


def _change(line: bytes) -> bytes:
    parts = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    kind = KINDS[msgspec.json.decode(parts["action"])]
    text = b'{"kind":"%s","schema":%s,"table":%s' % (kind.encode(), bytes(parts["schema"]), bytes(parts["table"]))
    if "columns" in parts:
        text += b"," + _lists(parts["columns"], "column")
    if "identity" in parts:
        text += b',"oldkeys":{' + _lists(parts["identity"], "key") + b"}"
    return text + b"}"


def _lists(image: msgspec.Raw, prefix: str) -> bytes:
    cells = msgspec.json.decode(image, type=list[Cell])
    lists = {name: b",".join(bytes(getattr(cell, name)) for cell in cells) for name in ("name", "type", "value")}
    return b",".join(b'"%s%ss":[%s]' % (prefix.encode(), name.encode(), values) for name, values in lists.items())


def test_the_whole_capture_in_version_1_has_the_same_rows() -> None:
    chosen = [lines for lines in transactions() if not any(b'"action":"T"' in line for line in lines)]
    one = [line for lines in chosen for line in expanded(in_version_1(lines))]
    two = [line for lines in chosen for line in lines]
    assert len(chosen) > 700
    names = ("kind", "transaction_id", "pos", "table", "op", "identity", "committed_at", "expected", "event_count")
    version_1, version_2 = (Wal2JsonDecoder(PIPELINE.tables).decode(TOPIC, lines).to_pylist() for lines in (one, two))
    assert [[each[name] for name in names] for each in version_1] == [
        [each[name] for name in names] for each in version_2
    ]
    for table in PIPELINE.tables:
        assert _images(version_1, table.name) == _images(version_2, table.name)


def _images(envelopes: list[dict[str, Any]], name: str) -> list[bytes]:
    (table,) = (table for table in PIPELINE.tables if table.name == name)
    of_table = [each for each in envelopes if each["table"] == name]
    return Wal2JsonImages(table).canonical([each["value"] for each in of_table], [each["op"] for each in of_table])


def test_the_cause_of_what_was_not_expanded_names_the_version() -> None:
    (event,) = decode(transaction(INSERT))
    assert event["cause"] == version_1.VERSION_1 == "format-version 1"
