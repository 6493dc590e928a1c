"""A PostgreSQL database as an audit reads it: statements without versions of rows, types, and keys."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from random import Random
from typing import Any

import psycopg2
import pytest

from services.postgres import Postgres
from txloom.config import load
from txloom.config.models.pipeline import Table
from txloom.errors import ConfigurationError
from txloom.storage.databases import connection as connections
from txloom.storage.databases import postgresql
from txloom.storage.databases.audit_source import Limits, TableChanged
from txloom.storage.databases.connected import connected
from txloom.storage.databases.postgresql import Postgresql

FREE = Limits(10**6, 30)
SCHEMA = """
    CREATE EXTENSION citext;
    CREATE DOMAIN code AS char(4);
    CREATE DOMAIN short_code AS code CHECK (length(VALUE) < 4);
    CREATE DOMAIN codes AS char(3)[];
    CREATE DOMAIN amount AS numeric(20, 4);
    CREATE TYPE mood AS ENUM ('sad', 'Ok', 'happy');
    CREATE TABLE plain (id int PRIMARY KEY, note text, n int);
    CREATE TABLE parts (id int PRIMARY KEY, note text, n int) PARTITION BY RANGE (id);
    CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (50);
    CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (50) TO (1000);
    CREATE TABLE typed (code short_code, name citext, mood mood, codes codes, lists code[], amount amount,
        amounts amount[], weight float8, single float4, PRIMARY KEY (code, name, mood));
    CREATE TABLE loose (a int, b text, UNIQUE (a, b));
    CREATE TABLE hidden (id int PRIMARY KEY);
"""
DECLARED = """
name: shop
source: {format: wal2json, files: {path: /inbox}}
completeness: {rule: markers, patience: 2h}
tables:
  - {name: plain, source: reads.public.plain, key: [id], columns: {id: int, note: string, n: int}}
  - {name: parts, source: public.parts, key: [id], columns: {id: int, note: string, n: int}}
  - name: typed
    source: public.typed
    key: [code, name, mood]
    columns: {code: string, name: string, mood: string, codes: array<string>, lists: array<string>, amount: string,
              amounts: array<string>, weight: string, single: string}
  - {name: loose, source: public.loose, key: [a, b], columns: {a: int, b: string}}
  - {name: hidden, source: public.hidden, key: [id], columns: {id: int}}
targets: {mirrors: ["*"]}
"""
FILL = """
    TRUNCATE plain, parts;
    INSERT INTO plain SELECT n, 'note ' || n, n FROM generate_series(1, 100) n;
    INSERT INTO parts SELECT n, 'note ' || n, n FROM generate_series(1, 100) n
"""
REWRITES = {
    "truncate": "TRUNCATE {table}",
    "truncate and fill": "BEGIN; TRUNCATE {table}; INSERT INTO {table} SELECT * FROM spare; COMMIT",
    "rewriting alter": "ALTER TABLE {table} ALTER n TYPE bigint; ALTER TABLE {table} ALTER n TYPE int",
    "swapped columns": "ALTER TABLE {table} RENAME n TO m; ALTER TABLE {table} ADD n int",
    "replaced": "BEGIN; ALTER TABLE {table} RENAME TO gone; CREATE TABLE {table} AS SELECT * FROM spare; COMMIT",
    "dropped": "DROP TABLE {table}",
    "cluster": "CLUSTER {table} USING {table}_pkey",
    "vacuum full": "VACUUM FULL {table}",
}
PARTITIONS = {
    "truncated": "TRUNCATE parts_low",
    "detached": "ALTER TABLE parts DETACH PARTITION parts_low",
    "detached slowly": "ALTER TABLE parts DETACH PARTITION parts_low CONCURRENTLY",
    "dropped": "DROP TABLE parts_low",
    "attached": "ALTER TABLE parts ATTACH PARTITION more FOR VALUES FROM (1000) TO (2000)",
    "rewritten": "ALTER TABLE parts ALTER n TYPE bigint",
}


@pytest.fixture(scope="module")
def tables(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    (file := tmp_path_factory.mktemp("reads") / "shop.yaml").write_text(DECLARED)
    return {table.name: table for table in load(file, connected=False).tables}


@pytest.fixture
def sql(postgres: Postgres) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Run statements in a database with a table of 100 rows and a partitioned one."""
    postgres.fresh_database("reads", SCHEMA)
    with closing(connection(postgres)) as made, made.cursor() as cursor:

        def run(text: str) -> list[tuple[Any, ...]]:
            for statement in [text] if text.startswith("BEGIN") else text.split(";\n"):
                for each in [statement] if statement.startswith("BEGIN") else statement.split("; "):
                    cursor.execute(each)
            return list(cursor.fetchall()) if cursor.description else []

        run(FILL)
        run("CREATE TABLE spare AS SELECT * FROM plain")
        run("CREATE TABLE more AS SELECT id + 1000 AS id, note, n FROM plain; ALTER TABLE more ADD PRIMARY KEY (id)")
        yield run


def connection(postgres: Postgres) -> Any:
    host, port = postgres.address.split(":")
    made = psycopg2.connect(host=host, port=port, user="postgres", dbname="reads")
    made.autocommit = True
    return made


@pytest.fixture
def source(postgres: Postgres, sql: Any) -> Iterator[Postgresql]:
    with ExitStack() as stack:
        yield stack.enter_context(reader(postgres))


def reader(postgres: Postgres, login: str = "postgres", limits: Limits = FREE) -> Any:
    host, port = postgres.address.split(":")
    fields = {"conn_type": "postgres", "host": host, "port": int(port), "login": login, "schema": "reads"}
    return connected(fields, limits)


def read(source: Postgresql, table: Table, between: Callable[[], object] = lambda: None) -> tuple[int, int]:
    """Return how many rows a table has, by digests and by their keys; between: is called between the two."""
    with source.reading(table) as relation:
        count, _ = source.total(relation, (), ())
        between()
        return count, len(source.rows_of(relation, [(n,) for n in range(3000)]))


def read_often(source: Postgresql, table: Table, times: int, first: Callable[[], object]) -> None:
    """Read a table so many times while it is to be held; first: is called when it is."""
    with source.reading(table) as relation:
        first()
        for _ in range(times):
            assert source.total(relation, (), ())[0] == 100


@pytest.mark.parametrize("statement", REWRITES.values(), ids=REWRITES)
def test_a_table_that_was_truncated_or_written_anew_since_the_snapshot_is_not_read(
    source: Postgresql, sql: Any, tables: dict[str, Table], statement: str
) -> None:
    source.begin()
    assert read(source, tables["plain"]) == (100, 100)
    sql(statement.format(table="plain"))
    with pytest.raises(TableChanged):
        read(source, tables["plain"])
    assert read(source, tables["parts"]) == (100, 100), "the snapshot goes on for other tables"


@pytest.mark.parametrize("statement", PARTITIONS.values(), ids=PARTITIONS)
def test_a_partition_that_comes_or_goes_since_the_snapshot_is_noticed(
    source: Postgresql, sql: Any, tables: dict[str, Table], statement: str
) -> None:
    source.begin()
    threading.Thread(target=sql, args=(statement,)).start() if "CONCURRENTLY" in statement else sql(statement)
    with suppress(TableChanged):
        assert read(source, tables["parts"]) == (100, 100), "as of the snapshot"
    assert read(source, tables["plain"]) == (100, 100)
    source.close()


def test_no_statement_gets_in_while_a_table_is_read_and_none_waits_for_an_audit_that_waits(
    source: Postgresql, sql: Any, tables: dict[str, Table]
) -> None:
    def truncate_in_vain() -> None:
        with pytest.raises(psycopg2.errors.LockNotAvailable):
            sql("SET lock_timeout = '50ms'; TRUNCATE plain")

    source.begin()
    assert read(source, tables["plain"], truncate_in_vain) == (100, 100)
    sql("SET lock_timeout = '1s'; TRUNCATE plain")
    source.begin()
    assert read(source, tables["plain"]) == (0, 0)


def test_nothing_is_locked_while_the_lake_is_read(source: Postgresql, sql: Any, tables: dict[str, Table]) -> None:
    """The lake's side is read before the first range and after the rows that differ: both may take minutes."""
    locks = "SELECT count(*) FROM pg_locks WHERE relation = 'plain'::regclass"
    source.begin()
    with source.reading(tables["plain"]) as relation:
        assert sql(locks) == [(0,)]
        source.total(relation, (), ())
        assert sql(locks) == [(1,)]
        source.rows_of(relation, [(1,)])
        assert sql(locks) == [(0,)]
    sql("TRUNCATE plain")
    with pytest.raises(TableChanged):
        read(source, tables["plain"])


def test_a_partition_that_is_attached_while_its_table_is_read_is_noticed(
    source: Postgresql, sql: Any, tables: dict[str, Table]
) -> None:
    source.begin()
    with pytest.raises(TableChanged, match="a partition or a child was attached or detached"):
        read(source, tables["parts"], lambda: sql(PARTITIONS["attached"]))


def test_a_table_that_stays_locked_is_not_waited_for_for_ever(
    source: Postgresql, postgres: Postgres, sql: Any, tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "LOCK_WAIT_S", 0.1)
    with closing(connection(postgres)) as other, other.cursor() as cursor:
        cursor.execute("BEGIN; TRUNCATE plain")
        source.begin()
        with pytest.raises(TableChanged, match="another statement has locked it"):
            read(source, tables["plain"])
        cursor.execute("ROLLBACK")
    assert read(source, tables["plain"]) == (100, 100), "which was rolled back"


def test_a_statement_of_the_source_waits_for_one_range_and_not_for_the_whole_table(
    postgres: Postgres, sql: Any, tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the declared rate a table is read for minutes; a statement that waited so long would hold up all others."""
    monkeypatch.setattr(connections, "LOCK_HELD_S", 0.2)
    waited = list[float]()

    def truncate() -> None:
        begun = time.monotonic()
        sql("SET lock_timeout = '20s'; TRUNCATE plain")
        waited.append(time.monotonic() - begun)

    with reader(postgres, limits=Limits(100, 30)) as source:
        source.begin()
        truncating = threading.Thread(target=truncate)
        with pytest.raises(TableChanged, match="it was truncated or written anew"):
            read_often(source, tables["plain"], 5, truncating.start)
        truncating.join()
    assert waited[0] < 2, "five ranges take five seconds or more"


def test_what_has_no_rows_of_its_own_in_the_log_is_named_and_not_read(
    source: Postgresql, sql: Any, tables: dict[str, Table]
) -> None:
    sql("ALTER TABLE plain RENAME TO plain_rows; CREATE VIEW plain AS SELECT * FROM plain_rows")
    source.begin()
    with pytest.raises(ConfigurationError, match=r"expected one table .*, found public\.plain \(a view\)"):
        read(source, tables["plain"])
    sql("DROP VIEW plain; CREATE MATERIALIZED VIEW plain AS SELECT * FROM plain_rows")
    source.begin()
    with pytest.raises(ConfigurationError, match=r"found public\.plain \(a materialized view\)"):
        read(source, tables["plain"])
    sql("CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far")
    sql("ALTER TABLE parts DROP CONSTRAINT parts_pkey")
    sql("CREATE FOREIGN TABLE parts_far PARTITION OF parts FOR VALUES FROM (5000) TO (6000) SERVER far")
    source.begin()
    with pytest.raises(ConfigurationError, match="parts: parts_far is a foreign table, of whose rows there is no snap"):
        read(source, tables["parts"])


def test_rows_of_tables_that_inherit_count_as_rows_of_the_parent(
    source: Postgresql, sql: Any, tables: dict[str, Table]
) -> None:
    """As `select` shows them: none of them can seem absent. A truncate of the child is seen too."""
    sql("CREATE TABLE kind () INHERITS (plain); INSERT INTO kind VALUES (101, 'child', 1)")
    source.begin()
    assert read(source, tables["plain"]) == (101, 101)
    sql("TRUNCATE kind")
    with pytest.raises(TableChanged):
        read(source, tables["plain"])


def test_a_user_needs_the_right_to_read_the_declared_columns_and_no_other(
    postgres: Postgres, sql: Any, tables: dict[str, Table]
) -> None:
    sql("DROP ROLE IF EXISTS seer; CREATE ROLE seer LOGIN; GRANT SELECT (id, note, n) ON plain TO seer")
    sql("ALTER TABLE plain ADD secret text; GRANT SELECT (id, n) ON parts TO seer")
    with reader(postgres, "seer") as source:
        source.begin()
        assert read(source, tables["plain"]) == (100, 100)
        with pytest.raises(ConfigurationError, match=r"parts: .*permission denied.*: let the user read the declared"):
            read(source, tables["parts"])
        assert read(source, tables["plain"]) == (100, 100), "the snapshot goes on"
    sql("DROP OWNED BY seer; DROP ROLE seer")


@pytest.mark.long
def test_at_any_moment_a_table_is_read_as_of_the_snapshot_or_not_at_all(
    source: Postgresql, postgres: Postgres, sql: Any, tables: dict[str, Table]
) -> None:
    """Every statement leaves the same rows, so that any other number of them was never there."""
    statements = [
        "BEGIN; TRUNCATE plain; INSERT INTO plain SELECT * FROM spare; COMMIT",
        "BEGIN; TRUNCATE parts_low; INSERT INTO parts SELECT * FROM spare WHERE id < 50; COMMIT",
        "ALTER TABLE plain ALTER n TYPE bigint; ALTER TABLE plain ALTER n TYPE int",
        "ALTER TABLE parts ALTER n TYPE bigint; ALTER TABLE parts ALTER n TYPE int",
        "VACUUM FULL plain",
        "CLUSTER plain USING plain_pkey",
        "BEGIN; ALTER TABLE parts DETACH PARTITION parts_low;"
        " ALTER TABLE parts ATTACH PARTITION parts_low FOR VALUES FROM (0) TO (50); COMMIT",
        "UPDATE plain SET note = note || 'x' WHERE id = 7",
    ]
    done, failed = threading.Event(), list[BaseException]()

    def disturb(seed: int) -> None:
        chance = Random(seed)
        with closing(connection(postgres)) as made, made.cursor() as cursor:
            while not done.is_set():
                chosen = chance.choice(statements)
                try:
                    for each in [chosen] if chosen.startswith("BEGIN") else chosen.split("; "):
                        cursor.execute(each)
                except psycopg2.errors.DeadlockDetected:
                    cursor.execute("ROLLBACK")
                except BaseException as error:  # noqa: BLE001  (a thread's error is the test's)
                    failed.append(error)
                    return
                done.wait(chance.random() / 50)

    disturbers = [threading.Thread(target=disturb, args=(seed,)) for seed in range(2)]
    for each in disturbers:
        each.start()
    chance, seen, refused = Random(7), list[tuple[int, int]](), 0
    try:
        while len(seen) < 60 or refused < 5:
            source.begin()
            done.wait(chance.random() / 20)
            for name in ("plain", "parts"):
                try:
                    seen.append(read(source, tables[name], lambda: done.wait(chance.random() / 100)))
                except TableChanged:
                    refused += 1
    finally:
        done.set()
        for each in disturbers:
            each.join()
    assert not failed
    assert set(seen) == {(100, 100)}


def test_types_below_domains_and_arrays_are_found(source: Postgresql, sql: Any, tables: dict[str, Table]) -> None:
    sql(
        "INSERT INTO typed VALUES ('ab', 'Ab', 'Ok', '{x,NULL}', '{y}', 'NaN', '{NaN,1.5}', 'Infinity', 0.1),"
        " ('b', 'zz', 'sad', '{}', NULL, 1.5, NULL, 1e20, 'NaN')"
    )
    source.begin()
    with source.reading(tables["typed"]) as relation:
        assert relation.forms == {
            "code": "padded", "codes": "padded", "lists": "padded", "amount": "numeric", "amounts": "numeric",
            "weight": "double", "single": "single",
        }  # fmt: skip
        assert relation.widths == {"code": 4, "codes": 3, "lists": 4}
        assert source.rows_of(relation, [("ab", "Ab", "Ok"), ("b", "zz", "sad"), ("beyond", "x", "angry")]) == {
            ("ab", "Ab", "Ok"): [("ab", "Ab", "Ok", "1:x~", "1:y", "NaN", "3:NaN6:1.5000", "Infinity", "0.1")],
            ("b", "zz", "sad"): [("b", "zz", "sad", "", None, "1.5000", None, "100000000000000000000", "NaN")],
        }
        assert len(source.listed(relation, ("ab", "B", "Ok"), ())) == 1, "texts are ordered by their bytes"


def test_a_key_that_is_null_in_part_is_in_no_range(source: Postgresql, sql: Any, tables: dict[str, Table]) -> None:
    sql("INSERT INTO loose VALUES (1, 'x'), (1, NULL), (1, NULL), (NULL, 'y')")
    source.begin()
    with source.reading(tables["loose"]) as relation:
        assert source.total(relation, (), ())[0] == source.total(relation, (0, ""), ())[0] == 1
        assert sorted(source.keyless(relation), key=str) == [("1", None), ("1", None), (None, "y")]
    with source.reading(tables["plain"]) as relation:
        assert source.keyless(relation) == [] and relation.nullable == ()


def test_a_row_that_a_policy_hides_is_not_taken_for_one_that_is_not_there(
    postgres: Postgres, sql: Any, tables: dict[str, Table]
) -> None:
    sql("DROP ROLE IF EXISTS seer; CREATE ROLE seer LOGIN; GRANT SELECT ON hidden, plain TO seer")
    sql("ALTER TABLE hidden ENABLE ROW LEVEL SECURITY; INSERT INTO hidden VALUES (1)")
    with reader(postgres, "seer") as source:
        source.begin()
        assert read(source, tables["plain"]) == (100, 100)
        with pytest.raises(ConfigurationError, match=r"row-level security hides rows of public\.hidden"):
            read(source, tables["hidden"])
    sql("DROP OWNED BY seer; DROP ROLE seer")


def renamed(table: Table, key: str, value: str) -> Table:
    """Return a table with new names of two columns; each has its present name as a former one."""
    now = {table.key[0]: key, table.columns[1].name: value}
    columns = tuple(
        column.model_copy(update={"source": now[column.name], "source_aliases": (column.source,)})
        if column.name in now
        else column
        for column in table.columns
    )
    return table.model_copy(update={"columns": columns})


def test_a_column_is_read_under_the_first_of_its_names_that_the_table_has(
    source: Postgresql, sql: Any, tables: dict[str, Table]
) -> None:
    table = renamed(tables["plain"], "number", "remark")
    source.begin()
    before = source.rows_of(source.relation(table), [(1,)])
    assert before == source.rows_of(source.relation(tables["plain"]), [(1,)])
    source.begin()
    sql("ALTER TABLE plain RENAME id TO number; ALTER TABLE plain RENAME note TO remark")
    source.begin()
    assert source.rows_of(relation := source.relation(table), [(1,)]) == before
    assert relation.undeclared == ()
    with pytest.raises(ConfigurationError, match="has no column id, note in the database"):
        source.relation(tables["plain"])
