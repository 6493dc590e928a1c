"""Facts of each format that careless readers get wrong are in what is generated."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from generate.replay import lines, topics
from generate.running import generated, json_lines
from txloom.config import find
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.images.reader import ImageReader

PIPELINE = find("orders")
METADATA = "dev.transaction_metadata_json"
BUSY = ("--transactions", 300, "--share-of", "deletes=0.15,key-changes=0.15,truncates=0.01,empty=0.03")


@pytest.fixture(scope="module")
def goldengate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(tmp_path_factory.mktemp("goldengate"), "--format", "goldengate", *BUSY)


@pytest.fixture(scope="module")
def wal2json(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = generated(tmp_path_factory.mktemp("wal2json"), "--format", "wal2json", *BUSY)
    return [json.loads(line, parse_float=str) for line in lines(folder, "wal2json")]


@pytest.fixture(scope="module")
def debezium(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = generated(tmp_path_factory.mktemp("debezium"), "--format", "debezium", *BUSY)
    records = [json.loads(line) for topic in topics(folder) for line in lines(folder, topic)]
    return [each | {"value": None if each["value"] is None else json.loads(each["value"])} for each in records]


def test_goldengate_decodes_without_poison(goldengate: Path) -> None:
    counted: Counter[str] = Counter()
    for topic in topics(goldengate):
        table = GoldenGateDecoder(PIPELINE.tables, METADATA).decode(topic, lines(goldengate, topic))
        counted.update(table.column("kind").to_pylist())
        names = {topic.split(".")[2]} if topic != METADATA else set()
        assert set(table.column("table").to_pylist()) == ({None} if names <= {"audit_log"} else names)
    assert counted == {"row": counted["row"], "metadata": 300} and counted["row"] > 1000


def test_goldengate_images_are_read_as_declared(goldengate: Path) -> None:
    unchanged: Counter[str] = Counter()
    for table in PIPELINE.tables:
        read = ImageReader(table).read(lines(goldengate, f"dev.public.{table.name}.json"))
        assert set(read.column("problem").to_pylist()) == {None}
        assert not any(read.column("absent").to_pylist()) and not any(read.column("undeclared").to_pylist())
        unchanged.update(name for names in read.column("unchanged").to_pylist() for name in names or ())
    assert unchanged.keys() == {"address", "remark", "body"}


def test_goldengate_looks_as_its_manual_says(goldengate: Path) -> None:
    rows = [json.loads(line) for line in lines(goldengate, "dev.public.orders.json")]
    update = next(row for row in rows if row["op_type"] == "U")
    common = ["table", "op_type", "op_ts", "current_ts", "pos", "csn", "xid", "primary_keys"]
    assert list(update) == [*common, "before", "after"]
    assert (update["table"], len(update["pos"]), update["primary_keys"]) == ("PUBLIC.ORDERS", 20, ["ORDER_ID"])
    assert update["op_ts"][10] == " " and update["current_ts"][10] == "T"
    assert {tuple(row["before"]) for row in rows if "before" in row} == {("ORDER_ID",)}
    assert {tuple(row)[8:] for row in rows} == {("after",), ("before", "after"), ("before",)}
    items = [json.loads(line) for line in lines(goldengate, "dev.public.order_line_items.json")]
    assert all(len(row["before"]) == 9 for row in items if "before" in row)


def test_goldengate_metadata_count_what_nobody_watches_too(goldengate: Path) -> None:
    metadata = json_lines(goldengate / METADATA / "00000000.jsonl")
    names = {part["data_collection"] for each in metadata for part in each["data_collections"]}
    assert names == {*(table.name.upper() for table in PIPELINE.tables), "AUDIT_LOG"}
    assert any(each["event_count"] == 0 and each["data_collections"] == [] for each in metadata)
    assert all(isinstance(each["csn"], str) for each in metadata)


def test_goldengate_can_be_written_as_records(tmp_path: Path, goldengate: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--layout", "records", *BUSY)
    for topic in topics(goldengate):
        records = [json.loads(line) for line in lines(folder, topic)]
        assert [record["value"].encode() for record in records] == lines(goldengate, topic)
        assert topic != METADATA or {record["partition"] for record in records} == {0}


def test_wal2json_rows_share_positions_and_numbers_have_all_their_digits(wal2json: list[dict[str, Any]]) -> None:
    rows = [row for row in wal2json if row["action"] in "IUDT"]
    assert {row["action"] for row in rows} == set("IUDT")
    shared = Counter((row["xid"], row["lsn"]) for row in rows)
    assert max(shared.values()) > 2
    amounts = [
        column["value"]
        for row in rows
        for column in row.get("columns", ())
        if column["type"] == "numeric(20,4)" and column["value"] is not None
    ]
    assert {len(str(amount).partition(".")[2]) for amount in amounts} == {4}
    booleans = {column["value"] for row in rows for column in row.get("columns", ()) if column["type"] == "boolean"}
    assert booleans == {True, False, None}


def test_wal2json_updates_have_the_old_identity_only_and_leave_out_large_values(wal2json: list[dict[str, Any]]) -> None:
    absent: Counter[str] = Counter()
    for row in wal2json:
        if row["action"] in ("U", "D"):
            named = "pk" if row["table"] != "order_line_items" else "columns" if "columns" in row else "identity"
            identity = [column["name"] for column in row["identity"]]
            assert {column["name"] for column in row[named]} <= set(identity) and len(identity) in (1, 2, 9)
        if row["action"] == "U":
            table = PIPELINE.table(row["table"])
            absent.update(set(table.column_names) - {column["name"] for column in row["columns"]})
    assert absent.keys() == {"address", "remark", "body"}


def test_debezium_ids_differ_between_begin_rows_and_end(debezium: list[dict[str, Any]]) -> None:
    ids = defaultdict(set)
    for record in debezium:
        value = record["value"]
        if value is not None:
            message_id = value["id"] if "status" in value else value["transaction"]["id"]
            ids[message_id.partition(":")[0]].add(message_id)
    assert len(ids) == 300 and sum(len(message_id) > 2 for message_id in ids.values()) > 150


def test_debezium_begin_names_the_first_row_and_end_what_is_behind_all(debezium: list[dict[str, Any]]) -> None:
    lsns = defaultdict(list)
    for value in (record["value"] for record in debezium if record["value"] is not None):
        if "op" in value:
            lsns[value["transaction"]["id"].partition(":")[0]].append(value["source"]["lsn"])
    marks = [each["value"] for each in debezium if each["topic"] == "dev.transaction"]
    assert [mark["status"] for mark in marks] == ["BEGIN", "END"] * 300
    for mark in marks:
        xid, _, lsn = mark["id"].partition(":")
        if xid in lsns:
            assert int(lsn) == min(lsns[xid]) if mark["status"] == "BEGIN" else int(lsn) > max(lsns[xid])


def test_debezium_key_changes_are_a_delete_a_tombstone_and_an_insert(debezium: list[dict[str, Any]]) -> None:
    by_partition = defaultdict(list)
    for record in debezium:
        by_partition[record["topic"], record["partition"]].append(record)
    moved = 0
    for records in by_partition.values():
        for record, following in pairwise(records):
            headers = dict(record["headers"])
            if record["value"] is not None and record["value"].get("op") == "d":
                assert following["value"] is None and following["key"] == record["key"]
            if "__debezium.newkey" in headers:
                moved += 1
                assert record["value"]["op"] == "d"
    renamed = [record for record in debezium if "__debezium.oldkey" in dict(record["headers"])]
    assert moved == len(renamed) > 50 and {record["value"]["op"] for record in renamed} == {"c"}
    ends = [each["value"] for each in debezium if each["value"] and each["value"].get("status") == "END"]
    rows = sum(record["value"] is not None and "op" in record["value"] for record in debezium)
    assert sum(end["event_count"] for end in ends) == rows
    assert any(end["event_count"] == 0 and end["data_collections"] == [] for end in ends)


def test_debezium_invents_what_the_log_does_not_have(debezium: list[dict[str, Any]]) -> None:
    deleted = [each["value"] for each in debezium if each["value"] and each["value"].get("op") == "d"]
    orders = [value["before"] for value in deleted if value["source"]["table"] == "orders"]
    assert orders and {(row["order_ref"], row["order_date"], row["total_amount"]) for row in orders} == {
        ("", 0, "0.0000")
    }
    assert {len(value["before"]) for value in deleted if value["source"]["table"] == "order_line_items"} == {9}
    text = json.dumps([each["value"] for each in debezium])
    assert "__debezium_unavailable_value" in text
    remarks = [
        each["value"]["after"]["remark"]
        for each in debezium
        if each["topic"].endswith("line_items") and each["value"] and each["value"]["after"]
    ]
    assert "__debezium_unavailable_value" not in remarks


def test_debezium_values_leave_tombstones_and_headers_out(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "debezium", "--layout", "values", *BUSY)
    values = [json.loads(line) for topic in topics(folder) for line in lines(folder, topic)]
    assert all(value.keys() >= {"op", "transaction"} or "status" in value for value in values)
    assert {value.get("op") for value in values} == {None, "c", "u", "d", "t"}


def test_change_events_name_old_keys_and_differ_in_their_columns(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "change_events", *BUSY)
    events = [json.loads(line) for topic in topics(folder) for line in lines(folder, topic)]
    assert {event["changeType"] for event in events} == {"insert", "INSERT", "update", "Update", "delete", "DELETE"}
    assert all((event["oldKeyNames"] is None) == (event["changeType"].lower() == "insert") for event in events)
    details = {
        len(event["columnNames"])
        for event in events
        if event["columnNames"] and event["table"] == "public.order_details"
    }
    assert details == {8, 9}
    assert len({event["timestamp"] for event in events}) == len(events)


def test_change_sets_tell_null_and_empty_apart(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "change_sets", *BUSY)
    text = (folder / "public.orders" / "00000000.csv").read_text()
    assert text.startswith("FLAG,order_id,order_ref,")
    assert ',"",2026-' in text and ",,2026-" in text
    flags = {line.partition(",")[0] for line in text.split("\n")[1:]}
    assert {"I", "U", "D"} <= flags
