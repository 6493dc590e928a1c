"""Whatever a message says, it comes out as one row of the envelope: no exception leaves a decoder, a reader or images.

TXLOOM_FUZZ is the number of examples of each test, of up to eight messages each; `make soak` runs a million messages.
"""

import gc
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from events.fuzz.sources import MESSAGES, METADATA, PIPELINES, ROWS, TABLE, TABLES, wal2json_v1
from events.fuzz.spoiled import messages
from txloom.events import formats
from txloom.events.formats import SourceDecoder
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.goldengate.messages import MessageReader
from txloom.events.images.reader import ImageReader
from txloom.events.images.single_message import ImageMessages
from txloom.events.malformed import Refused
from txloom.events.wal2json.version_1 import expanded
from txloom.storage.dead_letters.hints import HINTS
from txloom.storage.landing.change_events import with_compact_events, with_position
from txloom.storage.sources.files import records
from txloom.storage.sources.splits import LandingPlan, Task

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
EXAMPLES = int(os.environ.get("TXLOOM_FUZZ", "25"))
SECONDS, SECONDS_A_MEGABYTE = 2.0, 10.0
"""Processor time that reading a few messages may take, and that of a megabyte of them."""
LONGEST = 400
"""Characters of a detail or a problem."""
LANDING = LandingPlan(1, datetime(2026, 11, 21, tzinfo=UTC), ())
Headers = Sequence[dict[str, str] | None]
KINDS = {"row", "metadata", "marker", "tombstone", "poison"}
KEYS = st.sampled_from(
    ['{"id":1}', '{"ID":1}', "{}", "", "x", "null", '{"schema":{},"payload":{"id":1}}', '{"id":' * 2000]
)
HEADERS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["__debezium.newkey", "__debezium.oldkey", "__debezium.context.runId", "other"]), KEYS
    ),
)


def batches(form: str, topic: str) -> st.SearchStrategy[list[bytes | None]]:
    whole = [message for message_topic, message in MESSAGES[form] if message_topic == topic]
    return st.lists(st.one_of(messages(whole), messages(whole), messages(whole), st.none()), max_size=8)


class Watch:
    """Says that reading took no more time than so many bytes may, that of collecting garbage left out."""

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self.limit = SECONDS + SECONDS_A_MEGABYTE * sum(map(len, filter(None, values))) / 2**20

    def __enter__(self) -> None:
        gc.disable()
        self.begun = time.process_time()

    def __exit__(self, *error: object) -> None:
        gc.enable()
        assert time.process_time() - self.begun < self.limit


def is_sound(events: pa.Table, values: Sequence[bytes | None]) -> None:
    """Check what must hold of every envelope: a row for each message, in order, each as it came or with its cause."""
    events.validate(full=True)
    assert events.column("ordinal").to_pylist() == list(range(len(values)))
    for row, value in zip(events.to_pylist(), values, strict=True):
        assert row["kind"] in KINDS
        assert row["value"] == (None if value is None else value.decode("utf-8", "backslashreplace"))
        assert (row["cause"] in HINTS) == (row["kind"] == "poison")
        assert row["kind"] != "poison" or 0 < len(row["detail"]) <= LONGEST, row["detail"]
        assert row["csn"] is None or row["csn"] >= 0
        msgspec.json.encode({name: value for name, value in row.items() if name != "committed_at"})


def is_landed(landed_events: pa.Table) -> pa.Table:
    """Land an envelope; return the rows of the table that has a column of each type."""
    events = with_position(landed_events, Task(1, ROWS, "a.jsonl", 1), range(1, landed_events.num_rows + 1), LANDING)
    with_compact_events(events, LANDING).validate(full=True)
    rows = [row for row in landed_events.to_pylist() if row["kind"] == "row" and row["table"] == TABLE.name]
    rows = [row for row in rows if row["op"] != formats.KEY_CHANGE]
    return pa.Table.from_pylist(rows, landed_events.schema)


def images_are_sound(form: str, rows: pa.Table) -> None:
    """Read the images of rows as a release does, by column and by message: they are the same, or a problem."""
    values, ops, headers_of = (rows.column(name).to_pylist() for name in ("value", "op", "headers"))
    source = formats.images(PIPELINES[form], TABLE)
    headers = [None if each is None else dict(each) for each in headers_of]
    texts: Sequence[bytes | str] = values if source is None else formats.canonical(source, values, ops, headers)
    reader, single = ImageReader(TABLE), ImageMessages(TABLE)
    images = reader.read(texts)
    images.validate(full=True)
    expected = pa.Table.from_pylist([single.read(text) for text in texts], reader.schema)
    assert list(map(repr, images.to_pylist())) == list(map(repr, expected.to_pylist()))
    problems = images.column("problem").to_pylist()
    assert all(problem is None or 0 < len(problem) <= LONGEST for problem in problems)


def read(form: str, topic: str, values: Sequence[bytes | None], headers: Headers | None = None) -> None:
    with Watch(values):
        images = SourceDecoder(PIPELINES[form]).decode(topic, values, headers)
        is_sound(images, [None if value is not None and not value.strip() else value for value in values])
        images_are_sound(form, is_landed(images))


@pytest.mark.parametrize(
    ("form", "topic"), sorted({(form, topic) for form, messages in MESSAGES.items() for topic, _ in messages})
)
def test_a_message_that_lies_comes_out_as_one_row(form: str, topic: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(batches(form, topic), st.lists(HEADERS, min_size=8, max_size=8))
    def check(values: list[bytes | None], headers: list[dict[str, str] | None]) -> None:
        read(form, topic, values, headers[: len(values)])

    check()


WHOLE = [msgspec.json.encode(message) for topic, message in MESSAGES["goldengate"] if topic == ROWS]
KEY_TWICE = [b'"ID":null', b'"id":null', b'"ID" :null', b'"\\u0049D":null', b'"TEXT":"ID"', b'"TEXT":"\\"ID\\":"']
"""Instead of a column: the key once more, however it is spelled, or a value that looks like it."""


@pytest.mark.parametrize("topic", [ROWS, METADATA])
def test_goldengate_is_the_same_by_column_and_by_message(topic: str) -> None:
    decoder, single = (kind(TABLES, METADATA, "RUN", []) for kind in (GoldenGateDecoder, MessageReader))

    @settings(max_examples=EXAMPLES)
    @given(batches("goldengate", topic))
    @example([row.replace(b'"NUMBER":"2"', twice) for row in WHOLE for twice in KEY_TWICE])
    def check(values: list[bytes | None]) -> None:
        events, expected = decoder.decode(topic, values), single.read(topic, values)
        assert events.schema == expected.schema
        assert list(map(repr, events.to_pylist())) == list(map(repr, expected.to_pylist()))

    check()


DEEP = b'{"action":' + b"[" * 2_000


@pytest.mark.parametrize("cut", [DEEP, DEEP + b"]" * 2_000 + b"}", b'{"action":"\xff', b'{"action":"I"}'])
def test_a_begin_behind_whatever_was_cut_off_is_one_row(cut: bytes) -> None:
    """A reader that is started again appends to its file: what it wrote last may be anything."""
    whole = [message for topic, message in MESSAGES["wal2json"] if topic == ROWS]
    begin = next(msgspec.json.encode(each) for each in whole if each.get("action") == "B")
    read("wal2json", ROWS, [cut + begin, *map(msgspec.json.encode, whole)])


@settings(max_examples=EXAMPLES)
@given(st.lists(messages([wal2json_v1()]), max_size=3))
def test_a_transaction_of_format_version_1_that_lies_comes_out_whole_or_as_dead_letters(values: list[bytes]) -> None:
    lines = [line for value in values for line in expanded(value)]
    read("wal2json", ROWS, lines)


RECORDS = [
    {"value": value, "headers": headers}
    for _, value in MESSAGES["debezium"][:6]
    for headers in (None, {"a": "1"}, [["a", "1"]], ["__debezium.newkey", '{"id":1}'])
]


@settings(max_examples=EXAMPLES)
@given(st.lists(messages(RECORDS), max_size=8))
def test_a_record_that_lies_comes_out_as_one_row(lines: list[bytes]) -> None:
    values, headers = records(lines)
    assert {type(value) for value in values} <= {bytes, Refused, type(None)}
    assert len(values) == len(headers) == len(lines)
    events: Any = SourceDecoder(PIPELINES["debezium"]).decode(ROWS, values, headers)
    is_sound(events, [None if value is not None and not value.strip() else value for value in values])
