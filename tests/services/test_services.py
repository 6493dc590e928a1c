"""The components are real: what a test does to them has the effect that it would have elsewhere."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from services.broker import Broker
from services.connect import Connect
from services.postgres import Postgres
from services.process import ServiceFailed, wait_until

SCHEMA = """
    CREATE TABLE accounts (id bigint PRIMARY KEY, owner text, balance numeric(20,4));
    CREATE TABLE postings (id bigint PRIMARY KEY, amount numeric(20,4));
    INSERT INTO accounts VALUES (1, 'Ada', 10), (2, 'Bob', 20);
"""
ROWS = 30_000
"""Enough of them in one transaction that a worker can be killed in the middle of it."""


@pytest.fixture(scope="module")
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that may be killed, because nothing else needs it."""
    with Broker(tmp_path_factory.mktemp("own")) as started:
        yield started


class TestBroker:
    def test_what_is_produced_is_read_as_it_was(self, broker: Broker) -> None:
        broker.create_topic("read", partitions=2)
        sent = [("k", "v", {"h": b"1"}, 1), (None, b"\x00", None, 0), ("k", None, None, 1)]
        assert broker.produce("read", sent) == [(1, 0), (0, 0), (1, 1)]
        assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in broker.read("read")] == [
            (0, 0, None, b"\x00", ()),
            (1, 0, b"k", b"v", (("h", b"1"),)),
            (1, 1, b"k", None, ()),
        ]

    def test_a_topic_made_again_under_its_name_is_another(self, broker: Broker) -> None:
        first = broker.create_topic("again")
        broker.produce("again", [("k", "old")])
        broker.delete_topic("again")
        assert "again" not in broker.topics()
        assert broker.create_topic("again") != first
        assert broker.read("again") == []

    def test_deleted_records_are_gone_and_the_others_keep_their_offsets(self, broker: Broker) -> None:
        broker.create_topic("aged")
        broker.produce("aged", [("k", str(number)) for number in range(10)])
        broker.delete_records("aged", 0, before_offset=7)
        assert broker.offsets("aged") == [(7, 10)]
        assert [record.offset for record in broker.read("aged")] == [7, 8, 9]

    def test_added_partitions_take_messages(self, broker: Broker) -> None:
        topic = broker.create_topic("grown")
        broker.produce("grown", [("k", "before")])
        broker.add_partitions("grown", 3)
        broker.produce("grown", [("k", "after", None, 2)])
        assert broker.offsets("grown") == [(0, 1), (0, 0), (0, 1)]
        assert broker.topic_id("grown") == topic

    def test_a_setting_reaches_the_topic(self, broker: Broker) -> None:
        broker.create_topic("small", max_message_bytes=100)
        with pytest.raises(ServiceFailed, match=r"1 messages were not written to small: .*too large"):
            broker.produce("small", [("k", "x" * 200)])

    def test_reading_makes_no_topic(self, broker: Broker) -> None:
        assert broker.read("nowhere") == []
        assert "nowhere" not in broker.topics()

    def test_an_aborted_transaction_is_read_only_by_who_asks_for_it(self, broker: Broker) -> None:
        broker.create_topic("aborted")
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "aborting", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("aborted", value="never was")
        producer.flush()
        producer.abort_transaction(30)
        broker.produce("aborted", [(None, "was")])
        assert [record.value for record in broker.read("aborted")] == [b"was"]
        assert [record.value for record in broker.read("aborted", committed=False)] == [b"never was", b"was"]

    def test_a_paused_broker_answers_nothing_until_it_goes_on(self, broker: Broker) -> None:
        client = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        broker.pause()
        with socket.create_connection(("127.0.0.1", broker.port), 5), pytest.raises(KafkaException):
            client.list_topics(timeout=1)
        broker.resume()
        assert client.list_topics(timeout=30).brokers

    @pytest.mark.long
    def test_a_killed_broker_comes_back_with_what_it_had(self, broker: Broker) -> None:
        topic = broker.create_topic("kept")
        broker.produce("kept", [("k", "v")])
        address, pid = broker.address, broker.pid
        broker.kill()
        assert broker.pid is None
        broker.start()
        assert broker.pid not in (None, pid)
        assert (broker.address, broker.topic_id("kept")) == (address, topic)
        assert [record.value for record in broker.read("kept")] == [b"v"]

    def test_a_start_that_fails_shows_the_end_of_the_log(self, tmp_path: Path) -> None:
        broker = Broker(tmp_path)
        with socket.create_server(("127.0.0.1", broker.port)), pytest.raises(ServiceFailed) as failed:
            broker.start()
        first, _, log = str(failed.value).partition("\n")
        assert first.startswith("broker: broker ended with exit code 1 before it ")
        assert first.endswith(f"; the end of {tmp_path}/broker.log:")
        assert "Address already in use" in log
        assert broker.pid is None


class TestPostgres:
    def test_a_fresh_database_holds_what_its_schema_says(self, postgres: Postgres, tmp_path: Path) -> None:
        schema = tmp_path / "schema.sql"
        schema.write_text(SCHEMA)
        for _ in range(2):
            postgres.fresh_database("fresh", schema)
            assert postgres.psql("SELECT * FROM accounts ORDER BY id", "fresh") == "1\tAda\t10.0000\n2\tBob\t20.0000"
            postgres.psql("DELETE FROM accounts; SELECT pg_create_logical_replication_slot('s', 'pgoutput')", "fresh")

    @pytest.mark.usefixtures("postgres")
    def test_a_killed_server_recovers_what_was_committed(self, tmp_path: Path) -> None:
        with Postgres(tmp_path) as postgres:
            postgres.fresh_database("recovered", SCHEMA)
            postgres.psql("UPDATE accounts SET balance = 11 WHERE id = 1", "recovered")
            postgres.kill()
            postgres.start()
            assert postgres.psql("SELECT balance FROM accounts WHERE id = 1", "recovered") == "11.0000"
            assert "automatic recovery in progress" in postgres.log.read_text()

    def test_wrong_sql_is_an_error(self, postgres: Postgres) -> None:
        with pytest.raises(ServiceFailed, match='relation "nothing" does not exist'):
            postgres.psql("SELECT * FROM nothing")

    def test_wal2json_decodes_a_change(self, postgres: Postgres, wal2json: str) -> None:
        postgres.fresh_database("decoded", SCHEMA)
        postgres.psql(f"SELECT pg_create_logical_replication_slot('decoded', '{wal2json}')", "decoded")
        postgres.psql("DELETE FROM accounts WHERE id = 2", "decoded")
        changes = "SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL, 'format-version', '2')"
        lines = [json.loads(line) for line in postgres.psql(changes, "decoded").splitlines()]
        assert [(line["action"], line.get("table")) for line in lines] == [("B", None), ("D", "accounts"), ("C", None)]


def values(broker: Broker, topic: str) -> list[dict[str, Any] | None]:
    """Return the messages of a topic as documents, tombstones as None."""
    return [json.loads(record.value) if record.value else None for record in broker.read(topic)]


def ends(broker: Broker) -> dict[str, dict[str, Any]]:
    """Return the END messages by transaction."""
    heard = (message for message in values(broker, "dev.transaction") if message and message["status"] == "END")
    return {message["id"].split(":")[0]: message for message in heard}


@pytest.fixture(scope="module")
def shop(connect: Connect) -> Connect:
    """Debezium streaming the shop in small batches, past its snapshot."""
    connect.postgres.fresh_database("shop", SCHEMA)
    connect.start(connector={"max.batch.size": "256"})
    wait_until(lambda: connect.place, "the end of the snapshot")
    return connect


class TestConnect:
    def test_the_rows_that_were_there_come_first(self, shop: Connect) -> None:
        first = values(shop.broker, "dev.public.accounts")[:2]
        assert [(message["op"], message["after"]["owner"]) for message in first if message] == [
            ("r", "Ada"),
            ("r", "Bob"),
        ]

    def test_a_transaction_comes_row_by_row_between_its_begin_and_its_end(self, shop: Connect) -> None:
        txid = shop.postgres.psql(
            """BEGIN;
               INSERT INTO accounts VALUES (3, 'Cyd', 12345678901234.5000);
               UPDATE accounts SET balance = balance + 1 WHERE id = 3;
               DELETE FROM accounts WHERE id = 3;
               SELECT txid_current();
               COMMIT;""",
            "shop",
        )
        wait_until(lambda: txid in ends(shop.broker), "the transaction's END")
        status = [m for m in values(shop.broker, "dev.transaction") if m and m["id"].startswith(f"{txid}:")]
        assert [(message["status"], message["event_count"]) for message in status] == [("BEGIN", None), ("END", 3)]
        assert status[1]["data_collections"] == [{"data_collection": "public.accounts", "event_count": 3}]
        records = [record for record in shop.broker.read("dev.public.accounts") if record.key == b'{"id":3}']
        rows = [json.loads(record.value) for record in records if record.value]
        assert [row["op"] for row in rows] == ["c", "u", "d"]
        assert [row["transaction"]["total_order"] for row in rows] == [1, 2, 3]
        assert [row["after"] and row["after"]["balance"] for row in rows] == [
            "12345678901234.5000",
            "12345678901235.5000",
            None,
        ]
        assert records[-1].value is None
        assert "__debezium.context.runId" in dict(records[0].headers)

    @pytest.mark.long
    def test_a_truncate_comes_too(self, shop: Connect) -> None:
        shop.postgres.psql("INSERT INTO postings VALUES (-1, 0); TRUNCATE postings", "shop")
        topic = "dev.public.postings"
        wait_until(lambda: "t" in [message["op"] for message in values(shop.broker, topic) if message], "the truncate")

    @pytest.mark.long
    def test_a_worker_killed_inside_a_transaction_delivers_all_its_rows_after_its_restart(self, shop: Connect) -> None:
        topic, pid = "dev.public.postings", shop.pid

        def written() -> int:
            return sum(following for _, following in shop.broker.offsets(topic))

        before = written()
        insert = f"INSERT INTO postings SELECT n, n / 10.0 FROM generate_series(1, {ROWS}) n"
        txid = shop.postgres.psql(f"BEGIN; {insert}; SELECT txid_current(); COMMIT", "shop")
        wait_until(lambda: written() > before + 1000, "the first rows")
        shop.kill()
        landed = written() - before
        assert 1000 < landed < ROWS
        assert txid not in ends(shop.broker)
        shop.start()
        assert shop.pid not in (None, pid)
        wait_until(lambda: txid in ends(shop.broker), "the transaction's END", within=120)
        assert ends(shop.broker)[txid]["event_count"] == ROWS

        def missing() -> set[int]:
            heard = (message["after"] for message in values(shop.broker, topic) if message)
            return set(range(1, ROWS + 1)) - {row["id"] for row in heard if row}

        wait_until(lambda: not missing(), "rows that came after the END, over their own topic")

    def test_the_status_tells_of_one_task_that_runs(self, shop: Connect) -> None:
        assert [task["state"] for task in shop.status()["tasks"]] == ["RUNNING"]

    def test_a_connector_that_cannot_start_says_why(self, connect: Connect, tmp_path: Path) -> None:
        other = Connect(tmp_path, connect.broker, connect.postgres, database="nowhere")
        with pytest.raises(ServiceFailed, match='database "nowhere" does not exist'):
            other.start()
        assert other.pid is None
