"""A repair asks MariaDB and MySQL once more: a table that is rewritten has its rows, and keys are compared by them."""

import threading
from collections.abc import Sequence

import pytest

from services.mariadb import Mariadb
from services.process import wait_until
from txloom.config import load
from txloom.config.models.pipeline import Table
from txloom.errors import SourceUnavailable
from txloom.steps.audit.second_look import (
    IS_GONE,
    IS_OTHER,
    IS_TAKEN_FOR_ANOTHER,
    IS_THERE,
    SecondLook,
    look_again,
)
from txloom.storage.checks.audited_rows import Repair
from txloom.storage.databases.audit_source import Limits
from txloom.storage.databases.connected import connected

DECLARED = """
name: shop
source: {format: debezium, files: {path: /inbox}, transaction_topic: t}
completeness: {rule: counts, patience: 2h}
tables:
  - {name: rows, source: looked.rows, key: [id], columns: {id: long, note: string, doc: json}}
  - {name: codes, source: looked.codes, key: [code], columns: {code: string, n: int}}
targets: {mirrors: ["*"]}
"""
SCHEMA = """
    create table `rows` (id bigint primary key, note varchar(20), doc json);
    insert into `rows` values (1, 'there', '{"b": 1.0, "a": "x"}'), (2, 'same', '{"b": 1.0, "a": "x"}'),
        (3, 'newer', null);
    create table codes (code varchar(9) collate utf8mb4_general_ci primary key, n int);
    insert into codes values ('a', 1), ('b', 2)
"""


@pytest.fixture(scope="module")
def tables(server: Mariadb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    server.fresh_database("looked", SCHEMA)
    file = tmp_path_factory.mktemp("looked") / "shop.yaml"
    file.write_text(DECLARED)
    return {table.name: table for table in load(file, connected=False).tables}


def look(server: Mariadb, table: Table, repairs: Sequence[Repair]) -> SecondLook:
    fields = {"conn_type": server.name, "host": server.host, "port": server.port, "login": "root"}
    with connected(fields, Limits(10**6, 30)) as source:
        source.begin()
        assert source.position() >= source.begin().at_most, "what it says now is what a snapshot has, or newer"
        return look_again(source, table, repairs, is_whole=True)


def row(op: str, key: int, note: str) -> Repair:
    return Repair(op, f'{{"id":"{key}","note":"{note}","doc":null}}', 0, None)


def delete(key: int) -> Repair:
    return Repair("D", f'{{"id":"{key}"}}', 0, None)


def test_only_what_the_source_still_says_is_certain(server: Mariadb, tables: dict[str, Table]) -> None:
    looked = look(server, tables["rows"], [delete(1), delete(9), row("U", 3, "older"), row("r", 4, "gone")])
    assert looked.certain == [delete(9)]
    assert [reason for _, reason in looked.left] == [IS_THERE, IS_OTHER, IS_GONE]
    same = row("U", 3, "newer")
    assert look(server, tables["rows"], [same]).certain == [same]


def test_a_table_that_is_rewritten_while_it_is_read_has_its_rows(server: Mariadb, tables: dict[str, Table]) -> None:
    looks = list[SecondLook]()
    looking = threading.Thread(target=lambda: looks.append(look(server, tables["rows"], [delete(1), delete(2)])))
    cursor = server.connection("looked").cursor()
    cursor.execute("lock tables `rows` write")
    cursor.execute("alter table `rows` add column more int, algorithm=copy")
    looking.start()
    waits = "select count(*) from information_schema.processlist where state like '%metadata lock%'"
    wait_until(lambda: server.sql(waits, "looked")[0][0] > 0, "the look to wait for the table")
    cursor.execute("alter table `rows` drop column more, algorithm=copy")
    cursor.execute("unlock tables")
    looking.join()
    assert looks[0].certain == [] and {reason for _, reason in looks[0].left} == {IS_THERE}


def test_a_key_that_the_source_takes_for_that_of_another_row_is_neither_deleted_nor_inserted(
    server: Mariadb, tables: dict[str, Table]
) -> None:
    upper, lower = Repair("D", '{"code":"A"}', 0, None), Repair("r", '{"code":"a","n":"1"}', 0, None)
    absent = Repair("D", '{"code":"z"}', 0, None)
    looked = look(server, tables["codes"], [upper, lower, absent])
    assert looked.certain == [absent] and {reason for _, reason in looked.left} == {IS_TAKEN_FOR_ANOTHER}


def test_a_server_that_lies_behind_the_audit_is_not_believed(server: Mariadb, tables: dict[str, Table]) -> None:
    with pytest.raises(SourceUnavailable, match=r"rows: the database is at csn .*, and the audit read it at csn"):
        look(server, tables["rows"], [Repair("D", '{"id":"77"}', 2**62, None)])
