"""The audit of a lake beside a live PostgreSQL: every planted difference is named, and nothing else is."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from services.postgres import Postgres
from services.process import wait_until
from steps.audit.audited_shop import DATABASE, NEW_SLOT, SLOT, Shop
from txloom.cli import main
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths

ROWS = 3_000
LOWEST = -(2**63)
SCHEMA = f"""
    CREATE TABLE orders (id bigint PRIMARY KEY, note text, amount numeric(20,4), at timestamptz, day date,
        weight float8, ok boolean, raw bytea, doc jsonb, tags text[], code char(4), at_time time, uid uuid);
    CREATE TABLE lines (place text, line int, qty numeric(38,10), PRIMARY KEY (place, line));
    CREATE TABLE visits (note text);
    {NEW_SLOT};
    INSERT INTO orders SELECT n, 'ž' || n, n / 3.0, timestamptz '2026-03-29 00:59:59.5+00' + n * interval '1 s',
        '1969-12-31', n / 7.0, n % 2 = 0, decode('00ff', 'hex'), '{{"a": 1}}', '{{a,NULL,"b c"}}', 'ab', '23:59:59.5',
        gen_random_uuid() FROM generate_series(1, {ROWS}) n;
    INSERT INTO orders (id, note) VALUES ({LOWEST}, 'lowest');
    INSERT INTO lines SELECT 'Läge ' || n % 40, n, n / 3.0 FROM generate_series(1, 200) n;
"""
DECLARED = """
name: shop
source: {{format: wal2json, files: {{path: {inbox}}}}}
completeness: {{rule: markers, patience: 2h}}
tables:
  - name: orders
    source: public.orders
    key: [id]
    columns: {{id: long, note: string, amount: 'decimal(20,4)', at: timestamptz, day: date, weight: double, ok: boolean,
               raw: binary, doc: json, tags: array<string>, code: string, at_time: time, uid: uuid}}
  - name: lines
    source: PUBLIC.LINES
    key: [place, line]
    columns: {{place: string, line: int, qty: 'decimal(38,10)'}}
  - {{name: visits, source: public.visits, key: none, columns: {{note: string}}}}
targets: {{mirrors: ["*"]}}
audit: {{connection: shop_db, wait: 1s}}
"""


@pytest.fixture
def shop(
    spark: Any, postgres: Postgres, wal2json: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    postgres.fresh_database(DATABASE, SCHEMA)
    made = Shop(spark, tmp_path, postgres, DECLARED)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", made.airflow_connection)
    made.caught_up()
    yield made
    made.drop_slot()


def test_a_lake_that_equals_the_source_is_equal_row_by_row(shop: Shop) -> None:
    counts = shop.audit()
    assert (counts["tables"], counts["rows"], counts["differing"]) == (2, ROWS + 201, 0)
    assert {name: (row["verdict"], row["rows"]) for name, row in shop.results().items()} == {
        "orders": ("equal", ROWS + 1), "lines": ("equal", 200), "visits": ("not compared", 0)
    }  # fmt: skip
    assert counts["source_rows"] == ROWS + 201, "digests alone were read"
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


def test_every_planted_difference_is_named_with_its_column_and_both_values(shop: Shop) -> None:
    orders, lines = DeltaTable(shop.path("orders")), DeltaTable(shop.path("lines"))
    planted = {
        (7, "note", "'other'"): ("other", "ž7"),
        (8, "note", "null"): (None, "ž8"),
        (9, "amount", "3.0001"): ("3.0001", "3.0000"),
        (10, "weight", "1.4285714285714288"): ("1.4285714285714288", "1.4285714285714286"),
        (11, "ok", "true"): ("t", "f"),
        (12, "day", "date '1970-01-01'"): ("1970-01-01", "1969-12-31"),
        (13, "tags", "make_array('a', 'b')"): ("1:a1:b", "1:a~3:b c"),
        (14, "code", "'cd'"): ("cd", "ab"),
        (15, "raw", "X'00fe'"): ("00fe", "00ff"),
        (16, "doc", "'{}'"): ("{}", '{"a": 1}'),
        (17, "at_time", "'23:59:59'"): ("23:59:59", "23:59:59.5"),
        (ROWS, "note", "''"): ("", f"ž{ROWS}"),
        (LOWEST, "note", "'low'"): ("low", "lowest"),
    }
    for key, column, value in planted:
        orders.update(predicate=f"id = {key}", updates={column: value})
    orders.delete("id in (1, 20)")
    lines.delete("place = 'Läge 3' and line = 83")
    shop.sql(
        "ALTER TABLE orders DISABLE TRIGGER ALL; DELETE FROM lines WHERE line = 84; DELETE FROM orders WHERE id = 21"
    )
    shop.sql(SLOT)
    shop.sql("UPDATE orders SET id = 90000 WHERE id = 22")
    shop.sql(SLOT)
    expected = {((str(key),), "changed", column) for key, column, _ in planted}
    expected |= {(("1",), "missing", None), (("20",), "missing", None), (("21",), "extra", None)}
    expected |= {(("22",), "extra", None), (("90000",), "missing", None)}
    counts = shop.audit_live()
    assert {difference[:3] for difference in shop.differences("orders")} == expected
    values = {(int(d[0][0]), d[2]): d[3:] for d in shop.differences("orders")}
    assert {(key, column): values[key, column] for key, column, _ in planted} == {
        (key, column): both for (key, column, _), both in planted.items()
    }
    assert shop.differences("lines") == {
        (("Läge 3", "83"), "missing", None, None, None), (("Läge 4", "84"), "extra", None, None, None)
    }  # fmt: skip
    assert counts["differing"] == len(expected) + 2
    (lines_finding, orders_finding) = sorted(
        open_findings(TablePaths(shop.warehouse, "shop")), key=lambda row: row["table"]
    )
    assert orders_finding["code"] == "differs from the source" and orders_finding["needs_snapshot"]
    assert "18 of 3000 rows differ" in orders_finding["evidence"] and lines_finding["table"] == "lines"
    shop.audit_live()
    assert len(open_findings(TablePaths(shop.warehouse, "shop"))) == 2, "a finding is open once"


@pytest.mark.long
def test_nothing_is_reported_while_the_source_is_written_to(shop: Shop) -> None:
    done = threading.Event()

    def write() -> None:
        chance, connection = Random(7), shop.connection()
        with connection.cursor() as cursor:
            while not done.is_set():
                key = chance.randint(1, ROWS)
                cursor.execute(f"UPDATE orders SET note = note || 'x', amount = amount + 1 WHERE id = {key}")
                cursor.execute(f"DELETE FROM orders WHERE id = {key + 1}")
                cursor.execute(f"UPDATE orders SET id = {10_000 + chance.randint(1, 10**9)} WHERE id = {key + 2}")
                time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [shop.audit_live() for _ in range(2)]
    finally:
        done.set()
        writer.join()
    assert [(each["differing"], each["behind"]) for each in seen] == [(0, 0)] * 2
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


def test_a_commit_that_is_in_the_log_and_not_visible_yet_is_no_difference(shop: Shop) -> None:
    """With synchronous replication a commit is decoded while the database still waits for a standby with it."""
    shop.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    shop.sql("SELECT pg_reload_conf()")
    waiting = threading.Thread(target=shop.sql, args=("UPDATE orders SET note = 'decoded' WHERE id = 3", "on"))

    def is_shown() -> bool:
        return any(row["note"] == "decoded" for row in shop.rows("orders"))

    try:
        waiting.start()
        with shop.cycles():
            wait_until(is_shown, "the lake to show it", 60)
        assert shop.sql("SELECT note FROM orders WHERE id = 3") == [("ž3",)], "the database does not show it yet"
        counts = shop.audit_live(wait=20, tables=["orders"])
        assert (counts["differing"], counts["unsettled"], counts["behind"]) == (0, 1, 0)
    finally:
        shop.sql("ALTER SYSTEM RESET synchronous_standby_names")
        shop.sql("SELECT pg_reload_conf()")
        waiting.join()
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []
    assert shop.audit_live(tables=["orders"])["unsettled"] == 0


def test_the_command_says_which_rows_differ(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", str(shop.folder / "shop.yaml"), "--warehouse", shop.warehouse]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert re.search(r"^equal +lines +200 +0 +0", text, re.MULTILINE), text
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'planted'"})
    with shop.cycles():
        assert main([*command, "--table", "orders", "--wait", "120"]) == 6
    text = capsys.readouterr().out
    assert re.search(rf"^different +orders +{ROWS + 1} +1 +0", text, re.MULTILINE), text
    assert re.search(r"^id=5 +note +planted +ž5 +\d+", text, re.MULTILINE), text
    with shop.cycles():
        assert main([*command, "--table", "orders", "--wait", "120", "--json"]) == 6
    text = capsys.readouterr().out
    (table,) = json.loads(text[text.index("{\n") :])["tables"]
    assert [(each["key"], each["column"]) for each in table["differences"]] == [({"id": "5"}, "note")]
    assert main([*command, "--table", "elsewhere"]) == 2
    assert "no table elsewhere is in the lake" in capsys.readouterr().err
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_DB")
    assert main(command) == 2
    assert "audit.connection: expected the connection shop_db. Define it in Airflow" in capsys.readouterr().err


def test_rows_that_are_on_their_way_are_behind_and_no_finding(shop: Shop) -> None:
    shop.sql("UPDATE orders SET note = 'late' WHERE id in (1, 2, 3)")
    counts = shop.audit()
    assert (counts["differing"], counts["behind"], counts["unsettled"]) == (0, 3, 0)
    assert shop.results()["orders"]["verdict"] == "behind"
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


def test_a_finding_closes_when_an_audit_finds_all_equal(shop: Shop) -> None:
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'planted'"})
    shop.audit_live()
    assert [row["table"] for row in open_findings(TablePaths(shop.warehouse, "shop"))] == ["orders"]
    DeltaTable(shop.path("orders")).update(predicate="id = 5", updates={"note": "'ž5'"})
    shop.audit_live(tables=["orders"])
    assert open_findings(TablePaths(shop.warehouse, "shop")) == []


def test_what_cannot_be_compared_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match="no table elsewhere is in the lake; it has lines, orders, visits"):
        shop.audit(tables=["elsewhere"])
    shop.sql("ALTER TABLE lines RENAME COLUMN qty TO quantity; ALTER TABLE orders ADD secret text, ADD more int")
    with pytest.raises(ConfigurationError, match=r"lines: PUBLIC.LINES has no column qty in the database"):
        shop.audit(tables=["lines"])
    counts = shop.audit()
    assert (counts["tables"], counts["undecided"], counts["differing"]) == (1, 1, 0), "the others are compared"
    verdicts = {name: (row["verdict"], row["reason"], row["not_compared"]) for name, row in shop.results().items()}
    assert verdicts == {
        "orders": ("equal", None, ["columns of the source that are not declared: more, secret"]),
        "lines": ("not compared", "PUBLIC.LINES has no column qty in the database", []),
        "visits": ("not compared", "it has no key, so that its rows cannot be told apart", []),
    }
    assert main(["audit", str(shop.folder / "shop.yaml"), "--warehouse", shop.warehouse]) == 6
    said = " ".join(capsys.readouterr().out.split())
    assert "lines: not compared: PUBLIC.LINES has no column qty in the database" in said
    assert "orders: not compared: columns of the source that are not declared: more, secret" in said
    shop.sql("ALTER TABLE lines RENAME TO elsewhere")
    with pytest.raises(ConfigurationError, match=r"lines: expected one table PUBLIC.LINES in the database, found none"):
        shop.audit(tables=["lines"])
    shop.sql("ALTER TABLE orders RENAME TO others")
    with pytest.raises(ConfigurationError, match=r"expected one table PUBLIC.LINES in the database, found none"):
        shop.audit()
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps({"conn_type": "postgres", "host": "127.0.0.1", "port": 1}))
    with pytest.raises(SourceUnavailable, match="no connection to the database: "):
        shop.audit()
    shop.pipeline = shop.pipeline.model_copy(update={"audit": None})
    with pytest.raises(ConfigurationError, match="shop declares no database to compare with: add `audit: "):
        shop.audit()
    assert os.environ["AIRFLOW_CONN_SHOP_DB"]
