"""`txloom init`: it writes what a person wrote for the same source, and a lake of it is the source."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle import capture, comparison, declarations, values
from services.postgres import Postgres
from txloom.cli import main
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.config.project import PROJECT
from txloom.generate.workload.settings import SIZES
from txloom.storage.delta import arrow_tables
from workloads.small_lake import SmallLake

SHIPPED = load(PROJECT / "include" / "pipelines" / "orders.yaml", connected=False)
SCHEMA = (PROJECT / "include" / "sample" / "schema.sql").read_text()
Captured = pytest.CaptureFixture[str]


def init(folder: Path, *flags: str | Path, code: int = 0) -> Pipeline:
    """Run the command into a folder, and load what it wrote."""
    file = folder / "shop.yaml"
    assert main(["init", "shop", "--out", str(file), *map(str, flags)]) == code
    return load(file, connected=False)


def shapes(pipeline: Pipeline, *, with_types: bool = True) -> dict[str, Any]:
    """Return each table's key and columns; without the one that nobody watches."""
    return {
        table.name: (
            list(table.key),
            {column.name: str(column.type) if with_types else "" for column in table.columns},
        )
        for table in pipeline.tables
        if table.name != "audit_log"
    }


def generated(folder: Path, kind: str, *flags: str) -> Path:
    inbox = folder / "inbox"
    arguments = ["generate", "--format", kind, "--out", str(inbox), "--transactions", "400", *flags]
    assert main([*arguments, "--rows-per-transaction", SIZES]) == 0
    return inbox


def differences(lake: SmallLake, inbox: Path) -> str:
    """Return what differs between the source's final rows and a lake, by what people declared of it."""
    state = {}
    for name, table in declarations.TABLES.items():
        rows = [json.loads(line) for line in capture.lines(inbox / "_source" / "final" / f"{name}.jsonl")]
        state[name] = {tuple(row[column] for column in table.key): row for row in rows}
    actual = {
        name: comparison.keyed(
            arrow_tables.select(f"{lake.warehouse}/shop/{name}", "select * from t").to_pylist(), table.key
        )
        for name, table in declarations.TABLES.items()
    }
    unlike = comparison.differences(values.typed_state(state), actual)
    return comparison.report(unlike) if unlike else ""


def test_a_stream_of_wal2json_says_all_of_it_and_its_lake_is_the_source(tmp_path: Path, capsys: Captured) -> None:
    inbox = generated(tmp_path, "wal2json")
    capsys.readouterr()
    pipeline = init(tmp_path, "--files", inbox)
    assert capsys.readouterr().err == "7 tables, 0 of what it says are guesses\n"
    assert shapes(pipeline) == shapes(SHIPPED)
    assert pipeline.completeness.rule == "markers"
    lake = SmallLake(tmp_path, pipeline)
    lake.run()
    assert lake.rows("dead_letters") == []
    assert differences(lake, inbox) == ""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["goldengate", "debezium"])
def test_a_stream_without_types_says_tables_and_keys_and_marks_its_guesses(
    tmp_path: Path, capsys: Captured, kind: str
) -> None:
    inbox = generated(tmp_path, kind)
    capsys.readouterr()
    pipeline = init(tmp_path, "--files", inbox)
    said = capsys.readouterr().err
    assert shapes(pipeline, with_types=False) == shapes(SHIPPED, with_types=False)
    assert pipeline.source.debezium.database == ("postgresql" if kind == "debezium" else None)
    assert pipeline.source.transaction_topic == f"dev.transaction{'_metadata_json' if kind == 'goldengate' else ''}"
    marked = [line for line in (tmp_path / "shop.yaml").read_text().splitlines() if "# guess: " in line]
    columns = sum(len(table.columns) for table in pipeline.tables)
    assert len(marked) == columns + 1, "each type, and an age in alerts"
    assert said.count("  guess: ") == 20 and f"and {columns - 20} more, marked in the file" in said
    assert ("which numbers are dates" in said) is (kind == "debezium")
    lake = SmallLake(tmp_path, pipeline)
    lake.run()
    assert lake.rows("dead_letters") == [] and lake.rows("pending_transactions") == []
    assert {row["status"] for row in lake.rows("transactions")} == {"released"}


SOURCE = {"connector": "postgresql", "schema": "app", "table": "Things"}


def connect(field: str, kind: str, name: str = "", **parameters: str) -> dict[str, Any]:
    made: dict[str, Any] = {"field": field, "type": kind, "optional": True}
    return made | ({"name": name} if name else {}) | ({"parameters": parameters} if parameters else {})


def test_the_schema_in_a_debezium_message_says_types(tmp_path: Path) -> None:
    decimal = "org.apache.kafka.connect.data.Decimal"
    fields = [
        connect("id", "int64"), connect("at", "int64", "io.debezium.time.MicroTimestamp"),
        connect("day", "int32", "io.debezium.time.Date"), connect("amount", "bytes", decimal, scale="4"),
        connect("price", "bytes", decimal, **{"scale": "2", "connect.decimal.precision": "12"}),
        connect("seen", "string", "io.debezium.time.ZonedTimestamp"), connect("ok", "boolean"),
        connect("doc", "string", "io.debezium.data.Json"), connect("uid", "string", "io.debezium.data.Uuid"),
        {**connect("tags", "array"), "items": {"type": "string"}},
        connect("text", "string", **{"__debezium.source.column.type": "NUMERIC", "__debezium.source.column.length": "9",
                                     "__debezium.source.column.scale": "3"}),
    ]  # fmt: skip
    row = dict.fromkeys(["id", "at", "day", "amount", "price", "seen", "ok", "doc", "uid", "tags", "text"])
    payload = {"op": "c", "before": None, "after": row, "source": SOURCE}
    value = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": payload}
    record = {"topic": "dev.app.Things", "offset": 0, "key": json.dumps({"payload": {"id": 1}}), "value": value}
    (tmp_path / "in" / "things").mkdir(parents=True)
    (tmp_path / "in" / "things" / "1.jsonl").write_text(json.dumps(record) + "\n")
    table = init(tmp_path, "--files", tmp_path / "in", "--prefix", "dev").table("things")
    assert (table.source, list(table.key)) == ("app.Things", ["id"])
    assert {column.name: str(column.type) for column in table.columns} == {
        "id": "long", "at": "timestamp", "day": "date", "amount": "decimal(38,4)", "price": "decimal(12,2)",
        "seen": "timestamptz", "ok": "boolean", "doc": "json", "uid": "uuid", "tags": "array<string>",
        "text": "decimal(9,3)",
    }  # fmt: skip
    marked = re.findall(r"^ +(\w+): .*# guess: (.*)$", (tmp_path / "shop.yaml").read_text(), re.MULTILINE)
    assert marked[0] == ("amount", "say how wide") and len(marked) == 2


def address(postgres: Postgres) -> str:
    return f"postgresql://postgres@{postgres.address}/proposed"


def test_a_database_says_all_of_it_and_its_foreign_keys(tmp_path: Path, postgres: Postgres, capsys: Captured) -> None:
    postgres.fresh_database("proposed", SCHEMA)
    flags = ("--database", address(postgres), "--format", "debezium", "--kafka", "broker:9092", "--prefix", "dev")
    pipeline = init(tmp_path, *flags, "--connection", "shop_db")
    assert capsys.readouterr().err.splitlines()[0] == "7 tables, 0 of what it says are guesses"
    assert shapes(pipeline) == shapes(SHIPPED)
    assert pipeline.source.kafka is not None
    assert set(pipeline.source.kafka.topics) == {f"dev.public.{table.name}" for table in pipeline.tables}
    assert pipeline.source.transaction_topic == "dev.transaction"
    orphans = {(each.child, each.parent, tuple(each.parent_key)) for each in pipeline.expectations}  # type: ignore[union-attr]
    assert orphans == {
        (child, "orders", ("order_id",)) for child in ("order_details", "order_line_items", "order_attachments")
    }
    assert pipeline.audit is not None and pipeline.audit.connection == "shop_db"
    some = init(tmp_path, *flags, "--tables", "orders,public.PROMO_USES", "--force")
    assert [table.name for table in some.tables] == ["orders", "promo_uses"]


ODD = """
    CREATE SCHEMA old;
    CREATE TABLE old.lines (a int);
    CREATE TABLE lines (code text NOT NULL UNIQUE, amount numeric, span interval, wide numeric(60,2),
        "Größe in cm" real, "größe_in_cm" int);
    CREATE TABLE parts (id bigint, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
    CREATE TABLE ratios (ratio float8 PRIMARY KEY);
    CREATE TABLE quiet (id int PRIMARY KEY); ALTER TABLE quiet REPLICA IDENTITY NOTHING;
    CREATE TABLE transactions ("a b" int, a_b int PRIMARY KEY, "null" int,
        twice int GENERATED ALWAYS AS (a_b * 2) STORED);
    CREATE TABLE covered (id int, v int, PRIMARY KEY (id) INCLUDE (v));
    CREATE TABLE chosen (id int PRIMARY KEY, code text NOT NULL UNIQUE);
    ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_code_key;
    CREATE TABLE "null" (id int PRIMARY KEY, "order" int REFERENCES transactions, other bigint REFERENCES transactions);
    ALTER TABLE "null" ADD FOREIGN KEY ("order") REFERENCES transactions;
    CREATE TABLE parts_changes (id int PRIMARY KEY); CREATE TABLE "2nd" (id int PRIMARY KEY, "ID" text);
    CREATE TABLE "odd name" (id int PRIMARY KEY);
"""


def test_what_a_database_does_not_say_is_marked(tmp_path: Path, postgres: Postgres, capsys: Captured) -> None:
    postgres.fresh_database("proposed", ODD)
    pipeline = init(tmp_path, "--database", address(postgres), "--format", "wal2json")
    text = (tmp_path / "shop.yaml").read_text()
    assert {table.name: list(table.key) for table in pipeline.tables} == {
        "old_lines": [], "public_lines": ["code"], "parts": ["id", "at"], "ratios": [], "quiet": ["id"],
        "public_transactions": ["a_b"], "covered": ["id"], "chosen": ["code"], "null": ["id"], "c_2nd": ["id"],
        "parts_changes_2": ["id"],
    }  # fmt: skip
    types = {column.source: (column.name, str(column.type)) for column in pipeline.table("public_lines").columns}
    assert types == {
        "code": ("code", "string"), "amount": ("amount", "decimal(38,10)"), "span": ("span", "string"),
        "wide": ("wide", "string"), "Größe in cm": ("gr__e_in_cm", "float"), "größe_in_cm": ("gr__e_in_cm_2", "int"),
    }  # fmt: skip
    moved = pipeline.table("public_transactions")
    assert {column.name: column.source for column in moved.columns} == {"a_b_2": "a b", "a_b": "a_b", "null": "null"}
    (orphans,) = pipeline.expectations
    assert (orphans.child, orphans.parent, list(orphans.parent_key)) == ("null", "public_transactions", ["order"])  # type: ignore[union-attr]
    assert "does not have its generated columns: twice" in text and "'ID' is left out" in text
    assert "# Only you know: how 'public.odd name' is captured" in text
    for guess in (
        "it is the replica identity", "there is no key: inserts only",
        "there is no primary key: this is a unique index", "ratio is no type of a key",
        "numeric without digits: say how wide", "interval stays text", "numeric(60,2) has more digits",
    ):  # fmt: skip
        assert re.search(rf"# guess: .*{re.escape(guess)}", text), guess
    assert "ALTER TABLE public.quiet REPLICA IDENTITY FULL" in text and "publish_via_partition_root" in text
    assert "only you know: where the messages are" in capsys.readouterr().err
    refused = ["init", "shop", "--out", "-", "--database", address(postgres), "--format", "wal2json"]
    assert main([*refused, "--tables", "public.line"]) == 2
    assert "has no such table. Did you mean 'public.lines'?" in capsys.readouterr().err
    assert main([*refused, "--schema", "elsewhere"]) == 2
    assert "but the database has old, public." in capsys.readouterr().err


def test_extracts_say_types_and_a_key_is_guessed(tmp_path: Path, capsys: Captured) -> None:
    day = tmp_path / "in" / "2026-06-02"
    for name in ("lines", "people", "towns", "_SUCCESS"):
        (day / name).mkdir(parents=True)
    (tmp_path / "in" / "2026-06-01").mkdir()
    rows = pa.table({"id": [1, 2, 3], "kind": ["a", "a", "b"], "amount": pa.array([1, 2, 3], pa.decimal128(12, 2))})
    pq.write_table(rows, day / "lines" / "1.parquet")
    (day / "people" / "0.csv").write_text("kind,name,born\n")
    (day / "people" / "1.csv").write_text("\ufeffkind,name,born\nx,Ann,2001-05-06\nx,Bob,\n")
    for name in ("Upper", "empty"):
        (day / name).mkdir()
        (day / name / "1.csv").write_text("id\n" + ("1\n" if name == "Upper" else ""))
    (day / "towns" / "1.jsonl").write_text('{"id": "A", "at": 7}\n{"id": "B", "at": 7}\n')
    pipeline = init(tmp_path, "--files", tmp_path / "in")
    assert shapes(pipeline) == {
        "towns": (["id"], {"id": "string", "at": "long"}),
        "lines": (["id"], {"id": "long", "kind": "string", "amount": "decimal(12,2)"}),
        "people": (["name"], {"kind": "string", "name": "string", "born": "date"}),
    }
    assert pipeline.source.format == "snapshots"
    said = capsys.readouterr().err
    assert "what Upper may be called" in said and "which columns empty has" in said
    assert "key: [name]  # guess: name had no value twice in 2 rows" in (tmp_path / "shop.yaml").read_text()


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        (("--files", "{}/none"), "--files: found {}/none, expected a folder with one sub-folder for each topic."),
        (("--files", "{}"), "--files: found no messages below {}, expected TOPIC/FILE.jsonl."),
        ((), "init from what? Give --database, or --files with messages or extracts."),
        (("--database", "postgresql://127.0.0.1:1/x", "--format", "wal2json"), "the database did not answer: "),
        (("--files", "{}", "--format", "oracle"), "--format: found oracle, expected one of debezium, wal2json, "),
    ],
)
def test_what_it_cannot_do_it_says(tmp_path: Path, capsys: Captured, flags: tuple[str, ...], refused: str) -> None:
    given = [flag.format(tmp_path) for flag in flags]
    assert main(["init", "shop", "--out", "-", *given]) in (2, 12)
    assert f"txloom init: {refused.format(tmp_path)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [("1.jsonl.gz", b"no gzip"), ("1.jsonl", b'{"payload": "x"}\n{"change": null}\n' + b"[" * 100_000 + b"\n")],
)
def test_what_cannot_be_read_is_an_error_with_its_file(
    tmp_path: Path, capsys: Captured, name: str, content: bytes
) -> None:
    (tmp_path / "in" / "topic").mkdir(parents=True)
    (tmp_path / "in" / "topic" / name).write_bytes(content)
    assert main(["init", "shop", "--out", "-", "--files", str(tmp_path / "in")]) == 2
    said = capsys.readouterr().err
    assert f"txloom init: --files: {tmp_path}" in said or "txloom init: found no table" in said


def test_a_file_is_not_replaced_unasked(tmp_path: Path, capsys: Captured) -> None:
    inbox = generated(tmp_path, "wal2json")
    init(tmp_path, "--files", inbox)
    assert main(["init", "shop", "--files", str(inbox), "--out", str(tmp_path / "shop.yaml")]) == 2
    assert "it exists already; --force replaces it, --out - prints instead." in capsys.readouterr().err
    assert main(["init", "Shop", "--files", str(inbox)]) == 2
    init(tmp_path, "--files", inbox, "--force")
