"""The audit of a lake beside a live MariaDB, and a live MySQL, that Debezium streams.

Every planted difference is named, and nothing else.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from services.connect import MysqlConnect
from services.mariadb import NUMBERS
from services.process import wait_until
from steps.audit.audited_lake import AuditedLake
from txloom.config import load
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

ROWS = 3_000
LOWEST = -(2**63)
SCHEMA = """
    create table orders (id bigint primary key, note varchar(40), amount decimal(20,4), at timestamp(6) null,
        made datetime(6), second datetime, day date not null, weight double, single float, ok boolean, bits bit(11),
        raw varbinary(9), fixed binary(4), doc json, code char(4), at_time time(6), kind enum('a', 'ü'),
        big bigint unsigned, old text character set latin1);
    create table `lines` (place varchar(20) collate utf8mb4_general_ci, line int, qty decimal(38,10),
        primary key (place, line));
    create table notes (name varchar(30) character set latin1 primary key, text longtext);
    create table visits (id int primary key);
    create table elsewhere (id int primary key);
"""
FIRST = f"""
    insert into `lines` select concat('Läge ', seq % 40), seq, seq / 3 from {NUMBERS.format(most=200)};
    insert into notes values ('ä', 'x'), ('Z', 'y'), ('a b', null);
"""
LOADED = f"""
    insert into orders select seq, concat('ž', seq), seq / 3, '2026-03-29 00:59:59.5' + interval seq second,
        '1969-12-31 23:59:59.999999', '2020-01-01', '1969-12-31', seq / 7e0, seq / 7e0, seq % 2 = 0, seq % 2048,
        x'00ff', x'61', '{{"a": 1.0}}', 'ab  ', '23:59:59.5', 'ü', 9007199254740993 + seq, 'fünf'
        from {NUMBERS.format(most=ROWS)};
    insert into orders (id, note, day) values ({LOWEST}, 'lowest', '1000-01-01')
"""
DECLARED = """
name: shop
source:
  format: debezium
  kafka: {{brokers: '{brokers}', topics: [dev.shop.orders, dev.shop.lines, dev.shop.notes, dev.shop.visits]}}
  transaction_topic: dev.transaction
completeness: {{rule: counts, patience: 2h}}
tables:
  - name: orders
    source: shop.orders
    key: [id]
    columns: {{id: long, note: string, amount: 'decimal(20,4)', at: timestamptz, made: timestamp, second: timestamp,
               day: date, weight: double, single: float, ok: boolean, bits: int, raw: binary, fixed: binary, doc: json,
               code: string, at_time: time, kind: string, big: 'decimal(20,0)', old: string}}
  - name: lines
    source: SHOP.LINES
    key: [place, line]
    columns: {{place: string, line: int, qty: 'decimal(38,10)'}}
  - {{name: notes, source: shop.notes, key: [name], columns: {{name: string, text: string}}}}
  - {{name: visits, source: shop.visits, key: [id], columns: {{id: int}}}}
targets: {{mirrors: ["*"]}}
audit: {{connection: shop_db, wait: 1s}}
"""


class Shop(AuditedLake):
    """A lake of a database that Debezium streams."""

    def __init__(self, spark: Any, folder: Path, connect: MysqlConnect) -> None:
        self.connect, self.visits = connect, 0
        (folder / "shop.yaml").write_text(DECLARED.format(brokers=connect.broker.address))
        super().__init__(spark, folder, load(folder / "shop.yaml"))

    @property
    def is_mariadb(self) -> bool:
        return self.connect.server.name == "mariadb"

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.connect.server.sql(text, self.connect.database)

    def unseen(self, text: str) -> None:
        """Change the source without its binlog: the connector never hears of it."""
        self.sql(f"set sql_log_bin = 0; {text}")

    def elsewhere(self) -> None:
        """Change a table that the pipeline has not declared."""
        self.sql("insert into elsewhere select coalesce(max(id), 0) + 1 from elsewhere")

    def caught_up(self) -> None:
        """Run until the last transaction is shown."""
        self.visits += 1
        self.sql(f"insert into visits values ({self.visits})")

        def shows() -> bool:
            self.run()
            return any(row["id"] == self.visits for row in self.rows("visits"))

        wait_until(shows, "the last transaction", within=180)

    def differences(self, table: str) -> dict[tuple[Any, ...], tuple[Any, Any]]:
        """Return what differs: by key, kind and column the values of the lake and of the source."""
        listed = self.results()[table]["differences"]
        return {(*dict(d["key"]).values(), d["kind"], d["column"]): (d["lake"], d["source"]) for d in listed}


def connection(connect: MysqlConnect, **more: Any) -> str:
    server = connect.server
    about = {"conn_type": "mysql", "host": server.host, "port": server.port, "login": "root", "schema": "shop"}
    return json.dumps(about | more)


@pytest.fixture(scope="module")
def streamed(mysql_connect: MysqlConnect) -> MysqlConnect:
    """Return a connector that streams; the database's first rows come with its snapshot, the others in the stream."""
    mysql_connect.server.fresh_database("shop", SCHEMA + FIRST)
    mysql_connect.start(worker={"value.converter.schemas.enable": "true"}, connector={"tombstones.on.delete": "false"})
    mysql_connect.server.sql(f"{LOADED}; insert into visits values (0)", "shop")
    topics = {"dev.shop.visits", "dev.transaction"}
    wait_until(lambda: topics <= set(mysql_connect.broker.topics()), "the first transactions")
    return mysql_connect


@pytest.fixture
def shop(spark: Any, streamed: MysqlConnect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", connection(streamed))
    made = Shop(spark, tmp_path, streamed)
    made.visits = made.sql("select max(id) from visits")[0][0]
    made.caught_up()
    assert made.query("dead_letters", "select cause, detail from t limit 1") == []
    yield made
    made.sql(f"truncate orders; truncate `lines`; truncate notes; {FIRST} {LOADED}")


def findings(shop: Shop) -> list[str]:
    return sorted(row["table"] for row in open_findings(TablePaths(shop.warehouse, "shop")))


@pytest.mark.stream
def test_a_lake_that_equals_the_source_is_equal_and_each_planted_difference_is_named(shop: Shop) -> None:
    counts = shop.audit()
    rows = {name: shop.sql(f"select count(*) from `{name}`")[0][0] for name in ("orders", "lines", "notes", "visits")}
    assert (counts["tables"], counts["rows"], counts["differing"]) == (4, sum(rows.values()), 0)
    assert {name: (row["verdict"], row["rows"]) for name, row in shop.results().items()} == {
        name: ("equal", count) for name, count in rows.items()
    }
    assert counts["source_rows"] == counts["rows"], "digests alone were read"
    assert findings(shop) == []

    orders, lines = DeltaTable(shop.path("orders")), DeltaTable(shop.path("lines"))
    planted = {
        (7, "note", "'other'"): ("other", "ž7"),
        (8, "note", "null"): (None, "ž8"),
        (9, "amount", "3.0001"): ("3.0001", "3.0000"),
        (10, "weight", "1.4285714285714288"): ("1.4285714285714288", "1.4285714285714286"),
        (11, "ok", "true"): ("t", "f"),
        (12, "day", "date '1970-01-01'"): ("1970-01-01", "1969-12-31"),
        (13, "made", "timestamp '1970-01-01 00:00:00'"): ("1970-01-01 00:00:00", "1969-12-31 23:59:59.999999"),
        (14, "code", "'ab  '"): ("ab  ", "ab"),
        (15, "raw", "X'00fe'"): ("00fe", "00ff"),
        (16, "doc", "'{}'"): ("{}", '{"a": 1.0}' if shop.is_mariadb else '{"a":1}'),
        (17, "at_time", "'23:59:59'"): ("23:59:59", "23:59:59.5"),
        (18, "bits", "0"): ("0", "18"),
        (19, "fixed", "X'61'"): ("61", "61000000"),
        (20, "kind", "'a'"): ("a", "ü"),
        (21, "big", "9007199254740992"): ("9007199254740992", "9007199254741014"),
        (22, "old", "'funf'"): ("funf", "fünf"),
        (23, "single", "3.25"): ("3.25", "3.2857144"),
        (24, "at", "timestamp '2026-03-29T00:00:00Z'"): (
            "2026-03-29 00:00:00+00:00",
            "2026-03-29 01:00:23.500000+00:00",
        ),
        (ROWS, "note", "''"): ("", f"ž{ROWS}"),
        (LOWEST, "note", "'low'"): ("low", "lowest"),
    }
    for key, column, value in planted:
        orders.update(predicate=f"id = {key}", updates={column: value})
    orders.delete("id in (1, 30)")
    lines.delete("place = 'Läge 3' and line = 83")
    shop.unseen("delete from `lines` where line = 84; delete from orders where id = 31")
    shop.unseen("update orders set id = 90000 where id = 32; update notes set name = 'Ä' where name = 'ä'")
    expected = {(str(key), "changed", column): both for (key, column, _), both in planted.items()}
    nothing = (None, None)
    expected |= {("1", "missing", None): nothing, ("30", "missing", None): nothing, ("31", "extra", None): nothing}
    expected |= {("32", "extra", None): nothing, ("90000", "missing", None): nothing}
    shop.caught_up()
    counts = shop.audit()
    assert shop.differences("orders") == expected
    assert shop.differences("lines") == {
        ("Läge 3", "83", "missing", None): nothing,
        ("Läge 4", "84", "extra", None): nothing,
    }
    assert shop.differences("notes") == {("ä", "extra", None): nothing, ("Ä", "missing", None): nothing}
    assert counts["differing"] == len(expected) + 4
    assert {row["verdict"] for name, row in shop.results().items() if name != "visits"} == {"different"}
    assert findings(shop) == ["lines", "notes", "orders"]
    shop.elsewhere()
    assert shop.audit()["differing"] == len(expected) + 4, "what other tables get is nothing to wait for"
    shop.sql("update orders set note = 'late' where id in (40, 41)")
    counts = shop.audit(tables=["orders"])
    assert (counts["differing"], counts["behind"]) == (0, len(expected) + 2)


@pytest.mark.long
@pytest.mark.stream
def test_nothing_is_reported_while_the_source_is_written_to(shop: Shop) -> None:
    done = threading.Event()

    def write(seed: int) -> None:
        chance = Random(seed)
        with closing(shop.connect.server.connection("shop")) as opened, opened.cursor() as cursor:
            while not done.is_set():
                key = chance.randint(1, ROWS // 2) * 2 - seed
                cursor.execute("begin")
                cursor.execute(
                    f"update orders set note = concat(left(note, 20), 'x'), amount = amount + 1 where id = {key}"
                )
                cursor.execute(f"delete from orders where id = {key + 2}")
                cursor.execute(f"update orders set id = {10_000 + chance.randint(1, 10**9)} where id = {key + 4}")
                cursor.execute("rollback" if chance.random() < 0.1 else "commit")
                time.sleep(0.01)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (0, 1)]
    for writer in writers:
        writer.start()
    try:
        with shop.cycles():
            seen = [shop.audit(wait=timedelta(seconds=120)) for _ in range(3)]
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert [(each["differing"], each["behind"]) for each in seen] == [(0, 0)] * 3
    assert findings(shop) == []
    shop.caught_up()
    assert shop.audit()["differing"] == 0
    assert {row["verdict"] for row in shop.results().values()} == {"equal"}


@pytest.mark.long
@pytest.mark.stream
def test_a_user_who_reads_only_is_enough_and_without_the_binlog_a_quiet_source_is_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = "reader@'127.0.0.1'"
    server, others = shop.connect.server, [] if shop.is_mariadb else ["replication client"]
    server.sql(f"drop user if exists {reader}; create user {reader} identified by 'A 1'")
    for right in ("select on shop.*", *(f"{other} on *.*" for other in others)):
        server.sql(f"grant {right} to {reader}")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", connection(shop.connect, login="reader", password="A 1"))
    assert shop.audit()["differing"] == 0
    DeltaTable(shop.path("visits")).update(predicate="id = 0", updates={"id": "-1"})
    shop.caught_up()
    counts = shop.audit(tables=["visits"])
    assert (counts["differing"], counts["behind"]) == (0, 2)
    server.sql(f"grant {'binlog monitor' if shop.is_mariadb else 'replication slave'} on *.* to {reader}")
    counts = shop.audit(tables=["visits"])
    assert (counts["differing"], counts["behind"]) == (2, 0)
    assert shop.differences("visits").keys() == {("-1", "extra", None), ("0", "missing", None)}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", connection(shop.connect, login="reader", password="wrong"))
    with pytest.raises(SourceUnavailable, match="no connection to the database: Access denied for user 'reader'"):
        shop.audit()


@pytest.mark.long
@pytest.mark.stream
def test_what_cannot_be_compared_is_named(shop: Shop) -> None:
    shop.sql("alter table visits engine = MyISAM")
    with pytest.raises(ConfigurationError, match=r"visits: shop.visits is of engine MyISAM, which has no snapshots"):
        shop.audit(tables=["visits"])
    shop.sql("alter table visits engine = InnoDB")
    shop.sql("alter table `lines` rename column qty to quantity")
    with pytest.raises(ConfigurationError, match=r"lines: SHOP.LINES has no column qty in the database"):
        shop.audit(tables=["lines"])
    shop.sql("alter table `lines` rename column quantity to qty; rename table notes to elsewhere_notes")
    with pytest.raises(ConfigurationError, match=r"notes: expected one table shop.notes in the database, found none"):
        shop.audit(tables=["notes"])
    shop.sql("rename table elsewhere_notes to notes; alter table orders modify weight float")
    with pytest.raises(ConfigurationError, match=r"orders.weight: the column in the database is FLOAT.* declare float"):
        shop.audit(tables=["orders"])
    shop.sql("alter table orders modify weight double")


@pytest.mark.long
@pytest.mark.stream
@pytest.mark.parametrize("server", ["mysql"], indirect=True)
def test_a_quiet_source_with_a_compressed_binlog_is_not_waited_for(shop: Shop) -> None:
    shop.sql("set global binlog_transaction_compression = on")
    statements = [
        f"insert into visits values ({number}); update orders set note = {text} where id = {number // 2}"
        for number, text in enumerate(["'a'", "'b'", "'a'", "'b'", "null"] * 2, 701)
    ]
    try:
        shop.sql(f"begin; {'; '.join(statements)}; update orders set note = 'x' where id < 20; commit")
        shop.caught_up()
        assert shop.audit()["differing"] == 0
        assert {row["verdict"] for row in shop.results().values()} == {"equal"}
        DeltaTable(shop.path("visits")).update(predicate="id = 0", updates={"id": "-1"})
        shop.caught_up()
        counts = shop.audit(tables=["visits"])
        assert (counts["differing"], counts["behind"]) == (2, 0)
        shop.elsewhere()
        counts = shop.audit(tables=["visits"])
        assert (counts["differing"], counts["behind"]) == (0, 2), "what is compressed may be anything"
    finally:
        shop.sql("set global binlog_transaction_compression = off")
