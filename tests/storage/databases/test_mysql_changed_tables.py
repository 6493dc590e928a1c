"""A MySQL or MariaDB database whose tables are truncated, altered or replaced while an audit reads it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pymysql
import pytest

from services.mariadb import Mariadb
from txloom.config import load
from txloom.config.models.pipeline import Table
from txloom.errors import ConfigurationError
from txloom.storage.databases import connection, mysql
from txloom.storage.databases.audit_source import Limits, TableChanged
from txloom.storage.databases.connected import connected
from txloom.storage.databases.mysql import Mysql

FREE = Limits(10**6, 30)
DECLARED = """
name: shop
source: {format: debezium, files: {path: /inbox}, transaction_topic: t}
completeness: {rule: counts, patience: 2h}
tables:
  - {name: plain, source: changed.plain, key: [id], columns: {id: int, n: int}}
  - {name: parts, source: changed.parts, key: [id], columns: {id: int, n: int}}
  - {name: loose, source: changed.loose, key: [a, b], columns: {a: int, b: string}}
targets: {mirrors: ["*"]}
"""
PARTED = "partition by range (id) (partition low values less than (50), partition high values less than (1000))"
ROWS = "insert into {table} select * from spare"
STATEMENTS = {
    "truncate": "truncate {table}",
    "truncate and fill": f"truncate {{table}}; {ROWS}",
    "copying alter": "alter table {table} modify n bigint, algorithm = copy; alter table {table} modify n int",
    "optimize": "optimize table {table}",
    "column in an instant": "alter table {table} add m int, algorithm = instant",
    "column replaced": "alter table {table} drop n; alter table {table} add n int",
    "swapped by a rename": "rename table {table} to gone, twin to {table}",
    "dropped": "drop table {table}",
    "dropped and made": f"drop table {{table}}; create table {{table}} (id int primary key, n int); {ROWS}",
}
PARTITIONS = {
    "truncated": "alter table parts truncate partition low",
    "dropped": "alter table parts drop partition low",
    "exchanged": "alter table parts exchange partition low with table other",
    "added": "alter table parts add partition (partition more values less than (2000))",
    "reorganized": "alter table parts reorganize partition high into (partition high values less than (2000))",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    (file := tmp_path_factory.mktemp("changed") / "shop.yaml").write_text(DECLARED)
    return {table.name: table for table in load(file, connected=False).tables}


@pytest.fixture
def sql(server: Mariadb, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[tuple[Any, ...]]]:
    """Run statements in a database with a table of 100 rows, a partitioned one, and tables to put into their places."""
    monkeypatch.setattr(mysql, "SETTLING", 0.01)
    server.fresh_database(
        "changed",
        "create table plain (id int primary key, n int); create table spare like plain; create table twin like plain;"
        f"create table other like plain; create table parts (id int primary key, n int) {PARTED};"
        "create table loose (a int, b varchar(9), unique (a, b));"
        "insert into spare with recursive s (n) as (select 1 union all select n + 1 from s where n < 100)"
        " select n, n from s; insert into plain select * from spare; insert into parts select * from spare;"
        "insert into twin select * from spare where id < 7; insert into other select * from spare where id < 7",
    )

    def run(text: str) -> list[tuple[Any, ...]]:
        return server.sql(text, "changed")

    return run


@pytest.fixture(params=["PROCESS", "a reader"])
def login(request: pytest.FixtureRequest, server: Mariadb, sql: Any) -> str:
    """The user of an audit: one who may know the numbers of files, and one who may not."""
    if request.param == "PROCESS":
        return "root"
    right = "binlog monitor" if server.name == "mariadb" else "replication client"
    server.sql("drop user if exists seer@'127.0.0.1'; create user seer@'127.0.0.1'")
    server.sql(f"grant select on changed.* to seer@'127.0.0.1'; grant {right} on *.* to seer@'127.0.0.1'")
    return "seer"


@pytest.fixture
def source(server: Mariadb, login: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mysql]:
    # The tables were made just before: what a user may not know is told by the seconds of it.
    monkeypatch.setattr(mysql, "NEW", mysql.NEW * -1)
    monkeypatch.setattr(mysql, "LOCK_WAIT_S", 1)
    with ExitStack() as stack:
        yield stack.enter_context(reader(server, login))


def reader(server: Mariadb, login: str, limits: Limits = FREE) -> Any:
    return connected({"conn_type": server.name, "host": server.host, "port": server.port, "login": login}, limits)


def read(source: Mysql, table: Table) -> tuple[int, int]:
    """Return how many rows a table has, by digests and by their keys."""
    with source.reading(table) as relation:
        return source.total(relation, (), ())[0], len(source.rows_of(relation, [(n,) for n in range(3000)]))


@pytest.mark.parametrize("login", ["PROCESS"], indirect=True)
@pytest.mark.parametrize(
    ("name", "statement"),
    [
        *(("plain", each.format(table="plain")) for each in STATEMENTS.values()),
        *(("parts", e) for e in PARTITIONS.values()),
    ],
    ids=[*STATEMENTS, *(f"partition {each}" for each in PARTITIONS)],
)
def test_a_table_that_was_changed_since_the_snapshot_is_not_read(
    source: Mysql, sql: Any, tables: dict[str, Table], name: str, statement: str
) -> None:
    source.begin([*tables.values()])
    if "drop n" in statement:
        time.sleep(1.01 - time.time() % 1)
    sql(statement)
    with pytest.raises(TableChanged):
        read(source, tables[name])
    assert read(source, tables["parts" if name == "plain" else "plain"]) == (100, 100), "the snapshot goes on"


def test_a_table_is_locked_while_it_is_read_and_before_only_where_its_changes_could_not_be_seen(
    source: Mysql, sql: Any, tables: dict[str, Table], login: str
) -> None:
    def wait_in_vain(statement: str) -> None:
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            sql(f"set session lock_wait_timeout = 1; {statement}")

    source.begin([*tables.values()])
    if login == "seer":
        wait_in_vain("rename table plain to gone, twin to plain")
        wait_in_vain(PARTITIONS["exchanged"])
    else:
        sql("alter table parts add partition (partition more values less than (2000))")
    with source.reading(tables["plain"]) as relation:
        assert source.total(relation, (), ())[0] == 100
        wait_in_vain("truncate plain")
        assert source.total(relation, (), ())[0] == 100
    source.begin([*tables.values()])
    assert read(source, tables["parts"]) == (100, 100)
    source.begin()
    sql("truncate plain")


@pytest.mark.parametrize("login", ["PROCESS"], indirect=True)
def test_a_statement_of_mysql_waits_for_one_range_and_not_for_the_whole_table(
    server: Mariadb, login: str, sql: Any, tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB gives no lock up before the snapshot ends (docs/audit.md)."""
    monkeypatch.setattr(mysql, "NEW", mysql.NEW * -1)
    monkeypatch.setattr(connection, "LOCK_HELD_S", 0.2)
    results = list[str]()

    def truncate() -> None:
        try:
            sql("set session lock_wait_timeout = 3; truncate plain")
            results.append("done")
        except pymysql.err.OperationalError:
            results.append("locked")

    with reader(server, login, Limits(100, 30)) as source:
        source.begin([tables["plain"]])
        truncating = threading.Thread(target=truncate)
        with ExitStack() as stack:
            if server.name == "mysql":
                stack.enter_context(pytest.raises(TableChanged))
            relation = stack.enter_context(source.reading(tables["plain"]))
            truncating.start()
            for _ in range(5):
                assert source.total(relation, (), ())[0] == 100
        truncating.join()
    assert results == ["done" if server.name == "mysql" else "locked"]


@pytest.mark.parametrize("login", ["a reader"], indirect=True)
def test_a_view_and_a_table_that_the_user_may_not_read_are_named(
    server: Mariadb, source: Mysql, login: str, sql: Any, tables: dict[str, Table]
) -> None:
    sql("rename table plain to plain_rows; create view plain as select * from plain_rows")
    server.sql("revoke select on changed.* from seer@'127.0.0.1'; grant select on changed.plain to seer@'127.0.0.1'")
    server.sql("grant select (id) on changed.parts to seer@'127.0.0.1'")
    with reader(server, login) as again:
        again.begin([*tables.values()])
        with pytest.raises(ConfigurationError, match=r"expected one table .*, found changed\.plain \(view\)"):
            read(again, tables["plain"])
        with pytest.raises(ConfigurationError, match="parts: "):
            read(again, tables["parts"])


def test_a_table_that_got_its_definition_just_before_is_looked_at_again(
    server: Mariadb, sql: Any, tables: dict[str, Table]
) -> None:
    """The catalog dates definitions by whole seconds: another change in the same second could not be seen."""
    with reader(server, "root") as source:
        source.begin([tables["plain"]])
        with pytest.raises(TableChanged, match="just before"):
            read(source, tables["plain"])


@pytest.mark.long
@pytest.mark.parametrize("login", ["PROCESS"], indirect=True)
def test_at_any_moment_a_table_is_read_as_of_the_snapshot_or_not_at_all(
    source: Mysql, server: Mariadb, sql: Any, tables: dict[str, Table]
) -> None:
    """Every statement leaves the same rows, so that any other number of them was never there."""
    sql("truncate other; insert into other select * from spare where id < 50; truncate twin")
    sql(ROWS.format(table="twin"))
    statements = [
        "alter table plain modify n bigint, algorithm = copy; alter table plain modify n int, algorithm = copy",
        "optimize table plain",
        "rename table plain to swapped, twin to plain, swapped to twin",
        "alter table parts exchange partition low with table other",
        "alter table parts reorganize partition high into (partition high values less than (1000))",
        "create table fresh like plain; insert into fresh select * from spare;"
        " rename table plain to old, fresh to plain; drop table old",
        "update plain set n = n + 1 where id = 7",
    ]
    done, failed = threading.Event(), list[BaseException]()

    def disturb() -> None:
        chance = Random(7)
        while not done.is_set():
            try:
                sql(chance.choice(statements))
            except BaseException as error:  # noqa: BLE001  (a thread's error is the test's)
                failed.append(error)
                return
            done.wait(chance.random() / 20)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    chance, seen, refused = Random(7), list[tuple[int, int]](), 0
    try:
        while len(seen) < 20 or refused < 3:
            source.begin([tables["plain"], tables["parts"]])
            done.wait(chance.random() / 20)
            for name in ("plain", "parts"):
                try:
                    seen.append(read(source, tables[name]))
                except TableChanged:
                    refused += 1
    finally:
        source.begin()  # it gives up all locks
        done.set()
        disturber.join()
    assert not failed
    assert set(seen) == {(100, 100)}


@pytest.mark.parametrize("login", ["PROCESS"], indirect=True)
def test_a_key_that_is_null_in_part_is_in_no_range(source: Mysql, sql: Any, tables: dict[str, Table]) -> None:
    sql("insert into loose values (1, 'x'), (1, null), (1, null), (null, 'y')")
    source.begin([tables["loose"]])
    with source.reading(tables["loose"]) as relation:
        assert source.total(relation, (), ())[0] == source.total(relation, (0, ""), ())[0] == 1
        assert sorted(source.keyless(relation), key=str) == [("1", None), ("1", None), (None, "y")]
