"""Debezium messages of each database: how a transaction is named, and where its rows and its commit lie in the log."""

import json
import re
from typing import Any

import pytest

from txloom.config import identity as identities
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events import rejections
from txloom.events.debezium.decoder import DebeziumDecoder
from txloom.events.debezium.messages import SHAPE
from txloom.events.debezium.positions import packed_lsn

GTID = "36090175-6f51-11e6-9a0f-080027ab29a2:37"
MYSQL = {"connector": "mysql", "db": "shop", "table": "customers", "file": "mysql-bin.000003", "pos": 1310, "row": 0}
MARIADB = {**MYSQL, "connector": "mariadb"}
ORACLE = {
    "connector": "oracle",
    "db": "ORCLPDB1",
    "schema": "SHOP",
    "table": "CUSTOMERS",
    "scn": "2122184",
    "commit_scn": "2122186",
    "rs_id": " 0x00000a.0000c2d3.0010 ",
    "ssn": 0,
    "ts_ms": 1000,
    "commit_ts_ms": 2000,
}
SQLSERVER = {
    "connector": "sqlserver",
    "db": "testDB",
    "schema": "dbo",
    "table": "customers",
    "change_lsn": "00000025:00000d98:0002",
    "commit_lsn": "00000025:00000d98:00a2",
    "event_serial_no": 1,
}
COMMIT_LSN = 0x25 << 40 | 0xD98 << 16 | 0xA2


def decoder(source: str) -> DebeziumDecoder:
    columns = tuple(Column(name=name, type=parse(kind)) for name, kind in (("id", "long"), ("name", "string")))
    return DebeziumDecoder([Table(name="customers", source=source, columns=columns, key=("id",))], "dev.transaction")


def row(source: dict[str, Any], transaction: Any, declared: str = "", **changed: Any) -> dict[str, Any]:
    declared = declared or f"{source.get('schema', 'shop')}.customers"
    block = transaction and {"id": transaction, "total_order": "1", "data_collection_order": "1"}
    message = {"before": None, "after": {"ID": 1, "NAME": "Ann"}, "op": "c", "source": source, "transaction": block}
    (event,) = decoder(declared).decode("dev.rows", [json.dumps({**message, **changed}).encode()]).to_pylist()
    return dict(event)


def end(transaction: str, collection: str, declared: str = "shop.customers") -> dict[str, Any]:
    collections = [{"data_collection": collection, "event_count": 2}]
    message = {"status": "END", "id": transaction, "event_count": 2, "data_collections": collections}
    events = decoder(declared).decode("dev.transaction", [json.dumps(message).encode()])
    return dict(events.to_pylist(maps_as_pydicts="strict")[0])


@pytest.mark.parametrize(
    ("source", "transaction", "of_row", "of_end"),
    [
        (MYSQL, "file=mysql-bin.000003,pos=1234", 3 * 2**40 + 1234, 3 * 2**40 + 1234),
        (MYSQL, GTID, 3 * 2**40 + 1310, None),
        (MYSQL, GTID.replace(":", ":batch:"), 3 * 2**40 + 1310, None),
        (MARIADB, "0-1-37", 3 * 2**40 + 1310, None),
        (ORACLE, "5.6.641", 2122186, None),
        (ORACLE, "02000a0037030000", 2122186, None),
        (ORACLE, "0x0002.00a.00000337", 2122186, None),
        (SQLSERVER, "00000025:00000d98:00a2", COMMIT_LSN, COMMIT_LSN),
    ],
)
def test_rows_and_end_share_the_whole_id_and_tell_the_commit_position_where_they_know_it(
    source: dict[str, Any], transaction: str, of_row: int, of_end: int | None
) -> None:
    event, metadata = row(source, transaction), end(transaction, "shop.customers")
    assert event["transaction_id"] == event["xid"] == metadata["transaction_id"] == transaction
    assert (event["csn"], metadata["csn"]) == (of_row, of_end)


@pytest.mark.parametrize(
    ("source", "transaction", "identity"),
    [
        (ORACLE, "5.6.641", "2122184: 0x00000a.0000c2d3.0010 :0:SHOP.CUSTOMERS:c:[1]"),
        (SQLSERVER, "00000025:00000d98:00a2", "00000025:00000d98:0002:1:dbo.customers:c:[1]"),
    ],
)
def test_a_row_is_known_by_its_place_in_the_log(source: dict[str, Any], transaction: str, identity: str) -> None:
    assert row(source, transaction)["identity"] == identity


def test_a_row_of_a_binlog_is_known_by_its_place_and_by_what_it_says() -> None:
    """Rows of a transaction that MySQL compressed have one place; in a redelivery each says what it said."""
    place = "mysql-bin.000003:1310:0:shop.customers:c:[1]/"
    one, again, other = (row(MYSQL, GTID, after={"ID": 1, "NAME": name})["identity"] for name in ("a", "a", "b"))
    assert one == again != other
    assert one[: len(place)] == other[: len(place)] == place
    assert re.sub(identities.BY_CONTENT, "", one) == place[:-1], "as older versions wrote it"


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (MYSQL, {"row": 1}),
        (MYSQL, {"pos": 1311}),
        (ORACLE, {"ssn": 1}),
        (ORACLE, {"rs_id": " 0x00000a.0000c2d3.0011 "}),
        (ORACLE, {"lcr_position": "0000"}),
        (SQLSERVER, {"event_serial_no": 2}),
        (SQLSERVER, {"change_lsn": "00000025:00000d98:0003"}),
    ],
)
def test_another_place_is_another_row(source: dict[str, Any], changed: dict[str, Any]) -> None:
    transaction = {"mysql": GTID, "oracle": "5.6.641", "sqlserver": "00000025:00000d98:00a2"}[source["connector"]]
    assert row({**source, **changed}, transaction)["identity"] != row(source, transaction)["identity"]


@pytest.mark.parametrize(
    ("source", "alone", "csn"),
    [
        (MYSQL, "r:mysql-bin.000003:1310:0:shop.customers:[1]", 3 * 2**40 + 1310),
        ({**ORACLE, "commit_scn": None}, "r:2122184: 0x00000a.0000c2d3.0010 :0:SHOP.CUSTOMERS:[1]", 2122184),
        (
            {**SQLSERVER, "change_lsn": None, "event_serial_no": None},
            "r:00000025:00000d98:00a2:dbo.customers:[1]",
            COMMIT_LSN,
        ),
    ],
)
def test_a_row_of_a_snapshot_lies_where_the_snapshot_was_taken(source: dict[str, Any], alone: str, csn: int) -> None:
    event = row(source, None, op="r")
    assert (event["transaction_id"], event["csn"], event["pos"]) == (alone, csn, 0)


def test_mysql_commits_a_truncate_by_itself_and_counts_it_nowhere() -> None:
    event = row(MYSQL, None, op="t", after=None)
    assert event["transaction_id"].startswith("t:mysql-bin.000003:1310:0:shop.customers:")
    assert (event["csn"], event["op"], event["expected"]) == (3 * 2**40 + 1310, "T", [("customers", 1)])
    assert row(SQLSERVER, None, op="t", after=None)["cause"] == rejections.NO_TRANSACTION


def test_mariadb_names_a_truncate_by_its_gtid_but_never_ends_it() -> None:
    """As Debezium 3.5 sends it: BEGIN 0-1-16, the truncate, BEGIN 0-1-17."""
    event, alone = row(MYSQL, "0-1-16", op="t", after=None), row(MYSQL, None, op="t", after=None)
    assert {**event, "pos": 0, "value": None} == {**alone, "value": None}


@pytest.mark.parametrize(
    ("transaction", "collection", "declared", "counted"),
    [
        ("5.6.641", "ORCLPDB1.SHOP.CUSTOMERS", "SHOP.CUSTOMERS", {"customers": 2}),
        ("5.6.641", "ORCLPDB1.SHOP.CUSTOMERS", "ORCLPDB1.SHOP.CUSTOMERS", {"customers": 2}),
        ("5.6.641", "ORCLPDB2.SHOP.CUSTOMERS", "ORCLPDB1.SHOP.CUSTOMERS", {}),
        ("00000025:00000d98:00a2", "testDB.dbo.customers", "dbo.customers", {"customers": 2}),
        ("00000025:00000d98:00a2", "testDB.archive.customers", "dbo.customers", {}),
        ("5.6.641", "CUSTOMERS", "SHOP.CUSTOMERS", {}),
        (GTID, "shop.customers", "shop.customers", {"customers": 2}),
        (GTID, "old.customers", "shop.customers", {}),
        ("768:31361536", "db.shop.customers", "shop.customers", {}),
    ],
)
def test_oracle_and_sql_server_count_with_the_database_in_front(
    transaction: str, collection: str, declared: str, counted: dict[str, int]
) -> None:
    assert end(transaction, collection, declared)["expected"] == counted


@pytest.mark.parametrize(
    ("source", "declared", "name"),
    [
        (ORACLE, "shop.customers", "customers"),
        (ORACLE, "orclpdb1.shop.customers", "customers"),
        (ORACLE, "orclpdb2.shop.customers", None),
        (MYSQL, "shop.customers", "customers"),
        (MYSQL, "other.customers", None),
    ],
)
def test_rows_are_told_apart_as_their_counts_are(source: dict[str, Any], declared: str, name: str | None) -> None:
    event = row(source, GTID if source is MYSQL else "5.6.641", declared)
    assert (event["table"], event["source_table"]) == (name, f"{source.get('schema', 'shop')}.{source['table']}")


@pytest.mark.parametrize(
    ("message", "fits"),
    [
        ("007fffff:00ffffff:ffff", True),
        ("00800000:00000000:0000", False),
        ("00000000:01000000:0000", False),
        ("25:d98:a2", False),
    ],
)
def test_a_commit_lsn_of_sql_server_is_packed_in_order_or_refused(message: str, fits: bool) -> None:
    assert (packed_lsn(message) is not None) is fits


def test_packed_lsns_keep_their_order() -> None:
    lsns = ["00000024:00ffffff:ffff", "00000025:00000001:ffff", "00000025:00000002:0000", "007fffff:00ffffff:ffff"]
    assert sorted(lsns, key=lambda lsn: packed_lsn(lsn) or 0) == lsns
    assert packed_lsn(lsns[-1]) == 2**63 - 1


@pytest.mark.parametrize(
    ("source", "transaction", "cause", "detail"),
    [
        (
            SQLSERVER,
            "00800000:00000d98:00a2",
            rejections.NO_CSN,
            "'00800000:00000d98:00a2' has no commit position of at",
        ),
        (
            MYSQL,
            "file=mysql-bin.000003,pos=1099511627776",
            rejections.NO_CSN,
            "'file=mysql-bin.000003,pos=1099511627776'",
        ),
        (
            MYSQL,
            "file=binlog,pos=4",
            rejections.NO_CSN,
            "'file=binlog,pos=4' has no commit position of at most 63 bits",
        ),
        (
            {**MYSQL, "pos": None},
            GTID,
            rejections.NO_POSITION,
            "`source` of connector mysql does not say its position",
        ),
        ({**ORACLE, "commit_scn": None}, "5.6.641", rejections.NO_CSN, "`source.commit_scn` is None: no commit"),
        (ORACLE, GTID, SHAPE, f"connector 'oracle' with transaction id '{GTID}'"),
        (
            {"connector": "mongodb", "db": "a", "table": "b"},
            "5.6.641",
            SHAPE,
            "connector 'mongodb' with transaction id",
        ),
        (MYSQL, '[{"keyspace":"a"}]', SHAPE, 'transaction id \'[{"keyspace":"a"}]\''),
    ],
)
def test_a_position_that_nobody_knows_is_poison_with_its_cause(
    source: dict[str, Any], transaction: str, cause: str, detail: str
) -> None:
    event = row(source, transaction)
    assert (event["kind"], event["cause"]) == ("poison", cause)
    assert event["detail"].startswith(detail)


def test_oracle_tells_when_a_change_was_committed() -> None:
    assert row(ORACLE, "5.6.641")["committed_at"].isoformat() == "1970-01-01T00:00:02+00:00"
