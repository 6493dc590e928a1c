"""What is told of a message that cannot be read: the thing that is wrong, in words that an operator can act on."""

import codecs
import gzip
import json

import pytest

from txloom.config import find
from txloom.events import rejections
from txloom.events.change_events import ChangeEventDecoder
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.wal2json.decoder import Wal2JsonDecoder

TABLES = find("orders").tables
DECODERS = {
    "goldengate": GoldenGateDecoder(TABLES, "tx"),
    "debezium": DebeziumDecoder(TABLES, "tx"),
    "wal2json": Wal2JsonDecoder(TABLES),
    "change_events": ChangeEventDecoder(TABLES),
}
GOOD = json.dumps({"table": "PUBLIC.PROMO_CODES", "op_type": "T", "pos": "1", "xid": "1.2.3", "csn": "1", "a": "é"})
TEXT = GOOD.encode()


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    ("value", "cause", "detail"),
    [
        (codecs.BOM_UTF8 + TEXT, rejections.BOM, "the message begins with the byte order mark of UTF-8"),
        (GOOD.encode("utf-16"), rejections.ENCODING, "the message begins with the byte order mark of UTF-16"),
        (GOOD.encode("utf-32"), rejections.ENCODING, "the message begins with the byte order mark of UTF-32"),
        (GOOD.encode("utf-16-be"), rejections.ENCODING, "every other byte is zero, as in UTF-16"),
        (GOOD.encode("utf-16-le"), rejections.ENCODING, "every other byte is zero, as in UTF-16"),
        (b'{"a": "\xff"}', rejections.ENCODING, "the byte 0xff at offset 7 is no UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', rejections.ENCODING, "the byte 0xed at offset 7 is no UTF-8"),
        (b'{"a": "\xc3', rejections.BROKEN, "the message was cut off inside a character, at offset 7"),
        (gzip.compress(TEXT, mtime=0), rejections.BINARY, "the message begins as gzip does"),
        (
            b"\x00\x00\x00\x00\x2a\x02\x04",
            rejections.BINARY,
            "the message begins as a schema registry's do (Avro, Protobuf), with the schema 42",
        ),
        (b"\x00\x00\x00\x00\x00\x00\x00", rejections.NUL, "a NUL byte stands at offset 0"),
        (b'{"a": "\\ud83d\\ude00 \\ud800"}', rejections.SURROGATE, "\\ud800 at offset 20 is one half of a character"),
        (b'{"a": ' * 100_000, rejections.DEEP, "arrays or objects lie within each other some hundred times"),
        (b"[" * 1_000 + b"]" * 1_000, rejections.DEEP, "arrays or objects lie within each other some hundred times"),
        (b" \t", rejections.EMPTY, "the message has no content"),
        (b"[]", rejections.NOT_AN_OBJECT, "the message is a JSON list"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else None,
)
def test_a_message_that_cannot_be_read_is_told_by_what_is_wrong_with_it(
    name: str, value: bytes, cause: str, detail: str
) -> None:
    (event,) = DECODERS[name].decode("rows", [value]).to_pylist()
    assert (event["kind"], event["cause"], event["detail"]) == ("poison", cause, detail)
    assert event["value"] == value.decode("utf-8", "backslashreplace")
