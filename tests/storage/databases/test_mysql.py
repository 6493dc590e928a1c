"""One connection to a real MariaDB: where its snapshot lies, which keys it reads, and what may be asked of it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from services.mariadb import Mariadb
from txloom.config import load
from txloom.config.models.pipeline import Table
from txloom.errors import SourceUnavailable
from txloom.events.debezium.positions import binlog_position
from txloom.storage.databases import mysql
from txloom.storage.databases.audit_source import Limits
from txloom.storage.databases.connected import connected
from txloom.storage.databases.mysql import Mysql

TABLES = """
name: shop
source: {format: debezium, files: {path: /inbox}, transaction_topic: t}
completeness: {rule: counts, patience: 2h}
tables:
  - {name: pairs, source: reads.pairs, key: [a, b], columns: {a: string, b: long, doc: json}}
  - {name: counters, source: reads.counters, key: [id], columns: {id: int, n: long}}
targets: {mirrors: ["*"]}
"""
FREE = Limits(10**6, 30)
WORDS = ("", " ", "a", "a ", "A", "b", "ä", "z", "ß", "ÿ", "\U0001f600", "\uffff", "a\tb")


@pytest.fixture(scope="module")
def tables(mariadb: Mariadb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    mariadb.fresh_database(
        "reads",
        "create table pairs (a varchar(9) collate utf8mb4_nopad_bin, b bigint, doc json, primary key (a, b));"
        "create table counters (id int primary key, n bigint); insert into counters select seq, 0 from seq_1_to_20",
    )
    insert = 'insert into pairs values (%s, %s, \'{"x":[1.0, 2],  "a":null}\')'
    mariadb.connection("reads").cursor().executemany(insert, [(a, b) for a in WORDS for b in range(-1, 3)])
    file = tmp_path_factory.mktemp("reads") / "shop.yaml"
    file.write_text(TABLES)
    return {table.name: table for table in load(file, connected=False).tables}


@pytest.fixture
def source(mariadb: Mariadb) -> Iterator[Mysql]:
    with ExitStack() as stack:
        yield stack.enter_context(reader(mariadb))


def reader(mariadb: Mariadb, limits: Limits = FREE) -> Any:
    return connected({"conn_type": "mariadb", "host": mariadb.host, "port": mariadb.port, "login": "root"}, limits)


BOUND = st.none() | st.tuples(st.sampled_from(WORDS), st.integers(-2, 3))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(BOUND, BOUND)
def test_a_range_of_keys_has_the_rows_that_the_lake_orders_there(
    source: Mysql, tables: dict[str, Table], low: Any, high: Any
) -> None:
    source.begin()
    keys = sorted(((a, b) for a in WORDS for b in range(-1, 3)), key=lambda key: (key[0].encode(), key[1]))
    within = [key for key in keys if (low is None or _of(key) >= _of(low)) and (high is None or _of(key) < _of(high))]
    listed = source.listed(relation := source.relation(tables["pairs"]), low or (), high or ())
    assert sorted(listed) == sorted((a, str(b)) for a, b in within)
    assert source.total(relation, low or (), high or ()) == (len(within), sum(digest for _, digest in listed.values()))
    assert source.rows_of(relation, [handle for handle, _ in listed.values()]).keys() == listed.keys()


def _of(key: tuple[str, int]) -> tuple[bytes, int]:
    return key[0].encode(), key[1]


def test_json_that_the_server_writes_in_its_own_way_is_parsed(source: Mysql, tables: dict[str, Table]) -> None:
    """MySQL has a type for JSON, and writes other blanks and another order of names than Debezium sends."""
    source.begin()
    plain = source.relation(tables["pairs"])
    parsed = type(plain)(**{**vars(plain), "padded": frozenset({"doc"})})
    (texts,) = source.rows_of(parsed, [("a", 1)]).values()
    assert texts == ("a", "1", '{"a":null,"x":[1,2]}')
    assert source.rows_of(plain, [("a", 1)])[("a", "1")][2] == '{"x":[1.0, 2],  "a":null}'
    one, other = source.listed(parsed, (), ()), source.listed(plain, (), ())
    assert {key: handle for key, (handle, _) in one.items()} == {key: handle for key, (handle, _) in other.items()}
    assert source.total(parsed, (), ()) == (len(one), sum(digest for _, digest in one.values()))
    assert source.total(parsed, (), ()) != source.total(plain, (), ())


@pytest.fixture
def commits(mariadb: Mariadb, tables: dict[str, Table]) -> Iterator[Callable[[], list[int]]]:
    """Let four sessions write, each commit adding one to all counters; returns what ends them and gives the commits."""
    mariadb.sql("update counters set n = 0; flush binary logs", "reads")
    done, (file, *_) = threading.Event(), mariadb.sql("show master status")[0]

    def write() -> None:
        cursor = mariadb.connection("reads").cursor()
        while not done.is_set():
            cursor.execute("update counters set n = n + 1")

    writers = [threading.Thread(target=write) for _ in range(4)]

    def ended() -> list[int]:
        done.set()
        for writer in writers:
            writer.join()
        events = mariadb.sql(f"show binlog events in '{file}'")
        return [binlog_position(file, row[1]) or 0 for row in events if row[2] == "Xid"]

    for writer in writers:
        writer.start()
    yield ended
    ended()


@pytest.mark.long
@pytest.mark.parametrize("is_exact", [True, False], ids=["as MariaDB says", "read before and after"])
def test_a_snapshot_has_what_surely_lies_in_it_and_nothing_above_its_position(
    source: Mysql, tables: dict[str, Table], commits: Any, monkeypatch: pytest.MonkeyPatch, is_exact: bool
) -> None:
    if not is_exact:
        ask = source._ask
        monkeypatch.setattr(source, "_ask", lambda sql, *values: [] if "binlog_snapshot" in sql else ask(sql, *values))
        monkeypatch.setattr(mysql, "SETTLING", 0.1)
    looks = list[tuple[Any, int]]()
    for _ in range(30):
        moment = source.begin()
        time.sleep(0.005)
        rows = source.rows_of(source.relation(tables["counters"]), [(n,) for n in range(1, 21)])
        (seen,) = {int(row[1] or 0) for row in rows.values()}
        looks.append((moment, seen))
    written = commits()
    assert len({seen for _, seen in looks}) > 15
    for moment, seen in looks:
        surely, at_most = (sum(commit <= csn for commit in written) for csn in (moment.surely, moment.at_most))
        assert surely <= seen <= at_most
        assert not is_exact or surely == at_most


def test_a_statement_that_takes_too_long_ends_the_audit(mariadb: Mariadb, tables: dict[str, Table]) -> None:
    with reader(mariadb, Limits(10**6, 0.5)) as slow:
        slow.begin()
        slow.relation(tables["counters"])
        with pytest.raises(SourceUnavailable, match=r"did not answer: .*max_statement_time exceeded"):
            slow._ask("select sleep(5)")


def test_the_database_may_rest(mariadb: Mariadb, tables: dict[str, Table]) -> None:
    with reader(mariadb, Limits(100, 30)) as slow:
        slow.begin()
        begun = time.monotonic()
        slow.total(slow.relation(tables["pairs"]), (), ())
        assert time.monotonic() - begun > len(WORDS) * 4 / 100 * 0.9
        assert slow.rows == len(WORDS) * 4


def test_a_lake_shows_a_snapshot_once_nothing_of_its_tables_lies_between(
    mariadb: Mariadb, source: Mysql, tables: dict[str, Table]
) -> None:
    def written() -> int:
        """Change a counter, and return where its row lies in the binlog."""
        mariadb.sql("update counters set n = n + 1 where id = 1", "reads")
        file, _ = mariadb.sql("show master status")[0][:2]
        events = mariadb.sql(f"show binlog events in '{file}'")
        return binlog_position(file, [row[1] for row in events if row[2].startswith("Update_rows")][-1]) or 0

    counters, pairs = [tables["counters"]], [tables["pairs"]]
    before, csn = written(), written()
    for _ in range(2):
        moment = source.begin()
        assert (source.shows(moment, csn, counters), source.shows(moment, before, counters)) == (True, False)
        assert source.shows(moment, before, pairs) and source.shows(moment, moment.at_most, counters)
    mariadb.sql("create or replace table other (id int primary key); insert into other values (1)", "reads")
    mariadb.sql("flush binary logs; flush binary logs; insert into other values (2)", "reads")
    assert source.shows(source.begin(), csn, counters)
    later = written()
    moment = source.begin()
    assert (source.shows(moment, csn, counters), source.shows(moment, later, counters)) == (False, True)
    mariadb.sql("truncate counters; insert into counters values (1, 0)", "reads")
    assert not source.shows(source.begin(), later, counters)
