"""Debezium messages of PostgreSQL: the traps of the format, one fact each."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config import find
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events import rejections
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.debezium.messages import HEADER, HINTS, NEW_KEY, NOT_GIVEN, OLD_KEY, SHAPE
from txloom.events.envelope import (
    BEHIND,
    FIRST_OF_TABLE,
    LAST_OF_SNAPSHOT,
    LAST_OF_TABLE,
    OF_INCREMENTAL,
    OF_SNAPSHOT,
)

PIPELINE = find("orders")
TOPIC, ROWS = "dev.transaction", "dev.public.promo_codes"
LEFT_OUT = "__debezium_unavailable_value"
SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "promo_codes", "lsn": 31368536}
AFTER = {"code": "P1", "discount": "1.5000", "valid_to": None}
NOTES = Table(name="notes", source="public.notes", columns=(Column(name="note", type=parse("string")),), key="none")


def decode(topic: str, *values: Any, headers: Any = None, ignored: Any = None) -> list[dict[str, Any]]:
    """Decode messages of one topic; a dict stands for its JSON."""
    sent = [json.dumps(value).encode() if isinstance(value, dict) else value for value in values]
    decoder = DebeziumDecoder([*PIPELINE.tables, NOTES], TOPIC, ignored)
    events = decoder.decode(topic, sent, None if headers is None else [headers] * len(sent))
    return [dict(row) for row in events.to_pylist(maps_as_pydicts="strict")]


def message(**changed: Any) -> dict[str, Any]:
    source = {**SOURCE, "ts_ms": 1795230201314, "ts_us": 1795230201314108, **changed.pop("source", {})}
    block = {"id": "776:31368536", "total_order": 3, "data_collection_order": 1}
    return {"before": None, "after": AFTER, "source": source, "transaction": block, "op": "c", "ts_ms": 1, **changed}


def row(headers: Any = None, **changed: Any) -> dict[str, Any]:
    (event,) = decode(ROWS, message(**changed), headers=headers)
    return event


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": []}, "payload": payload}


def poison(event: dict[str, Any]) -> tuple[str, str, str]:
    return event["kind"], event["cause"], event["detail"]


@pytest.mark.parametrize(("op", "expected"), [("c", "I"), ("u", "U"), ("d", "D"), ("t", "T"), ("r", "r")])
def test_each_operation_has_its_letter(op: str, expected: str) -> None:
    assert row(op=op, before={"code": "P1"})["op"] == expected


def test_rows_are_joined_on_the_part_of_the_id_that_all_messages_of_a_transaction_share() -> None:
    end = {"status": "END", "id": "776:31369312", "event_count": 0, "data_collections": []}
    (metadata,) = decode(TOPIC, end)
    assert row()["transaction_id"] == metadata["transaction_id"] == metadata["xid"] == "776"


def test_only_end_knows_the_commit_position() -> None:
    (metadata,) = decode(TOPIC, {"status": "END", "id": "776:31369312", "event_count": 0})
    assert (row()["csn"], metadata["csn"]) == (None, 31369312)


@pytest.mark.parametrize("total_order", [3, "3"])
def test_the_order_comes_as_a_number_or_as_text(total_order: Any) -> None:
    assert row(transaction={"id": "776:31368536", "total_order": total_order})["pos"] == 3


def test_a_row_delivered_again_is_the_same_although_its_order_and_its_stamps_differ() -> None:
    again = row(transaction={"id": "776:31368536", "total_order": 1652}, ts_ms=2)
    assert (again["identity"], again["payload"]) == (row()["identity"], row()["payload"])
    assert again["pos"] != row()["pos"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("key: rows of one COPY share their lsn", {"after": {**AFTER, "code": "P2"}}),
        ("operation: both halves of a key change share it too", {"op": "d", "before": AFTER}),
        ("table: one TRUNCATE empties several", {"source": {"table": "promo_uses"}, "op": "t"}),
        ("lsn", {"source": {"lsn": 31368537}}),
    ],
)
def test_rows_of_a_transaction_are_told_apart_by(name: str, changed: dict[str, Any]) -> None:
    assert row(**changed)["identity"] != row()["identity"], name


def test_one_identity_with_two_payloads_shows() -> None:
    other = row(after={**AFTER, "discount": "2.0000"})
    assert other["identity"] == row()["identity"]
    assert other["payload"] != row()["payload"]
    assert row(op="u", before=AFTER)["payload"] != row(op="u")["payload"]


def test_of_a_table_without_a_key_the_row_and_its_number_are_the_identity() -> None:
    note = {"source": {"table": "notes"}, "after": {"note": "a"}}
    same, other = row(**note), row(**{**note, "after": {"note": "b"}})
    assert row(**note)["identity"] == same["identity"] != other["identity"]
    equal = row(**note, transaction={"id": "776:31368536", "total_order": 4})
    assert equal["identity"].rsplit(".", 1) == [same["identity"].rsplit(".", 1)[0], "4"] != [same["identity"], "4"]
    assert equal["digest"] == same["digest"]
    assert poison(row(**{**note, "op": "d", "before": {"note": "a"}})) == (
        "poison",
        rejections.INSERT_ONLY,
        "operation D on notes, whose key is declared none",
    )


def test_a_row_tells_when_it_was_committed_and_by_which_run_it_was_sent() -> None:
    event = row(headers={"__debezium.context.runId": "01a1", "__debezium.context.taskId": "0"})
    assert event["committed_at"].isoformat() == "2026-11-21T03:03:21.314108+00:00"
    assert (event["producer_run"], event["headers"]) == ("01a1", None)


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ({"ts_us": None}, "2026-11-21T03:03:21.314000+00:00"),
        ({"ts_us": "1795230201314109"}, "2026-11-21T03:03:21.314109+00:00"),
        ({"ts_us": -1}, "1969-12-31T23:59:59.999999+00:00"),
        ({"ts_us": "soon", "ts_ms": 2**62}, None),
    ],
)
def test_stamps_are_exact_and_a_garbled_one_is_no_poison(stamps: dict[str, Any], expected: str | None) -> None:
    event = row(source=stamps)["committed_at"]
    assert (event and event.isoformat()) == expected


def test_a_row_of_a_snapshot_is_whole_by_itself() -> None:
    event = row(op="r", transaction=None)
    assert event["transaction_id"] == 'r:31368536:public.promo_codes:["P1"]'
    assert (event["csn"], event["pos"], event["expected"]) == (31368536, 0, {"promo_codes": 1})
    assert (row()["expected"], row(op="r", transaction=None, source={"table": "x"})["expected"]) == (None, None)


def test_a_row_of_an_incremental_snapshot_is_what_the_last_commit_left_and_has_no_lsn() -> None:
    """As version 3.6 of the connector writes it, with a signal table and without."""
    known = {"snapshot": "incremental", "lsn": None, "txId": None, "sequence": '["26382816","26383000"]'}
    event = row(op="r", transaction=None, source=known)
    assert (event["kind"], event["csn"], event["pos"]) == ("row", 26382816, BEHIND)
    assert event["transaction_id"] == 'r:26382816:public.promo_codes:["P1"]'
    early = row(op="r", transaction=None, source={**known, "sequence": '[null,"26383000"]'})
    assert early["csn"] == 26383000
    lost = row(op="r", transaction=None, source={**known, "sequence": None})
    assert lost["kind"] == "poison"


@pytest.mark.parametrize(
    ("op", "reported", "expected"),
    [
        ("r", {"snapshot": "first"}, FIRST_OF_TABLE),
        ("r", {"snapshot": "first_in_data_collection"}, FIRST_OF_TABLE),
        ("r", {"snapshot": "last_in_data_collection"}, LAST_OF_TABLE),
        ("r", {"snapshot": "true"}, OF_SNAPSHOT),
        ("r", {"snapshot": True}, OF_SNAPSHOT),
        ("r", {}, OF_SNAPSHOT),
        ("r", {"snapshot": "last"}, LAST_OF_SNAPSHOT),
        ("r", {"snapshot": "incremental"}, OF_INCREMENTAL),
        ("c", {"snapshot": "last"}, None),
        ("c", {"snapshot": "false"}, None),
    ],
)
def test_a_row_tells_whether_it_is_of_a_snapshot_also_where_nobody_watches_its_table(
    op: str, reported: dict[str, Any], expected: str | None
) -> None:
    system_columns = {"op": op} | ({"transaction": None} if op == "r" else {})
    unwatched = row(**system_columns, source={**reported, "table": "x"})
    assert (row(**system_columns, source=reported)["detail"], unwatched["detail"], unwatched["table"]) == (
        expected,
        expected,
        None,
    )


def test_the_halves_of_a_key_change_are_a_row_that_counts_and_an_update_of_the_old_key() -> None:
    run = {"__debezium.context.runId": "01a1"}
    gone = row(op="d", before={**AFTER, "discount": ""}, after=None, headers={**run, NEW_KEY: '{"code":"P2"}'})
    come = row(after={**AFTER, "code": "P2"}, headers={**run, OLD_KEY: '{"code":"P1"}'})
    assert (gone["kind"], gone["op"], gone["headers"]) == ("row", "K", {NEW_KEY: '{"code":"P2"}'})
    assert (come["kind"], come["op"], come["headers"]) == ("row", "U", {OLD_KEY: '{"code":"P1"}'})
    assert decode(ROWS, None, headers={NEW_KEY: '{"code":"P2"}'})[0]["kind"] == "tombstone"


def test_a_key_header_may_have_its_schema_around_it() -> None:
    assert row(headers={OLD_KEY: json.dumps(wrapped({"code": "P1"}))})["op"] == "U"


@pytest.mark.parametrize("headers", [None, {}, {OLD_KEY: '{"id":1}', NEW_KEY: '{"id":2}'}])
def test_without_headers_that_name_the_key_delete_and_insert_stay_what_they_are(headers: Any) -> None:
    assert row(headers=headers)["op"] == "I"
    assert row(headers=headers, op="d", before=AFTER, after=None)["op"] == "D"


def test_a_header_that_names_part_of_the_key_only_is_no_key_change() -> None:
    use = {"source": {"table": "promo_uses"}, "after": {"code": "P1", "order_id": 2}}
    assert row(**use, headers={OLD_KEY: '{"code":"P1"}'})["op"] == "I"
    assert row(**use, headers={OLD_KEY: '{"ORDER_ID":1,"CODE":"P1"}'})["op"] == "U"


def test_a_key_header_that_cannot_be_read_is_poison() -> None:
    expected = ("poison", HEADER, "__debezium.oldkey is no JSON object: 'Struct{code=P1}'")
    assert poison(row(headers={OLD_KEY: "Struct{code=P1}"})) == expected


@pytest.mark.parametrize("op", ["c", "r"])
def test_an_insert_without_a_value_that_did_not_change_is_poison(op: str) -> None:
    event = row(op=op, after={**AFTER, "discount": LEFT_OUT})
    assert poison(event) == ("poison", NOT_GIVEN, f"discount is {LEFT_OUT}")


def test_the_value_may_be_missing_where_the_old_key_is_known_or_nobody_watches_it() -> None:
    after = {**AFTER, "discount": LEFT_OUT}
    assert row(after=after, headers={OLD_KEY: '{"code":"P0"}'})["op"] == "U"
    assert row(after=after, op="u")["op"] == "U"
    assert row(after={**AFTER, "picture": LEFT_OUT})["op"] == "I"
    assert row(after={**AFTER, "discount": f"{LEFT_OUT}s"})["op"] == "I"


@pytest.mark.parametrize(
    ("changed", "cause", "detail"),
    [
        ({"transaction": None}, rejections.NO_TRANSACTION, "no transaction id: set provide.transaction.metadata=true"),
        ({"transaction": {"total_order": 1}}, rejections.NO_TRANSACTION, "no transaction id: set provide."),
        ({"transaction": {"id": "571", "total_order": 1}}, SHAPE, "transaction id '571'"),
        ({"transaction": {"id": "776:1"}}, rejections.NO_POSITION, "total_order is None"),
        (
            {"transaction": {"id": f"1:{2**63}", "total_order": 1}},
            rejections.NO_CSN,
            "'1:9223372036854775808' has no commit",
        ),
        (
            {"source": {"lsn": None}},
            rejections.NO_POSITION,
            "`source` of connector postgresql does not say its position",
        ),
        ({"source": {"lsn": None}, "op": "r", "transaction": None}, rejections.NO_POSITION, "`source` of connector"),
        ({"source": {"connector": "db2"}}, SHAPE, "connector 'db2' with transaction id '776'"),
        ({"source": {"connector": "mysql"}}, SHAPE, "connector 'mysql' with transaction id '776'"),
        ({"source": {"table": None}}, rejections.NO_TABLE, "the message's `source` names no table"),
        ({"source": {"table": "audit_log"}, "op": "x"}, rejections.OPERATION, "op is 'x'"),
        ({"op": None}, rejections.OPERATION, "the message has no `op`: it is flattened, or not Debezium's"),
        ({"after": None}, rejections.NO_IMAGE, "operation I without `after`"),
        ({"op": "d"}, rejections.NO_IMAGE, "operation D without `before`"),
        ({"after": {"code": None}}, rejections.NO_KEY, "code is null"),
        ({"after": {"discount": "1"}}, rejections.NO_KEY, "code is missing"),
        ({"after": {"code": LEFT_OUT}, "op": "u"}, rejections.NO_KEY, "code is not sent"),
        ({"before": [1], "op": "u"}, rejections.BROKEN, "`before` is no object"),
        ({"after": "x"}, rejections.BROKEN, "`after` is no object"),
        ({"after": 7, "op": "t"}, rejections.BROKEN, "`after` is no object"),
    ],
)
def test_a_row_that_cannot_be_placed_is_poison_with_its_cause(changed: dict[str, Any], cause: str, detail: str) -> None:
    event = row(**changed)
    assert poison(event)[:2] == ("poison", cause)
    assert event["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", rejections.EMPTY),
        (b'{"op":"c","after":{"co', rejections.BROKEN),
        (b'{"op": "\xff"}', rejections.ENCODING),
        (b'{"op":"c"}\x00', rejections.NUL),
        (b"[1, 2]", rejections.NOT_AN_OBJECT),
        (b'{"op":"c"}{"op":"c"}', rejections.SEVERAL),
        (b'{"op":"c","source":7}', rejections.BROKEN),
        (b'{"schema":null,"payload":7}', rejections.BROKEN),
        (b'{"op":"c","transaction":{"id":' + b"9" * 5000 + b"}}", rejections.BROKEN),
    ],
)
def test_what_is_no_message_is_poison_and_keeps_what_came(value: bytes, cause: str) -> None:
    (event,) = decode(ROWS, value)
    assert (event["kind"], event["cause"]) == ("poison", cause)
    assert event["value"] == value.decode("utf-8", "backslashreplace")


def test_a_message_in_its_schema_means_what_it_means_alone() -> None:
    (event,) = decode(ROWS, wrapped(message()))
    assert {**event, "value": None} == {**row(), "value": None}
    (end,) = decode(TOPIC, wrapped({"status": "END", "id": "1:7", "event_count": 0, "data_collections": []}))
    assert (end["kind"], end["csn"], end["expected"]) == ("metadata", 7, {})


@pytest.mark.parametrize("value", [None, b"null", b'{"schema":null,"payload":null}'])
def test_a_tombstone_is_neither_an_event_nor_poison(value: bytes | None) -> None:
    assert [events["kind"] for events in decode(ROWS, value)] == ["tombstone"]


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        ("__debezium-heartbeat.dev", {"ts_ms": 1795230201662}),
        ("__debezium-heartbeat.dev", {"ts_ms": 1795230201662, "of": "another version"}),
        ("heart.beats.by.another.name", {"ts_ms": 1795230201662}),
        ("dev.message", {"op": "m", "message": {"prefix": "p", "content": "aGk="}, "source": SOURCE}),
        ("dev", {"source": SOURCE, "databaseName": "shop", "ddl": "ALTER TABLE orders ...", "tableChanges": []}),
        ("dev.notifications", {"id": "1", "aggregate_type": "Initial Snapshot", "type": "STARTED"}),
        (TOPIC, {"status": "BEGIN", "id": "776:1", "event_count": None, "data_collections": None, "ts_ms": 2**60}),
    ],
)
def test_messages_of_other_kinds_are_markers(topic: str, value: dict[str, Any]) -> None:
    assert [events["kind"] for events in decode(topic, value, wrapped(value))] == ["marker", "marker"]


def test_a_flattened_row_is_no_marker() -> None:
    assert decode(ROWS, {"code": "P1", "discount": "1"})[0]["cause"] == rejections.OPERATION


def end(**changed: Any) -> dict[str, Any]:
    counts = changed.pop("counts", [("public.orders", 2), ("public.audit_log", 3), ("public.promo_codes", 1)])
    collections = [{"data_collection": name, "event_count": number} for name, number in counts]
    fields = {"status": "END", "id": "776:31369312", "ts_ms": 1795230201314, "event_count": 6, **changed}
    (event,) = decode(TOPIC, {"data_collections": collections, **fields})
    return event


def test_end_counts_watched_tables_by_their_full_names() -> None:
    event = end(counts=[("archive.orders", 1), ("orders", 1), ("Public.Orders", "3")])
    assert (event["kind"], event["expected"], event["event_count"]) == ("metadata", {"orders": 3}, 6)
    assert event["committed_at"].isoformat() == "2026-11-21T03:03:21.314000+00:00"


@pytest.mark.parametrize("collections", [None, []])
def test_the_end_of_an_empty_transaction_expects_nothing(collections: list[Any] | None) -> None:
    event = end(event_count=0, data_collections=collections)
    assert (event["kind"], event["expected"], event["event_count"]) == ("metadata", {}, 0)


def test_an_end_that_counts_less_after_a_restart_is_passed_on_as_it_is() -> None:
    first, second = (end(counts=[("public.orders", count)], event_count=count) for count in (7002, 6861))
    assert [each["expected"] for each in (first, second)] == [{"orders": 7002}, {"orders": 6861}]
    assert first["transaction_id"] == second["transaction_id"]


@pytest.mark.parametrize(
    ("changed", "cause", "detail"),
    [
        ({"status": "ABORT"}, rejections.NO_METADATA, "status is 'ABORT'"),
        ({"status": None}, rejections.NO_METADATA, "status is None"),
        ({"id": None}, rejections.NO_TRANSACTION, "no transaction id: set provide.transaction.metadata=true"),
        ({"id": "1462833718356672513"}, SHAPE, "transaction id '1462833718356672513'"),
        ({"counts": [("public.orders", -1)]}, rejections.COUNTS, "public.orders has -1 events"),
        ({"counts": [("public.orders", None)]}, rejections.COUNTS, "public.orders has None events"),
    ],
)
def test_an_end_that_cannot_be_read_is_poison(changed: dict[str, Any], cause: str, detail: str) -> None:
    assert poison(end(**changed)) == ("poison", cause, detail)


def test_an_unwatched_table_is_a_row_without_a_declared_name() -> None:
    event = row(source={"table": "audit_log"}, after={"id": 1})
    assert (event["kind"], event["table"], event["source_table"]) == ("row", None, "public.audit_log")


def test_an_unknown_table_is_poison_where_the_ignored_ones_are_named() -> None:
    listed = [message(source={"table": table}) for table in ("promo_codes", "audit_log", "surprise")]
    events = decode(ROWS, *listed, ignored=["PUBLIC.AUDIT_LOG"])
    assert [each["kind"] for each in events] == ["row", "row", "poison"]
    assert poison(events[2])[1:] == (rejections.UNKNOWN_TABLE, "public.surprise is neither watched nor ignored")


def test_names_of_columns_and_tables_are_read_in_any_case() -> None:
    event = row(source={"schema": "PUBLIC", "table": "Promo_Codes"}, after={"Code": "P1"})
    assert (event["table"], event["identity"]) == ("promo_codes", '31368536:PUBLIC.Promo_Codes:c:["P1"]')


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=20))
def test_any_bytes_come_out_as_one_row_each(values: list[bytes | None]) -> None:
    for topic in (ROWS, TOPIC, "__debezium-heartbeat.dev"):
        events = decode(topic, *values)
        assert [each["ordinal"] for each in events] == list(range(len(values)))


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.just({}), st.just([]))


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys([*message(), "status", "id", "event_count", "payload"], SCALARS))
)
def test_no_message_is_too_odd_to_come_out_as_one_row(odd: dict[str, Any]) -> None:
    for value in (odd, {**message(), **odd}, message(source=odd), message(transaction=odd), wrapped(odd)):
        kinds = [decode(topic, value)[0]["kind"] for topic in (ROWS, TOPIC)]
        assert set(kinds) <= {"row", "poison", "marker", "tombstone", "metadata"}


def test_every_cause_of_its_own_has_a_hint() -> None:
    assert {SHAPE, NOT_GIVEN, HEADER} == set(HINTS)
    assert not set(HINTS) & set(rejections.HINTS)
