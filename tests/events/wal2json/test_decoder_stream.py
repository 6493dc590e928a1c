"""A stream of wal2json is the same however it is cut, and however often its transactions come again."""

import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from events.wal2json.test_decoder import PIPELINE, TOPIC, line, row
from events.wal2json.test_decoder_capture import lines
from txloom.events.wal2json.decoder import Open, Wal2JsonDecoder

SOME = ["xid", "csn", "pos", "identity", "payload", "table", "op", "transaction_id"]
XIDS = st.sampled_from([7, 7, 7, 8, None])
MESSAGES = st.one_of(
    XIDS.map(lambda xid: line("B", xid, f"0/{xid}0")),
    XIDS.map(lambda xid: line("C", xid, f"0/{xid}0")),
    st.builds(lambda xid, code: row("I", "promo_codes", {"code": code}, xid=xid), XIDS, st.sampled_from("PQ")),
    XIDS.map(lambda xid: row("I", "audit_log", {"id": 1}, xid=xid)),
    XIDS.map(lambda xid: row("T", "orders", xid=xid)),
    st.sampled_from([row("I", "promo_codes", {}), b"", b"{", b"[1]", b"\x00", line("M"), line("X"), None]),
    st.sampled_from([row("I", "promo_codes", {"code": "P"})[:40] + line("B", 7, "0/70"), line("C") + line("B")]),
)
STREAMS = st.lists(MESSAGES, max_size=30)
REAL = lines()[430:900]
"""With the end of the initial rows and real transactions after them."""


def whole(values: list[bytes | None]) -> list[dict[str, Any]]:
    return list(Wal2JsonDecoder(PIPELINE.tables).decode(TOPIC, values).to_pylist())


def in_parts(values: list[bytes | None], cuts: list[int]) -> list[dict[str, Any]]:
    """Decode a stream cut into parts, each by a new decoder that knows only what was open."""
    bounds = [0, *sorted(cut % (len(values) + 1) for cut in cuts), len(values)]
    left: Open | None = None
    parts = []
    for start, end in pairwise(bounds):
        decoder = Wal2JsonDecoder(PIPELINE.tables)
        decoder.resume(TOPIC, left)
        parts.append(decoder.decode(TOPIC, values[start:end]))
        left = decoder.open(TOPIC)
    events = pa.concat_tables(parts).to_pylist()
    return [each | {"ordinal": ordinal} for ordinal, each in enumerate(events)]


@given(STREAMS, st.lists(st.integers(0, 99), max_size=6))
def test_a_stream_is_the_same_in_any_parts(values: list[bytes | None], cuts: list[int]) -> None:
    assert in_parts(values, cuts) == whole(values)


@given(st.lists(st.integers(0, 9999), max_size=4))
def test_a_real_stream_is_the_same_in_any_parts(cuts: list[int]) -> None:
    assert in_parts(list(REAL), cuts) == whole(list(REAL))


@given(STREAMS)
def test_one_decoder_goes_on_by_itself(values: list[bytes | None]) -> None:
    decoder = Wal2JsonDecoder(PIPELINE.tables)
    events = [each for value in values for each in decoder.decode(TOPIC, [value]).to_pylist()]
    assert [each | {"ordinal": n} for n, each in enumerate(events)] == whole(values)


@given(st.data(), STREAMS)
def test_what_comes_again_from_a_begin_on_is_the_same(data: st.DataObject, values: list[bytes | None]) -> None:
    values = [line("B", 7, "0/70"), *values]
    _comes_again(data, values, [n for n, each in enumerate(whole(values)) if each["kind"] == "marker" and each["csn"]])


@given(st.data())
def test_what_comes_again_of_a_real_stream_is_the_same(data: st.DataObject) -> None:
    _comes_again(data, list(REAL), [n for n, each in enumerate(whole(list(REAL))) if each["kind"] == "marker"])


def _comes_again(data: st.DataObject, values: list[bytes | None], begins: list[int]) -> None:
    """Deliver a stream up to some crash, then again from some BEGIN before it, to its end."""
    begin = data.draw(st.sampled_from(begins))
    crash = data.draw(st.integers(begin, len(values)))
    first, again = whole(values), whole(values[:crash] + values[begin:])[crash:]
    names = [*SOME, "kind", "cause", "committed_at", "expected", "event_count"]
    assert [[each[name] for name in names] for each in again] == [
        [each[name] for name in names] for each in first[begin:]
    ]


@given(STREAMS)
def test_rows_of_one_transaction_between_begin_and_commit_have_identities_of_their_own(
    values: list[bytes | None],
) -> None:
    taken: list[int] = []
    for each in whole(values):
        if each["kind"] == "marker" and each["csn"] is not None:
            taken = []
        if each["pos"] is not None:
            taken.append(each["pos"])
        if each["kind"] == "metadata":
            assert each["event_count"] == len(taken)
    assert taken == list(range(1, len(taken) + 1))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=20))
def test_any_bytes_come_out_as_one_row_each(values: list[bytes | None]) -> None:
    events = whole([line("B"), *values])
    assert [each["ordinal"] for each in events] == list(range(len(values) + 1))


@given(STREAMS)
def test_a_commit_counts_the_distinct_rows_that_came_since_its_begin(values: list[bytes | None]) -> None:
    counts: dict[str, int] = {}
    for each in whole(values):
        if each["kind"] == "marker" and each["csn"] is not None:
            counts = {}
        if each["pos"] is not None and each["table"] is not None:
            counts[each["table"]] = counts.get(each["table"], 0) + 1
        if each["kind"] == "metadata":
            assert dict(each["expected"]) == counts


VALUES = st.sampled_from([None, 1, "P", '"value":', '{"name":"code",', "}", True, ""])
IMAGES = st.one_of(st.none(), st.dictionaries(st.sampled_from(["code", "CODE", "Code", "order_id", "used"]), VALUES))


@given(st.sampled_from("IUDT"), st.sampled_from(["promo_codes", "promo_uses"]), IMAGES, IMAGES)
def test_a_row_is_refused_for_what_it_is_and_not_for_how_it_is_written(op: str, table: str, new: Any, old: Any) -> None:
    message = row(op, table, new, old)
    spaced = json.dumps(json.loads(message), indent=1).encode()
    (_, events), (_, expected) = (whole([line("B"), each]) for each in (message, spaced))
    names = ("kind", "cause", "detail", "table", "pos", "identity")
    assert [events[name] for name in names] == [expected[name] for name in names]
