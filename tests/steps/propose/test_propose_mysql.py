"""`txloom init` out of the catalog of a real MariaDB, and of a real MySQL."""

import re
from pathlib import Path
from typing import Any

import pytest

from services.mariadb import Mariadb
from txloom.cli import main
from txloom.config import load
from txloom.config.models.pipeline import Pipeline

SCHEMA = """
    create table accounts (id bigint unsigned primary key, owner varchar(40) not null, balance decimal(12,2),
        active tinyint(1), small tinyint, few int unsigned, at datetime(6), seen timestamp, day date, clock time,
        born year, kind enum('a', 'b'), tags set('x'), raw varbinary(9), doc json, flag bit(1), bits bit(9),
        ratio float, share double, wide decimal(60,2), place point, twice int as (few * 2){more});
    create table transfers (id int primary key, sender bigint unsigned, receiver bigint unsigned,
        foreign key (sender) references accounts (id), foreign key (receiver) references accounts (id));
    create table codes (a varchar(9), b int not null, c int not null, unique (a, b), unique (c, b));
    create table logs (note text);
    create table prefixed (note text not null, unique (note(10)));
    create view everybody as select * from accounts;
"""


OF_MARIADB = ", uid uuid, ip inet6"


def init(folder: Path, *flags: object) -> Pipeline:
    file = folder / "shop.yaml"
    assert main(["init", "shop", "--out", str(file), "--format", "debezium", *map(str, flags)]) == 0
    return load(file, connected=False)


@pytest.fixture
def address(server: Mariadb) -> str:
    server.fresh_database("proposed", SCHEMA.format(more=OF_MARIADB if server.name == "mariadb" else ""))
    return f"mysql://root@{server.host}:{server.port}/proposed"


def test_a_database_says_its_tables_types_keys_and_foreign_keys(
    tmp_path: Path, server: Mariadb, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    is_mariadb = server.name == "mariadb"
    doc = "string" if is_mariadb else "json"
    flags = ("--database", address, "--kafka", "broker:9092", "--prefix", "dev", "--connection", "shop_db")
    pipeline = init(tmp_path, *flags)
    assert {table.source: list(table.key) for table in pipeline.tables} == {
        "proposed.accounts": ["id"], "proposed.transfers": ["id"], "proposed.codes": ["c", "b"], "proposed.logs": [],
        "proposed.prefixed": [],
    }  # fmt: skip
    assert {column.name: str(column.type) for column in pipeline.table("accounts").columns} == {
        "id": "decimal(20,0)", "owner": "string", "balance": "decimal(12,2)", "active": "boolean", "small": "int",
        "few": "long", "at": "timestamp", "seen": "timestamptz", "day": "date", "clock": "time", "born": "int",
        "kind": "string", "tags": "string", "raw": "binary", "doc": doc, "flag": "boolean", "bits": "binary",
        "ratio": "float", "share": "double", "wide": "string", "twice": "int",
    } | ({"uid": "uuid", "ip": "string"} if is_mariadb else {})  # fmt: skip
    assert pipeline.source.kafka is not None and pipeline.source.debezium.database == server.name
    assert set(pipeline.source.kafka.topics) == {f"dev.{table.source}" for table in pipeline.tables}
    orphans = {(each.child, each.parent, tuple(each.parent_key)) for each in pipeline.expectations}  # type: ignore[union-attr]
    assert orphans == {("transfers", "accounts", ("sender",)), ("transfers", "accounts", ("receiver",))}
    assert pipeline.audit is not None and pipeline.audit.connection == "shop_db"
    text = (tmp_path / "shop.yaml").read_text()
    assert "Its column 'place' is left out: a point cannot be declared." in text
    for guess in ("beyond 2^63 only with", "tinyint(1) may hold more", "bytes, the lowest first", "there is no key"):
        assert re.search(rf"# guess: .*{re.escape(guess)}", text), guess
    assert "REPLICA IDENTITY" not in text and "binlog" not in capsys.readouterr().err
    some = init(tmp_path, *flags, "--tables", "LOGS,proposed.codes", "--force")
    assert [table.name for table in some.tables] == ["logs", "codes"]


def test_settings_of_the_binlog_that_leave_something_out_are_said(
    tmp_path: Path, server: Mariadb, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.sql("set global binlog_row_image = 'MINIMAL'")
    try:
        init(tmp_path, "--database", address)
    finally:
        server.sql("set global binlog_row_image = 'FULL'")
    said = "binlog_row_image of the database is MINIMAL: its changes can be captured only with FULL."
    assert f"only you know: {said}" in capsys.readouterr().err
    if server.name == "mysql":
        server.sql("set global binlog_transaction_compression = on")
        try:
            init(tmp_path, "--database", address, "--force")
        finally:
            server.sql("set global binlog_transaction_compression = off")
        said = "binlog_transaction_compression of the database is ON: its changes can be captured only with OFF."
        assert f"only you know: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "code", "refused"),
    [
        (("--schema", "elsewhere"), 2, r"--schema: found elsewhere, but the database has .*proposed"),
        (("--tables", "proposed.account"), 2, r"has no such table\. Did you mean 'proposed.accounts'\?"),
        (("--database", "mysql://nobody:x@127.0.0.1:1/x"), 12, "the database did not answer: Can't connect to MySQL"),
    ],
)
def test_what_it_cannot_do_it_says(
    address: str, capsys: pytest.CaptureFixture[str], flags: tuple[Any, ...], code: int, refused: str
) -> None:
    assert main(["init", "shop", "--out", "-", "--format", "debezium", "--database", address, *flags]) == code
    assert re.search(refused, capsys.readouterr().err)
