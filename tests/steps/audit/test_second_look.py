"""A repair asks the source once more: what it still says of a row is certain, all else is left out."""

import logging
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import psycopg2
import pytest

from services.postgres import Postgres
from services.process import wait_until
from txloom.config import load
from txloom.config.models.pipeline import Table
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.steps.audit.second_look import (
    IS_GONE,
    IS_OTHER,
    IS_REPEATED,
    IS_TAKEN_FOR_ANOTHER,
    IS_THERE,
    PIECE_ROWS,
    SecondLook,
    look_again,
)
from txloom.storage.checks.audited_rows import Repair
from txloom.storage.databases import postgresql
from txloom.storage.databases.audit_source import Limits, LiveSource
from txloom.storage.databases.connected import connected

DECLARED = """
name: shop
source: {format: wal2json, files: {path: /inbox}}
completeness: {rule: markers, patience: 2h}
tables:
  - {name: rows, source: public.rows, key: [id], columns: {id: long, note: string}}
  - {name: codes, source: public.codes, key: [code], columns: {code: string, n: int}}
  - {name: names, source: public.names, key: [name], columns: {name: string, n: int}}
  - {name: guarded, source: public.guarded, key: [id], columns: {id: long}}
targets: {mirrors: ["*"]}
"""
SCHEMA = """
    CREATE TABLE rows (id bigint PRIMARY KEY, note text);
    CREATE DOMAIN code AS char(4);
    CREATE TABLE codes (code code PRIMARY KEY, n int);
    INSERT INTO codes VALUES ('ab', 1), ('cd', 2);
    CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TABLE names (name text COLLATE any_case PRIMARY KEY, n int);
    INSERT INTO names VALUES ('Ann', 1);
    CREATE TABLE guarded (id bigint PRIMARY KEY);
    INSERT INTO guarded VALUES (1);
    ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
    DROP ROLE IF EXISTS auditor;
    CREATE ROLE auditor LOGIN;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO auditor;
"""


class Source:
    """A database of its own, and one connection to it as a repair has it."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.postgres = postgres
        (folder / "shop.yaml").write_text(DECLARED)
        self.tables: dict[str, Table] = {
            table.name: table for table in load(folder / "shop.yaml", connected=False).tables
        }

    def connection(self, user: str = "postgres") -> Any:
        made = psycopg2.connect(host=self.postgres.host, port=self.postgres.port, user=user, dbname="looked")
        made.autocommit = True
        return made

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection().cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def look(
        self, table: str, repairs: Sequence[Repair], *, is_whole: bool = True, user: str = "postgres"
    ) -> SecondLook:
        with self.connected(user) as source:
            return look_again(source, self.tables[table], repairs, is_whole=is_whole)

    def connected(self, user: str) -> AbstractContextManager[LiveSource]:
        fields = {"conn_type": "postgres", "host": self.postgres.host, "port": self.postgres.port, "login": user}
        return connected(fields | {"schema": "looked"}, Limits(10**6, 30))


@pytest.fixture(scope="module")
def source(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Source:
    postgres.fresh_database("looked", SCHEMA)
    return Source(postgres, tmp_path_factory.mktemp("looked"))


def delete(key: int) -> Repair:
    return Repair("D", f'{{"id":"{key}"}}', 0, None)


def other(op: str, key: int, note: str) -> Repair:
    return Repair(op, f'{{"id":"{key}","note":"{note}"}}', 0, None)


def judged(look: SecondLook) -> dict[str, str]:
    """Return by image the reason why a row is left out, empty for one that is certain."""
    return {row.image: "" for row in look.certain} | {row.image: reason for row, reason in look.left}


def test_only_what_the_source_still_says_is_certain(source: Source) -> None:
    source.sql("TRUNCATE rows; INSERT INTO rows VALUES (1, 'there'), (2, 'same'), (3, 'newer'), (5, 'same')")
    rows = [delete(1), delete(9), other("U", 2, "same"), other("U", 3, "older"), other("r", 4, "gone")]
    look = source.look("rows", [*rows, other("r", 5, "same")])
    assert judged(look) == {
        rows[0].image: IS_THERE,
        rows[1].image: "",
        rows[2].image: "",
        rows[3].image: IS_OTHER,
        rows[4].image: IS_GONE,
        '{"id":"5","note":"same"}': "",
    }


@pytest.mark.parametrize("seed", range(3))
def test_of_any_rows_none_that_the_source_has_is_deleted_and_no_value_is_another(source: Source, seed: int) -> None:
    """More rows than a piece has, in any order; the source is asked by its keys alone."""
    chance = Random(seed)
    now = {key: chance.choice("abc") for key in range(1_500) if chance.random() < 0.5}
    source.sql("TRUNCATE rows")
    source.sql("INSERT INTO rows VALUES " + ", ".join(f"({key}, '{note}')" for key, note in now.items()))
    rows = [
        delete(key) if chance.random() < 0.5 else other(chance.choice("rU"), key, chance.choice("abc"))
        for key in chance.sample(range(1_500), PIECE_ROWS * 2 + 7)
    ]
    look = source.look("rows", rows)
    assert len(look.certain) + len(look.left) == len(rows) and not look.unreadable
    for row in rows:
        key, _, note = row.image.removesuffix('"}').partition('","note":"')
        there = now.get(int(key.removeprefix('{"id":"').removesuffix('"}')))
        assert (row in look.certain) == (there is None if row.op == "D" else there == note)


def test_a_table_that_is_rewritten_while_it_is_read_has_its_rows(source: Source) -> None:
    """A snapshot from before the rewrite would show an empty table, and the repair would delete each of its rows."""
    source.sql("TRUNCATE rows; INSERT INTO rows SELECT n, 'kept' FROM generate_series(1, 50) n")
    looks = list[SecondLook]()
    looking = threading.Thread(target=lambda: looks.append(source.look("rows", [delete(n) for n in range(1, 51)])))
    with source.connection() as writing, writing.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("ALTER TABLE rows ALTER note TYPE varchar(9)")
        looking.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'rows'::regclass"
        wait_until(lambda: source.sql(waits) == [(1,)], "the look to wait for the table")
        cursor.execute("COMMIT")
    looking.join()
    assert looks[0].certain == [] and {reason for _, reason in looks[0].left} == {IS_THERE}
    assert source.sql("SELECT count(*) FROM pg_locks WHERE relation = 'rows'::regclass") == [(0,)]
    source.sql("ALTER TABLE rows ALTER note TYPE text")


def test_a_key_that_the_source_takes_for_that_of_another_row_is_neither_deleted_nor_inserted(source: Source) -> None:
    """A column whose collation takes upper and lower case for equal: the lake and the audit do not."""
    upper, there = Repair("D", '{"name":"ANN"}', 0, None), Repair("r", '{"name":"Ann","n":"1"}', 0, None)
    absent = Repair("D", '{"name":"Bob"}', 0, None)
    assert judged(source.look("names", [upper, there, absent])) == {
        upper.image: IS_TAKEN_FOR_ANOTHER,
        there.image: IS_TAKEN_FOR_ANOTHER,
        absent.image: "",
    }
    another = Repair("r", '{"name":"Cid","n":"2"}', 0, None)
    left = judged(source.look("names", [upper, another], is_whole=False))
    assert left == {upper.image: IS_TAKEN_FOR_ANOTHER, another.image: IS_TAKEN_FOR_ANOTHER}


def test_a_padded_key_is_that_of_the_row_however_it_is_written(source: Source) -> None:
    """As the audit once took a padded key for another one than the source does (a domain over char)."""
    padded, trimmed = (
        Repair(op, f'{{"code":"{key}"{n}}}', 0, None) for op, key, n in (("D", "ab  ", ""), ("r", "ab", ',"n":"1"'))
    )
    absent = Repair("D", '{"code":"zz  "}', 0, None)
    reasons = judged(source.look("codes", [padded, trimmed, absent]))
    assert reasons[padded.image] == IS_THERE and reasons[trimmed.image] and not reasons[absent.image]


def test_a_row_without_a_key_or_that_cannot_be_read_is_not_asked_for(source: Source) -> None:
    nothing, unreadable = Repair("D", '{"id":null}', 0, None), Repair("U", '{"id":"x","note":null}', 0, None)
    look = source.look("rows", [nothing, unreadable])
    assert look.certain == []
    assert {row.image for row, _ in (*look.left, *look.unreadable)} == {nothing.image, unreadable.image}


def test_a_server_that_lies_behind_the_audit_is_not_believed(source: Source) -> None:
    ahead = Repair("D", '{"id":"77"}', 2**62, None)
    with pytest.raises(SourceUnavailable, match=r"rows: the database is at csn .*, and the audit read it at csn"):
        source.look("rows", [ahead])


def test_a_user_whom_a_policy_hides_rows_from_is_refused(source: Source) -> None:
    """To that user each row seems absent, at the first look and at the second."""
    with pytest.raises(ConfigurationError, match=r"row-level security hides rows of public\.guarded"):
        source.look("guarded", [delete(1)], user="auditor")


def test_a_policy_that_comes_while_rows_are_asked_for_is_an_error(source: Source) -> None:
    source.sql("ALTER TABLE guarded DISABLE ROW LEVEL SECURITY")
    with source.connected("auditor") as database:
        relation = database.relation(source.tables["guarded"])
        assert database.rows_now(relation, [(1,), (2,)]) == {("1",): [("1",)]}
        source.sql("ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
        with pytest.raises(SourceUnavailable, match="row-level security"):
            database.rows_now(relation, [(1,)])


def test_a_key_that_several_rows_have_by_now_is_left_out(source: Source) -> None:
    source.sql("TRUNCATE rows; ALTER TABLE rows DROP CONSTRAINT rows_pkey; INSERT INTO rows VALUES (1, 'a'), (1, 'a')")
    changed, extra = other("U", 1, "a"), delete(2)
    assert judged(source.look("rows", [changed, extra])) == {changed.image: IS_REPEATED, extra.image: ""}
    source.sql("TRUNCATE rows; ALTER TABLE rows ADD PRIMARY KEY (id)")


def test_a_table_that_stays_locked_is_not_waited_for_for_ever(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "LOCK_WAIT_S", 0.1)
    with source.connection() as writing, writing.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE rows IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceUnavailable, match="lock timeout"):
            source.look("rows", [delete(1)])
        cursor.execute("ROLLBACK")


def test_it_says_how_many_rows_are_certain(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    source.sql("TRUNCATE rows")
    with caplog.at_level(logging.INFO):
        source.look("rows", [delete(1), delete(2)])
    assert "rows: the source says the same of 2 of 2 rows" in caplog.text
