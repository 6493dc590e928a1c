"""PostgreSQL, Debezium and Kafka as they are: tables equal the database, also after a worker died in a transaction."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from lake import Lake
from services.connect import Connect
from services.process import wait_until
from steps.audit.audited_lake import AuditedLake
from txloom.config import load
from txloom.quality import findings as f
from txloom.storage.checks import findings
from txloom.storage.paths import TablePaths

pytestmark = pytest.mark.stream
SCHEMA = """
    CREATE TABLE orders (id bigint PRIMARY KEY, note text, amount numeric(20,4), at timestamptz, day date, large text);
    CREATE TABLE lines (order_id bigint, line int, item text, qty numeric(38,10), PRIMARY KEY (order_id, line));
    ALTER TABLE lines REPLICA IDENTITY FULL;
    INSERT INTO orders SELECT n, 'was there', n, now(), '1969-12-31', NULL FROM generate_series(1, 20) n;
    INSERT INTO lines SELECT n, 1, 'item', n / 3.0 FROM generate_series(1, 20) n;
"""
DECLARED = """
name: live
source:
  format: debezium
  kafka: {{brokers: '{brokers}', topics: [dev.public.orders, dev.public.lines]}}
  transaction_topic: dev.transaction
completeness: {{rule: counts, patience: 2h}}
tables:
  - name: orders
    source: public.orders
    key: [id]
    columns: {{id: long, note: string, amount: 'decimal(20,4)', at: timestamptz, day: date, large: string}}
  - name: lines
    source: public.lines
    key: [order_id, line]
    columns: {{order_id: long, line: int, item: string, qty: 'decimal(38,10)'}}
targets:
  mirrors: ["*"]
"""
ODD = """
    CREATE TABLE odd (id int PRIMARY KEY, free numeric, scaled numeric(10,2), wide float8, small float4);
    INSERT INTO odd VALUES (1, 'NaN', 'NaN', 'NaN', 'NaN'), (2, 'Infinity', 1.50, 'Infinity', '-Infinity');
"""
MORE_ODD = "INSERT INTO odd VALUES (3, '-Infinity', 0, '-Infinity', 0.1), (4, 'NaN', 2, 1e20, 'NaN')"
DECLARED_ODD = """
name: live
source:
  format: debezium
  kafka: {{brokers: '{brokers}', topics: [dev.public.odd]}}
  transaction_topic: dev.transaction
completeness: {{rule: counts, patience: 2h}}
tables:
  - name: odd
    source: public.odd
    key: [id]
    columns: {{id: int, free: string, scaled: string, wide: string, small: string}}
targets: {{mirrors: [odd]}}
audit: {{connection: live_db, wait: 1s}}
"""
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)"
MANY = 4_000


def load_of(chance: Random, keys: list[int], transactions: int = 40) -> str:
    """Write random transactions over orders that are there, some of them rolled back."""
    log = list[str]()
    for _ in range(transactions):
        log.append("BEGIN;")
        kept, local_keys = list(keys), list(keys)
        for _ in range(chance.randint(1, 6)):
            key = chance.choice(local_keys) if local_keys else None
            kind = chance.choice("IIIUUUUDKL")
            if kind == "I" or key is None:
                new = max([500, *local_keys, *keys]) + chance.randint(1, 3)
                local_keys.append(new)
                values = f"{new}, {chance.choice(['NULL', repr('Ünï<b>')])}, {chance.randint(-9999, 9999)}.0001"
                day = chance.choice(["1906-01-01", "2100-02-28"])
                log.append(f"INSERT INTO orders VALUES ({values}, now(), '{day}', {chance.choice([LARGE, 'NULL'])});")
                log.append(f"INSERT INTO lines VALUES ({new}, 1, 'a', 0.0000000001), ({new}, 2, 'b', 1e27);")
            elif kind == "U":
                log.append(f"UPDATE orders SET note = note || 'x', amount = amount * -1 WHERE id = {key};")
            elif kind == "D":
                log.append(f"DELETE FROM lines WHERE order_id = {key}; DELETE FROM orders WHERE id = {key};")
                local_keys.remove(key)
            elif kind == "K":
                new = max([500, *local_keys, *keys]) + 1
                log.append(f"UPDATE orders SET id = {new} WHERE id = {key};")
                log.append(f"UPDATE lines SET order_id = {new} WHERE order_id = {key};")
                local_keys[local_keys.index(key)] = new
            else:
                log.append(f"UPDATE lines SET item = 'changed', line = line + 10 WHERE order_id = {key};")
        done = chance.random() < 0.85
        log.append("COMMIT;" if done else "ROLLBACK;")
        keys = local_keys if done else kept
    return "\n".join(log)


def in_database(connect: Connect, table: str, key: int) -> dict[Any, dict[str, Any]]:
    rows = connect.postgres.psql(f"SELECT row_to_json(t) FROM {table} t", connect.database).splitlines()
    rows_there = [json.loads(row, parse_float=Decimal) for row in rows]
    return {tuple(row.values())[:key]: {name: as_text(value) for name, value in row.items()} for row in rows_there}


def in_lake(lake: Lake, table: str, key: int) -> dict[Any, dict[str, Any]]:
    rows = [{name: v for name, v in row.items() if not name.startswith("_txloom")} for row in lake.rows(table)]
    return {tuple(row.values())[:key]: {name: as_text(value) for name, value in row.items()} for row in rows}


def as_text(value: Any) -> Any:
    """Write numbers, days and instants in one way."""
    if isinstance(value, int | Decimal):
        return format(Decimal(value).normalize(), "f")
    if isinstance(value, datetime):
        return value.astimezone().timestamp()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and value[10:11] == "T":
        return datetime.fromisoformat(value).timestamp()
    return value


def assert_equal(connect: Connect, lake: Lake) -> None:
    for table, key in (("orders", 1), ("lines", 2)):
        assert in_lake(lake, table, key) == in_database(connect, table, key)


@pytest.fixture
def live(connect: Connect, spark: Any, tmp_path: Path) -> Iterator[Lake]:
    """Yield a lake of a database that Debezium streams; its stream ends with the test."""
    connect.postgres.fresh_database(connect.database, SCHEMA)
    connect.start(connector={"max.batch.size": "256"})
    wait_until(lambda: connect.place, "the end of the snapshot")
    connect.postgres.psql("UPDATE orders SET note = 'first' WHERE id = 1", connect.database)
    wait_until(lambda: "dev.transaction" in connect.broker.topics(), "the first transaction")
    file = tmp_path / "live.yaml"
    file.write_text(DECLARED.format(brokers=connect.broker.address))
    yield Lake(spark, tmp_path, load(file))
    connect.forget()


def caught_up(connect: Connect, lake: Lake, mark: int) -> None:
    """Run until the last transaction is shown."""
    connect.postgres.psql(f"INSERT INTO orders (id, note) VALUES ({mark}, 'last')", connect.database)

    def shows() -> bool:
        lake.run()
        return any(row["id"] == mark for row in lake.rows("orders"))

    wait_until(shows, "the last transaction", within=180)
    lake.run()


@pytest.mark.long
def test_tables_equal_the_database_through_a_load_and_a_worker_that_is_killed(connect: Connect, live: Lake) -> None:
    chance = Random(20261121)
    connect.postgres.psql(load_of(chance, list(range(1, 21))), connect.database)
    caught_up(connect, live, 1_000_000)
    assert_equal(connect, live)

    many = f"INSERT INTO lines SELECT -1, n, 'many', n FROM generate_series(1, {MANY}) n;"
    change, before = "UPDATE orders SET note = 'with many' WHERE id = 1000000;", written(connect)
    connect.postgres.psql(f"BEGIN; {many} {change} COMMIT", connect.database)
    wait_until(lambda: written(connect) > before + 300, "the first rows")
    connect.restart()
    connect.postgres.psql(load_of(chance, [2_000_000]), connect.database)
    caught_up(connect, live, 9_000_000)
    assert_equal(connect, live)
    assert live.query("dead_letters", "select cause, detail from t") == []
    assert all(line["balanced"] for line in live.query("ledger", "select balanced from t where step = 'balance'"))

    connect.postgres.psql("TRUNCATE lines; INSERT INTO lines VALUES (7, 7, 'after', 7)", connect.database)
    caught_up(connect, live, 9_900_000)
    assert_equal(connect, live)


def written(connect: Connect) -> int:
    return sum(following for _, following in connect.broker.offsets("dev.public.lines"))


NEW_NAMES = {"remark": "note", "place": "line"}
"""Columns that the database renames: a value, and a part of a key."""


@pytest.mark.long
def test_columns_that_the_database_renames_keep_their_values(connect: Connect, live: Lake) -> None:
    """A declaration has the new name of a key before rows do, and of a value when a finding asks for it."""
    file = live.folder / "live.yaml"
    file.write_text(file.read_text().replace("line: int", "line: {type: int, source: place, source_aliases: [line]}"))
    live.pipeline = load(file)
    caught_up(connect, live, 1_000_000)
    renames = "ALTER TABLE orders RENAME COLUMN note TO remark; ALTER TABLE lines RENAME COLUMN line TO place;"
    changes = "UPDATE orders SET remark = remark || '!' WHERE id < 9; DELETE FROM orders WHERE id = 3;"
    changes += "UPDATE lines SET place = place + 1, item = 'moved' WHERE order_id < 5;"
    connect.postgres.psql(renames + changes, connect.database)
    connect.postgres.psql("INSERT INTO orders (id, remark) VALUES (2000000, 'last')", connect.database)

    def shows() -> bool:
        live.run()
        return any(row["id"] == 2_000_000 for row in live.rows("orders"))

    wait_until(shows, "the last transaction", within=180)
    live.run()
    assert {row["note"] for row in live.rows("orders")} == {None}
    paths = TablePaths(live.warehouse, "live")
    assert (f.RENAMED, "note") in {(row["code"], row["column"]) for row in findings.open_findings(paths)}
    file.write_text(
        file.read_text().replace("note: string", "note: {type: string, source: remark, source_aliases: [note]}")
    )
    live.pipeline = load(file)
    live.run()
    for table, key in (("orders", 1), ("lines", 2)):
        there = in_database(connect, table, key)
        expected = {each: {NEW_NAMES.get(name, name): v for name, v in row.items()} for each, row in there.items()}
        assert in_lake(live, table, key) == expected
    assert findings.open_findings(paths) == []


@pytest.mark.long
def test_numbers_that_are_no_numbers_are_audited_as_the_connector_sends_them(
    connect: Connect, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = connect.postgres
    postgres.fresh_database(connect.database, ODD)
    about = {"conn_type": "postgres", "host": postgres.host, "port": postgres.port, "login": postgres.user}
    monkeypatch.setenv("AIRFLOW_CONN_LIVE_DB", json.dumps({**about, "schema": connect.database}))
    connect.start()
    try:
        wait_until(lambda: connect.place, "the end of the snapshot")
        postgres.psql(MORE_ODD, connect.database)
        wait_until(lambda: "dev.transaction" in connect.broker.topics(), "the first transaction")
        file = tmp_path / "live.yaml"
        file.write_text(DECLARED_ODD.format(brokers=connect.broker.address))
        lake = AuditedLake(spark, tmp_path, load(file, connected=False))

        def shows(rows: int) -> bool:
            lake.run()
            return len(lake.rows("odd")) == rows

        wait_until(lambda: shows(4), "all rows", within=180)
        lake.audit()
        (row,) = lake.results().values()
        assert (row["verdict"], row["rows"], row["differing"]) == ("equal", 4, 0)
        DeltaTable(lake.path("odd")).update(updates={"free": "'Infinity'"}, predicate="id = 1")
        postgres.psql("INSERT INTO odd (id) VALUES (5)", connect.database)
        wait_until(lambda: shows(5), "the last row", within=180)
        lake.audit()
        assert (lake.results()["odd"]["verdict"], lake.results()["odd"]["differing"]) == ("different", 1)
    finally:
        connect.forget()
