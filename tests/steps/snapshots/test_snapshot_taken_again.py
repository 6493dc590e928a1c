"""A real connector loses its slot, and takes its snapshot again: what was deleted meanwhile is in no message."""

import json
from pathlib import Path
from typing import Any

import pytest

from cycles.test_live_debezium import DECLARED, assert_equal, caught_up, in_database, in_lake
from lake import Lake
from services.connect import Connect
from services.process import wait_until
from steps.snapshots.test_request_snapshot import SETTINGS, create_topics
from txloom.config import load
from txloom.events.debezium.messages import Source, read_row
from txloom.events.debezium.positions import is_where_streaming_begins
from txloom.quality import findings as f
from txloom.storage.checks import findings
from txloom.storage.paths import TablePaths

pytestmark = pytest.mark.stream
SCHEMA = """
    CREATE TABLE orders (id bigint PRIMARY KEY, note text, amount numeric(20,4), at timestamptz, day date, large text);
    CREATE TABLE lines (order_id bigint, line int, item text, qty numeric(38,10), PRIMARY KEY (order_id, line));
    CREATE TABLE log (entry text, at timestamptz);
    CREATE TABLE emptied (id bigint PRIMARY KEY, note text);
    ALTER TABLE lines REPLICA IDENTITY FULL;
    ALTER TABLE log REPLICA IDENTITY FULL;
    INSERT INTO orders SELECT n, 'was there', n, now(), '1969-12-31', NULL FROM generate_series(1, 300) n;
    INSERT INTO lines SELECT n, 1, 'item', n / 3.0 FROM generate_series(1, 300) n;
    INSERT INTO log SELECT 'same', '2026-01-01' FROM generate_series(1, 5) n;
    INSERT INTO emptied VALUES (1, 'a'), (2, 'b');
"""
MORE = """
  - {name: log, source: public.log, key: none, columns: {entry: string, at: timestamptz}}
  - {name: emptied, source: public.emptied, key: [id], columns: {id: long, note: string}}
targets:"""
MEANWHILE = """
    DELETE FROM orders WHERE id % 3 = 0;
    UPDATE orders SET note = 'changed' WHERE id % 3 = 1;
    UPDATE orders SET id = id + 5000 WHERE id = 2;
    INSERT INTO orders (id, note) SELECT n, 'new' FROM generate_series(1001, 1100) n;
    TRUNCATE lines;
    INSERT INTO lines SELECT n, 2, 'again', n FROM generate_series(1, 40) n;
    DELETE FROM log WHERE ctid IN (SELECT ctid FROM log LIMIT 2);
    DELETE FROM emptied;
"""
KEYS = {"orders": 1, "lines": 2, "emptied": 1}


@pytest.fixture
def lake(connect: Connect, spark: Any, tmp_path: Path) -> Lake:
    """Return a lake of a database that Debezium streams, with tables that have a key, none, and no row later."""
    connect.postgres.fresh_database(connect.database, SCHEMA)
    create_topics(connect.broker)
    about = {**SETTINGS, "signal.kafka.bootstrap.servers": connect.broker.address, "read.only": "true"}
    connect.start(connector={**about, "snapshot.mode": "when_needed"})
    wait_until(lambda: connect.place, "the end of the snapshot")
    connect.postgres.psql("UPDATE orders SET note = 'first' WHERE id = 1", connect.database)
    wait_until(lambda: "dev.transaction" in connect.broker.topics(), "the first transaction")
    file, declared = tmp_path / "live.yaml", DECLARED.format(brokers=connect.broker.address)
    topics = "dev.public.lines, dev.public.log, dev.public.emptied]"
    file.write_text(declared.replace("dev.public.lines]", topics).replace("\ntargets:", MORE))
    return Lake(spark, tmp_path, load(file))


def shown(lake: Lake) -> dict[str, Any]:
    there: dict[str, Any] = {table: in_lake(lake, table, key) for table, key in KEYS.items() if table != "emptied"}
    return there | {"log": sorted(row["entry"] for row in lake.rows("log"))}


def there(connect: Connect) -> dict[str, Any]:
    tables: dict[str, Any] = {t: in_database(connect, t, key) for t, key in KEYS.items() if t != "emptied"}
    return tables | {"log": sorted(connect.postgres.psql("SELECT entry FROM log", connect.database).split())}


@pytest.mark.long
def test_tables_equal_the_database_after_a_lost_slot_and_every_cut_is_a_state_of_it(
    connect: Connect, lake: Lake
) -> None:
    caught_up(connect, lake, 9_000_001)
    assert_equal(connect, lake)
    before = there(connect)
    assert shown(lake) == before and len(in_lake(lake, "emptied", 1)) == 2
    connect.kill()
    slot = f"pg_replication_slots WHERE slot_name = '{connect.slot}'"
    wait_until(lambda: connect.postgres.psql(f"SELECT count(*) FROM {slot} AND active") == "0", "the slot to be free")
    connect.postgres.psql(f"SELECT pg_drop_replication_slot(slot_name) FROM {slot}")
    connect.postgres.psql(MEANWHILE, connect.database)
    after = there(connect)
    lake.run()
    assert shown(lake) == before
    connect.start()
    wait_until(lambda: runs_into(lake, before, after), "the snapshot", within=180)
    paths = TablePaths(lake.warehouse, "live")
    (finding,) = findings.open_findings(paths)
    assert (finding["code"], finding["table"]) == (f.READ_AGAIN, "emptied")
    assert len(in_lake(lake, "emptied", 1)) == 2, "the connector says nothing of a table without rows"
    connect.postgres.psql("INSERT INTO emptied VALUES (3, 'c'); DELETE FROM orders WHERE id = 1100", connect.database)
    caught_up(connect, lake, 9_000_002)
    assert shown(lake) == there(connect)
    assert lake.query("dead_letters", "select cause, detail from t") == []
    assert {is_where_streaming_begins(each) for each in snapshot_rows(connect, "dev.public.orders")} == {True}
    blocking(connect, "public.orders", "dev.public.orders", "id < 100")
    caught_up(connect, lake, 9_000_003)
    assert shown(lake) == there(connect), "a snapshot of some rows takes none away"
    assert {is_where_streaming_begins(each) for each in snapshot_rows(connect, "dev.public.orders")} == {True, False}
    assert [each["table"] for each in findings.open_findings(paths)] == ["emptied", "orders"]
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))


def runs_into(lake: Lake, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Run a cycle, which shows the state before or the state after, and nothing else; return whether it is after."""
    lake.run()
    now = shown(lake)
    assert now in (before, after)
    return now == after


def blocking(connect: Connect, name: str, topic: str, some: str) -> None:
    """Let the connector pause its stream and read some rows of a table."""
    before = len(snapshot_rows(connect, topic))
    data = {"type": "BLOCKING", "data-collections": [name]}
    data |= {"additional-conditions": [{"data-collection": name, "filter": f"SELECT * FROM {name} WHERE {some}"}]}  # type: ignore[dict-item]
    signal = {"id": "some", "type": "execute-snapshot", "data": data}
    connect.broker.produce("live-signals", [("dev", json.dumps(signal))])
    wait_until(lambda: len(snapshot_rows(connect, topic)) > before, "the rows that were asked for")


def snapshot_rows(connect: Connect, topic: str) -> list[Source]:
    """Return what the rows of snapshots in a topic say of their source."""
    messages = [read_row(record.value)[0] for record in connect.broker.read(topic) if record.value]
    return [each.source for each in messages if each is not None and each.op == "r" and each.source is not None]
