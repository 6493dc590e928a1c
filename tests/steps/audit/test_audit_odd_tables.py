"""The audit beside a live PostgreSQL, of tables that were audited wrongly: changed meanwhile, odd types, null keys."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from services.postgres import Postgres
from steps.audit.audited_shop import DATABASE, NEW_SLOT, SLOT, Shop
from txloom.cli import main
from txloom.errors import ConfigurationError
from txloom.steps.audit import looks
from txloom.steps.audit.differing_rows import Chosen, chosen_tables
from txloom.storage.checks.audited_rows import audited_tables
from txloom.storage.checks.findings import open_findings
from txloom.storage.databases.postgresql import Postgresql
from txloom.storage.paths import TablePaths

SCHEMA = f"""
    CREATE EXTENSION citext;
    CREATE DOMAIN code AS char(4);
    CREATE DOMAIN codes AS char(3)[];
    CREATE DOMAIN amount AS numeric;
    CREATE TABLE odd (code code, name citext, codes codes, lists code[], amount amount, weight float8, single float4,
        PRIMARY KEY (code, name));
    CREATE TABLE loose (a int UNIQUE, note text);
    CREATE TABLE orders (id int PRIMARY KEY, note text);
    CREATE TABLE lines (id int PRIMARY KEY, "order" int, qty int);
    {NEW_SLOT};
    INSERT INTO odd VALUES ('ab', 'Ab', '{{x,NULL,yz}}', '{{a}}', 1.50, 1e20, 0.1),
        ('b', 'zz', '{{}}', NULL, 2, 100, 3),
        ('abcd', 'B', NULL, '{{}}', NULL, NULL, NULL), ('Z', 'ä', NULL, NULL, 0, -0.5, 1e-7);
    INSERT INTO loose SELECT n, 'x' FROM generate_series(1, 5) n;
    INSERT INTO orders SELECT n, 'note ' || n FROM generate_series(1, 200) n;
    INSERT INTO lines SELECT n, n / 2, n FROM generate_series(1, 400) n;
"""
DECLARED = """
name: shop
source: {{format: wal2json, files: {{path: {inbox}}}}}
completeness: {{rule: markers, patience: 2h}}
tables:
  - name: odd
    source: public.odd
    key: [code, name]
    columns: {{code: string, name: string, codes: array<string>, lists: array<string>, amount: string, weight: string,
               single: string}}
  - {{name: loose, source: public.loose, key: [a], columns: {{a: int, note: string}}}}
  - {{name: orders, source: public.orders, key: [id], columns: {{id: int, note: string}}}}
  - {{name: lines, source: public.lines, key: [id], columns: {{id: int, order: int, qty: int}}}}
targets:
  mirrors: [odd, loose, orders]
  aggregates:
    - {{name: order, root: orders, children: [{{table: lines, parent_key: [order], as: lines, relation: many}}]}}
audit: {{connection: shop_db, wait: 1s}}
"""


@pytest.fixture
def shop(
    spark: Any, postgres: Postgres, wal2json: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    postgres.fresh_database(DATABASE, SCHEMA)
    made = Shop(spark, tmp_path, postgres, DECLARED)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", made.airflow_connection)
    monkeypatch.setattr(looks, "LOOK", 0.01)
    made.deliver_changes()
    yield made
    made.drop_slot()


def findings(shop: Shop) -> list[tuple[str, str]]:
    return sorted((row["code"], row["table"]) for row in open_findings(TablePaths(shop.warehouse, "shop")))


def verdicts(shop: Shop) -> dict[str, str]:
    return {name: row["verdict"] for name, row in shop.results().items()}


def at_each_snapshot(shop: Shop, monkeypatch: pytest.MonkeyPatch, statement: str, times: int) -> None:
    """Let a statement run behind so many snapshots of an audit, before a table is read in them."""
    mark, left = Postgresql.mark, iter(range(times))

    def run_and_mark(self: Postgresql) -> None:
        if next(left, None) is not None:
            shop.sql(statement)
        mark(self)

    monkeypatch.setattr(Postgresql, "mark", run_and_mark)


@pytest.mark.long
def test_a_truncate_while_an_audit_waits_is_never_a_verdict_about_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_each_snapshot(shop, monkeypatch, "TRUNCATE orders; INSERT INTO orders VALUES (7, 'again')", 1)
    with shop.cycles():
        counts = shop.audit(wait=timedelta(seconds=60), tables=["orders"])
    assert (counts["differing"], counts["unsettled"], counts["behind"], counts["undecided"]) == (0, 0, 0, 0)
    assert (shop.results()["orders"]["verdict"], shop.results()["orders"]["rows"]) == ("equal", 1)
    assert findings(shop) == []


@pytest.mark.parametrize("statement", ["ALTER TABLE orders ALTER note TYPE varchar", "VACUUM FULL orders"])
def test_a_table_that_is_written_anew_at_every_look_is_unsettled_with_the_reason(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    rewriting = statement.replace("varchar", "varchar USING note || ''")
    at_each_snapshot(shop, monkeypatch, rewriting, looks.ROUNDS)
    command = ["audit", str(shop.folder / "shop.yaml"), "--warehouse", shop.warehouse, "--wait", "0"]
    assert main([*command, "--table", "orders", "--table", "loose"]) == 6
    assert "orders: unsettled: the source's table was changed while it was to be read: it was" in " ".join(
        capsys.readouterr().out.split()
    )
    row = shop.results()["orders"]
    assert (row["verdict"], row["differing"], row["unsettled"], row["repairs"]) == ("unsettled", 0, 0, [])
    assert row["reason"].endswith("written anew (TRUNCATE, ALTER TABLE, VACUUM FULL, CLUSTER)")
    assert shop.results()["order_current"]["not_compared"][0].startswith("the rows of orders were not compared")
    assert findings(shop) == [] and audited_tables(TablePaths(shop.warehouse, "shop")) == []


@pytest.mark.long
def test_audits_beside_statements_that_leave_the_same_rows_never_find_a_difference(shop: Shop) -> None:
    done = threading.Event()

    def disturb() -> None:
        while not done.is_set():
            shop.sql("BEGIN; CREATE TEMP TABLE t AS SELECT * FROM orders; TRUNCATE orders;"
                     " INSERT INTO orders SELECT * FROM t; COMMIT")  # fmt: skip
            shop.sql("ALTER TABLE orders ALTER id TYPE bigint; ALTER TABLE orders ALTER id TYPE int")
            shop.sql("VACUUM FULL orders")
            done.wait(1)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        seen = [shop.audit_live(tables=["orders"]) for _ in range(3)]
    finally:
        done.set()
        disturber.join()
    assert [(each["differing"], each["behind"]) for each in seen] == [(0, 0)] * 3
    assert findings(shop) == []
    shop.deliver_changes()
    assert shop.audit_live(tables=["orders"])["unsettled"] == 0


def test_types_below_domains_and_in_arrays_and_odd_numbers_are_compared_as_the_source_compares_them(
    shop: Shop,
) -> None:
    assert shop.audit(tables=["odd"])["differing"] == 0
    assert verdicts(shop)["odd"] == "equal"
    shop.sql("UPDATE odd SET amount = 'NaN', weight = 'Infinity', single = 'NaN' WHERE code = 'ab'")
    shop.sql("UPDATE odd SET amount = '-Infinity', weight = '-Infinity' WHERE code = 'b'")
    shop.sql(SLOT)
    # As Debezium sends them with decimal.handling.mode=string; wal2json sends nulls.
    table, padded = DeltaTable(shop.path("odd")), "code = 'ab  '"
    table.update(predicate=padded, updates={"amount": "'NAN'", "weight": "'Infinity'", "single": "'NaN'"})
    table.update(predicate="code = 'b   '", updates={"amount": "'NEGATIVE_INFINITY'", "weight": "'-Infinity'"})
    table.update(predicate="code = 'abcd'", updates={"codes": "make_array('x')"})
    table.update(predicate="code = 'Z   '", updates={"weight": "'-5.0E-1'", "single": "'1.00E-7'", "amount": "'1'"})
    shop.audit_live(tables=["odd"])
    assert {each[:3] for each in shop.differences("odd")} == {
        (("abcd", "B"), "changed", "codes"),
        (("Z", "ä"), "changed", "amount"),
    }
    (audited,) = audited_tables(TablePaths(shop.warehouse, "shop"))
    images = {each.op: each.image for each in audited.repairs}
    assert '"code":"Z   ","name":"ä"' in images["U"] or '"code":"abcd","name":"B"' in images["U"]


def test_rows_whose_key_is_null_are_named_and_no_repair_offers_them(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.sql("INSERT INTO loose VALUES (NULL, 'one'), (NULL, 'two')")
    shop.sql(SLOT)
    DeltaTable(shop.path("loose")).delete("a = 3")
    command = ["audit", str(shop.folder / "shop.yaml"), "--warehouse", shop.warehouse, "--table", "loose"]
    with shop.cycles():
        assert main([*command, "--wait", "60"]) == 6
    text = capsys.readouterr().out
    assert text.count("[audit] loose: a=null is in the source, and the lake cannot hold it: a of its key is null") == 2
    row = shop.results()["loose"]
    assert (row["verdict"], row["rows"], row["differing"], len(row["repairs"])) == ("different", 7, 3, 1)
    assert sorted(d["kind"] for d in row["differences"]) == ["missing", "null key", "null key"]
    (audited,) = audited_tables(TablePaths(shop.warehouse, "shop"))
    assert audited.unlisted == 0
    assert findings(shop) == [("differs from the source", "loose")]


def test_a_key_that_several_rows_have_is_named(shop: Shop) -> None:
    shop.sql("ALTER TABLE loose DROP CONSTRAINT loose_a_key; INSERT INTO loose VALUES (2, 'x'), (2, 'x')")
    shop.sql(SLOT)
    shop.audit_live(tables=["loose"])
    assert shop.differences("loose") == {(("2",), "repeated", None, "1 row", "3 rows")}
    assert shop.results()["loose"]["repairs"] == []
    with pytest.raises(ConfigurationError, match="the newest audit lists no rows that differ and can be repaired"):
        chosen_tables(shop.pipeline, TablePaths(shop.warehouse, "shop"), Chosen())


def test_documents_are_compared_with_what_the_rows_of_their_members_make(shop: Shop) -> None:
    counts = shop.audit()
    assert (counts["documents"], counts["differing"], counts["undecided"]) == (1, 0, 0)
    assert (verdicts(shop)["order_current"], shop.results()["order_current"]["rows"]) == ("equal", 200)
    documents = DeltaTable(shop.path("order_current"))
    documents.delete("id = 3")
    documents.update(predicate="id = 4", updates={"note": "'stale'"})
    documents.update(predicate="id = 5", updates={"lines": "make_array()"})
    shop.sql("UPDATE orders SET note = 'x' WHERE id = 200")
    shop.deliver_changes()
    counts = shop.audit(tables=["order_current"])
    assert verdicts(shop) == {
        "odd": "equal", "loose": "equal", "orders": "equal", "lines": "equal", "order_current": "different"
    }  # fmt: skip
    assert shop.differences("order_current") == {
        (("3",), "missing", None, None, None),
        (("4",), "changed", "note", "stale", "note 4"),
        (("5",), "changed", "lines", "0 rows", "2 rows"),
    }
    assert counts["differing"] == 3 and findings(shop) == [("documents differ from their rows", "order_current")]
    assert audited_tables(TablePaths(shop.warehouse, "shop")) == [], "no row of the source mends them"
