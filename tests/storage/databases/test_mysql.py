"""One connection to a real MariaDB or MySQL: where its snapshot lies, which keys it reads, and what may be asked."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import write_deltalake
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
from txloom.storage.delta import arrow_tables

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
COUNTERS = ", ".join(f"({number}, 0)" for number in range(1, 21))
WORDS = ("", " ", "a", "a ", "A", "b", "ä", "z", "ß", "ÿ", "\U0001f600", "\uffff", "a\tb")


@pytest.fixture(scope="module")
def tables(server: Mariadb, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    server.fresh_database(
        "reads",
        f"create table pairs (a varchar(9) collate {server.nopad}, b bigint, doc json, primary key (a, b));"
        f"create table counters (id int primary key, n bigint); insert into counters values {COUNTERS}",
    )
    insert = 'insert into pairs values (%s, %s, \'{"x":[1.0, 2],  "a":null}\')'
    server.connection("reads").cursor().executemany(insert, [(a, b) for a in WORDS for b in range(-1, 3)])
    file = tmp_path_factory.mktemp("reads") / "shop.yaml"
    file.write_text(TABLES)
    return {table.name: table for table in load(file, connected=False).tables}


@pytest.fixture
def source(server: Mariadb) -> Iterator[Mysql]:
    with ExitStack() as stack:
        yield stack.enter_context(reader(server))


def reader(server: Mariadb, limits: Limits = FREE) -> Any:
    return connected({"conn_type": server.name, "host": server.host, "port": server.port, "login": "root"}, limits)


class Commit(NamedTuple):
    """A transaction: the position of its end, and its GTID, where MySQL gives it one."""

    csn: int
    gtid: str


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
    parsed = type(plain)(**{**vars(plain), "forms": {"doc": "json"}})
    assert plain.forms == ({} if source.is_mariadb else {"doc": "json"})
    ((texts,),) = source.rows_of(parsed, [("a", 1)]).values()
    assert texts == ("a", "1", '{"a":null,"x":[1,2]}')
    as_written = type(plain)(**{**vars(plain), "forms": {}})
    assert source.rows_of(as_written, [("a", 1)])[("a", "1")][0][2] != texts[2]
    one, other = source.listed(parsed, (), ()), source.listed(as_written, (), ())
    assert {key: handle for key, (handle, _) in one.items()} == {key: handle for key, (handle, _) in other.items()}
    assert source.total(parsed, (), ()) == (len(one), sum(digest for _, digest in one.values()))
    assert source.total(parsed, (), ()) != source.total(as_written, (), ())


@pytest.fixture
def commits(server: Mariadb, tables: dict[str, Table]) -> Iterator[Callable[[], list[Commit]]]:
    """Let four sessions write, each commit adding one to all counters; returns what ends them and gives the commits."""
    server.sql("update counters set n = 0; flush binary logs", "reads")
    done, file = threading.Event(), server.binlog_file()

    def write() -> None:
        cursor = server.connection("reads").cursor()
        while not done.is_set():
            cursor.execute("update counters set n = n + 1")

    writers = [threading.Thread(target=write) for _ in range(4)]

    def ended() -> list[Commit]:
        done.set()
        for writer in writers:
            writer.join()
        events = server.sql(f"show binlog events in '{file}'")
        made, gtid = list[Commit](), ""
        for row in events:
            gtid = row[5].split("'")[1] if row[2] == "Gtid" and "'" in row[5] else gtid
            if row[2] == "Xid":
                made.append(Commit(binlog_position(file, row[1]) or 0, gtid))
        return made

    for writer in writers:
        writer.start()
    yield ended
    ended()


@pytest.fixture
def by_gtid(server: Mariadb, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether MySQL gives transactions GTIDs; MariaDB says by itself where a snapshot lies."""
    if server.name == "mariadb" or request.param:
        yield bool(request.param)
        return
    modes = ("ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
    for mode in modes[1:]:
        server.sql(f"set global gtid_mode = {mode}")
    yield False
    for mode in modes[2::-1]:
        server.sql(f"set global gtid_mode = {mode}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "by_gtid"),
    [("mariadb", False), ("mysql", True), ("mysql", False)],
    indirect=True,
    ids=["as MariaDB says", "MySQL's GTIDs", "MySQL's positions"],
)
def test_a_snapshot_has_what_surely_lies_in_it_and_nothing_above_its_position(
    source: Mysql,
    tables: dict[str, Table],
    by_gtid: bool,
    commits: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(mysql, "SETTLING", 0.1)
    looks = list[tuple[Any, int]]()
    for _ in range(30):
        moment = source.begin()
        time.sleep(0.005)
        rows = source.rows_of(source.relation(tables["counters"]), [(n,) for n in range(1, 21)])
        (seen,) = {int(row[1] or 0) for (row,) in rows.values()}
        looks.append((moment, seen))
    written = commits()
    assert len({seen for _, seen in looks}) > 15
    columns = {"_txloom_csn": [commit.csn for commit in written], "_txloom_xid": [commit.gtid for commit in written]}
    write_deltalake(changes := str(tmp_path / "changes"), pa.table(columns))
    for moment, seen in looks:
        surely = len(written) - arrow_tables.select(changes, f"select 1 as n from t where {moment.unseen}").num_rows
        at_most = sum(commit.csn <= moment.at_most for commit in written)
        assert (moment.executed is not None) == by_gtid
        assert surely <= seen <= at_most
        assert surely == at_most or not source.is_mariadb


def test_a_statement_that_takes_too_long_ends_the_audit(server: Mariadb, tables: dict[str, Table]) -> None:
    with reader(server, Limits(10**6, 0.5)) as slow:
        slow.begin()
        slow._ask("use `reads`")
        with pytest.raises(
            SourceUnavailable, match=r"did not answer: .*(max_statement_time|maximum statement.*) exceeded"
        ):
            slow._ask(f"select sum(p0.b + p6.b) from {', '.join(f'pairs p{number}' for number in range(7))}")


def test_the_database_may_rest(server: Mariadb, tables: dict[str, Table]) -> None:
    with reader(server, Limits(100, 30)) as slow:
        slow.begin()
        begun = time.monotonic()
        slow.total(slow.relation(tables["pairs"]), (), ())
        assert time.monotonic() - begun > len(WORDS) * 4 / 100 * 0.9
        assert slow.rows == len(WORDS) * 4


def test_a_lake_shows_a_snapshot_once_nothing_of_its_tables_lies_between(
    server: Mariadb, source: Mysql, tables: dict[str, Table]
) -> None:
    def written() -> int:
        """Change a counter, and return where its row lies in the binlog."""
        server.sql("update counters set n = n + 1 where id = 1", "reads")
        file = server.binlog_file()
        events = server.sql(f"show binlog events in '{file}'")
        return binlog_position(file, [row[1] for row in events if row[2].startswith("Update_rows")][-1]) or 0

    counters, pairs = [tables["counters"]], [tables["pairs"]]
    before, csn = written(), written()
    for _ in range(2):
        moment = source.begin()
        assert (source.shows(moment, csn, counters), source.shows(moment, before, counters)) == (True, False)
        assert source.shows(moment, before, pairs) and source.shows(moment, moment.at_most, counters)
    server.sql("drop table if exists other; create table other (id int primary key)", "reads")
    server.sql("insert into other values (1)", "reads")
    server.sql("flush binary logs; flush binary logs; insert into other values (2)", "reads")
    assert source.shows(source.begin(), csn, counters)
    later = written()
    moment = source.begin()
    assert (source.shows(moment, csn, counters), source.shows(moment, later, counters)) == (False, True)
    server.sql("truncate counters; insert into counters values (1, 0)", "reads")
    assert not source.shows(source.begin(), later, counters)


def test_a_column_is_read_under_the_first_of_its_names_that_the_table_has(
    source: Mysql, tables: dict[str, Table]
) -> None:
    counters = tables["counters"]
    columns = [column.model_copy(update={"source_aliases": (column.source,)}) for column in counters.columns]
    for other in ("n", "number"):
        present = columns[1].model_copy(update={"source": other, "source_aliases": ("n",) if other != "n" else ()})
        table = counters.model_copy(update={"columns": (columns[0], present)})
        source.begin()
        assert source.rows_of(source.relation(table), [(1,)]) == source.rows_of(source.relation(counters), [(1,)])
        assert source.relation(table).undeclared == ()
