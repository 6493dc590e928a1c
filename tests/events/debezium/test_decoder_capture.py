"""A real load as Debezium wrote it, its worker killed twice: snapshot and whole transactions give the final state.

The capture has every record of every topic, with headers. The final state is that of the sample, which is the same
load.
"""

import gzip
import json
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from oracle import capture, declarations
from oracle.values import typed_state
from txloom.config import find
from txloom.config.models.pipeline import Table
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.debezium.images import DebeziumImages
from txloom.events.images.reader import ImageReader

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "orders" / "debezium"
PIPELINE = find("orders")
END, BEGIN = "dev.transaction", "BEGIN"

Event = dict[str, Any]
Rows = dict[tuple[Any, ...], dict[str, Any]]


@cache
def records() -> dict[str, list[dict[str, Any]]]:
    """Return the capture's records by topic, in the order of their offsets."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(CAPTURE.glob("*.jsonl.gz")):
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]]
        by_topic[lines[0]["topic"]] = lines
    return by_topic


def decoded(topic: str, records_of: list[dict[str, Any]]) -> list[Event]:
    values = [None if each["value"] is None else each["value"].encode() for each in records_of]
    events = DebeziumDecoder(PIPELINE.tables, END).decode(topic, values, [dict(each["headers"]) for each in records_of])
    return [dict(event) for event in events.to_pylist(maps_as_pydicts="strict")]


@cache
def events() -> tuple[Event, ...]:
    """Return every record's event, topic by topic, with the images of rows."""
    decoded_events = [event for topic, records_of in records().items() for event in decoded(topic, records_of)]
    for table in PIPELINE.tables:
        of_table = [event for event in decoded_events if event["kind"] == "row" and event["table"] == table.name]
        columns = ([event[name] for event in of_table] for name in ("value", "op", "headers"))
        for event, images in zip(
            of_table,
            ImageReader(table).read(DebeziumImages(table, time_unit="adaptive").canonical(*columns)).to_pylist(),
            strict=True,
        ):
            event["images"] = images
    return tuple(decoded_events)


def rows() -> list[Event]:
    return [event for event in events() if event["kind"] == "row"]


def ends() -> list[Event]:
    return [event for event in events() if event["kind"] == "metadata"]


@cache
def transactions() -> dict[str, dict[str, Event]]:
    """Return the distinct rows of each transaction by table and identity."""
    by_transaction: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in rows():
        by_transaction[event["transaction_id"]].setdefault(f"{event['table']} {event['identity']}", event)
    return by_transaction


def whole() -> list[tuple[int, str]]:
    """Return csn and id of the transactions that have exactly the rows that their metadata expects, in commit order."""
    metadata_of = {event["transaction_id"]: event for event in events() if event["expected"] is not None}
    received = {
        name: Counter(event["table"] for event in events_of.values()) for name, events_of in transactions().items()
    }
    return sorted(
        (event["csn"], name) for name, event in metadata_of.items() if received.get(name, {}) == event["expected"]
    )


def apply(event: Event, table: Table, state: Rows) -> None:
    """Apply one event to a table's rows, as a reader of the log would."""
    before, after, op = event["images"]["before"], event["images"]["after"], event["op"]

    def key(image: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(image[name] for name in table.key)

    if op == "T":
        state.clear()
    elif op == "D":
        del state[key(before)]
    elif op in ("I", "r"):
        assert key(after) not in state
        state[key(after)] = after
    elif op == "U":
        old = state.pop(key(before or after))
        state[key(after)] = {**after, **{name: old[name] for name in event["images"]["unchanged"] or ()}}
    else:
        assert op == "K" and key(before) in state


def test_no_message_of_the_real_capture_is_poison() -> None:
    assert Counter(event["kind"] for event in events()) == {
        "row": 14651,
        "tombstone": 4437,
        "marker": 625,
        "metadata": 620,
    }


def test_the_snapshot_and_whole_transactions_give_the_final_state_exactly() -> None:
    state: dict[str, Rows] = {table.name: {} for table in PIPELINE.tables}
    for _, name in whole():
        for event in sorted(transactions().get(name, {}).values(), key=lambda event: event["pos"]):
            apply(event, PIPELINE.table(event["table"]), state[event["table"]])
    truth = typed_state(capture.truth())
    assert {name: len(rows_of) for name, rows_of in truth.items()} == {
        name: len(rows_of) for name, rows_of in state.items()
    }
    for name in declarations.TABLES:
        assert state[name] == truth[name], name


def test_every_transaction_is_whole_by_its_distinct_identities() -> None:
    ended = {event["transaction_id"] for event in ends()}
    assert len(ended) == 612
    assert {name for _, name in whole()} == ended | {event["transaction_id"] for event in rows() if event["op"] == "r"}
    assert sum(not event["expected"] for event in {event["transaction_id"]: event for event in ends()}.values()) == 40


def test_a_plain_count_of_received_rows_is_wrong_where_they_came_again() -> None:
    seen = Counter((event["transaction_id"], event["identity"]) for event in rows())
    again = {name for (name, _), times in seen.items() if times > 1}
    assert sum(times - 1 for times in seen.values()) == 2749
    assert again and all(not name.startswith("r:") for name in again)


def test_a_row_that_came_again_is_the_same_row() -> None:
    known = transactions()
    for event in rows():
        assert event["payload"] == known[event["transaction_id"]][f"{event['table']} {event['identity']}"]["payload"]


def test_joined_on_the_full_id_no_transaction_is_whole() -> None:
    incomplete = [
        json.loads(each["value"])
        for records_of in records().values()
        for each in records_of
        if each["value"] and '"id":' in each["value"]
    ]
    of_ends = {
        each["id"]: each["event_count"] for each in incomplete if each.get("status") == "END" and each["event_count"]
    }
    of_rows = Counter(each["transaction"]["id"] for each in incomplete if each.get("transaction"))
    assert not [name for name, count in of_ends.items() if of_rows[name] == count]


def test_commits_are_in_order_but_for_those_delivered_again_and_xids_are_not() -> None:
    first = list({event["transaction_id"]: event["csn"] for event in reversed(ends())}.items())[::-1]
    assert all(a < b for (_, a), (_, b) in pairwise(first))
    assert sum(int(a) > int(b) for (a, _), (b, _) in pairwise(first)) == 119
    assert any(a["csn"] > b["csn"] for a, b in pairwise(ends()))


def test_the_end_lies_behind_its_rows_and_the_snapshot_before_everything() -> None:
    commit = {event["transaction_id"]: event["csn"] for event in ends()}
    for event in rows():
        lsn = int(event["identity"].split(":")[0])
        assert lsn < commit[event["transaction_id"]] if event["op"] != "r" else lsn == event["csn"]
    assert max(event["csn"] for event in rows() if event["op"] == "r") < min(commit.values())


def test_rows_of_one_statement_share_their_lsn() -> None:
    places = Counter(event["identity"].split(":")[0] for event in rows() if event["op"] == "I")
    assert max(places.values()) > 1


def test_the_runs_of_the_connector_show_which_transaction_came_from_two_of_them() -> None:
    runs = defaultdict(set)
    for event in rows():
        runs[event["transaction_id"]].add(event["producer_run"])
    assert len(set.union(*runs.values())) == 3
    assert None not in set.union(*runs.values())
    assert any(len(senders) == 2 for senders in runs.values())


def test_key_changes_come_in_pairs_and_keep_large_values_of_the_old_key() -> None:
    changes = [event for event in rows() if event["headers"]]
    assert Counter(event["op"] for event in changes) == {"K": 100, "U": 100}
    assert [event for event in changes if event["images"]["unchanged"]]


def test_truncates_have_their_place_and_are_counted() -> None:
    truncates = [event for event in rows() if event["op"] == "T"]
    assert Counter(event["table"] for event in truncates) == {"promo_codes": 3, "promo_uses": 1}
    assert all(event["pos"] > 0 for event in truncates)


def test_a_delete_under_the_default_identity_tells_its_key_only() -> None:
    deletes = [event for event in rows() if event["op"] == "D"]
    assert {(event["table"], *event["images"]["before_known"]) for event in deletes} == {
        (table.name, *table.key) for table in PIPELINE.tables if not table.name.startswith("promo_")
    }


def test_no_value_of_the_capture_is_unreadable() -> None:
    assert not [event["images"]["problem"] for event in rows() if event["images"]["problem"]]


@pytest.mark.parametrize("topic", [END, "dev.public.order_attachments"])
def test_a_topic_cut_anywhere_decodes_to_the_same_events(topic: str) -> None:
    sent = records()[topic]
    pieces = [event for at in range(0, len(sent), 97) for event in decoded(topic, sent[at : at + 97])]
    assert [{**event, "ordinal": 0} for event in pieces] == [{**event, "ordinal": 0} for event in decoded(topic, sent)]


@pytest.mark.parametrize("topic", ["dev.public.orders", "dev.public.order_attachments"])
def test_messages_in_their_schemas_mean_the_same(topic: str) -> None:
    sent = [each for each in records()[topic] if each["value"] is not None][-120:]
    around = [{**each, "value": json.dumps({"schema": None, "payload": json.loads(each["value"])})} for each in sent]
    for alone, wrapped in zip(decoded(topic, sent), decoded(topic, around), strict=True):
        volatile = dict.fromkeys(("value", "payload", "digest"))
        assert {**alone, **volatile} == {**wrapped, **volatile}
