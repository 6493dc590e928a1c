"""Measure an audit of one large table beside a plain select of all its rows.

    PYTHONPATH=tests python tests/benchmarks/bench_audit.py [--rows 5000000]

Starts a PostgreSQL in a temporary folder, fills a table, writes the same rows into a lake, and compares: as they are,
then with 20 rows that differ. Prints seconds of the database and of all.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import csv

from services.postgres import Postgres
from txloom.config import load
from txloom.steps.audit.compare_table import LakeTable, compare
from txloom.storage.databases.audit_source import Limits
from txloom.storage.databases.postgresql import connected
from txloom.storage.paths import TablePaths
from txloom.storage.targets import row_tables

SCHEMA = """
    CREATE TABLE orders (id bigint PRIMARY KEY, ref text, amount numeric(20,4), status text, at timestamptz,
        customer bigint);
    INSERT INTO orders SELECT n, 'order ' || md5(n::text), n / 3.0, 'PENDING',
        timestamptz '2026-01-01 00:00Z' + n * interval '1 s', n % 100000 FROM generate_series(1, {rows}) n;
    VACUUM ANALYZE orders;
"""
DECLARED = """
name: shop
source: {format: wal2json, files: {path: /nowhere}}
completeness: {rule: markers, patience: 2h}
tables:
  - name: orders
    source: public.orders
    key: [id]
    columns: {id: long, ref: string, amount: 'decimal(20,4)', status: string, at: timestamptz, customer: long}
targets: {mirrors: ["*"]}
"""
TYPES = {
    "id": pa.int64(),
    "ref": pa.string(),
    "amount": pa.decimal128(20, 4),
    "status": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "customer": pa.int64(),
}


def main() -> int:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rows", type=int, default=5_000_000)
    rows = flags.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="txloom-audit-") as made:
        folder = Path(made)
        with Postgres(folder / "postgres") as postgres:
            host, port = postgres.address.split(":")
            for statement in SCHEMA.format(rows=rows).split(";")[:-1]:
                postgres.psql(statement)
            fields = {"host": host, "port": port, "login": "postgres", "schema": "postgres"}
            lake = filled(folder, fields)
            print(f"plain select of {rows:,} rows: {selected(fields):.1f} s", flush=True)
            looked_at("equal", lake, fields, 0)
            table = DeltaTable(lake.paths.table("orders"))
            table.update(predicate=f"id % {rows // 20} = 0", updates={"status": "'PLANTED'"})
            looked_at("20 rows differ", LakeTable(lake.paths, lake.row_table, int(table.version()), 0), fields, 20)
    return 0


def filled(folder: Path, fields: dict[str, str]) -> LakeTable:
    """Write the database's rows into a lake."""
    (folder / "shop.yaml").write_text(DECLARED)
    pipeline = load(folder / "shop.yaml")
    paths = TablePaths(str(folder / "lake"), "shop")
    (row_table,) = row_tables.row_tables(pipeline)
    out = folder / "orders.csv"
    with (
        closing(psycopg2.connect(**parameters(fields))) as connection,
        connection.cursor() as cursor,
        out.open("w") as file,
    ):
        cursor.execute("set timezone to 'UTC'")
        cursor.copy_expert("copy orders to stdout (format csv)", file)
    options = csv.ConvertOptions(column_types=TYPES)
    read = csv.open_csv(out, csv.ReadOptions(column_names=list(TYPES)), convert_options=options)
    stamps = {"_txloom_csn": pa.int64(), "_txloom_pos": pa.int64(), "_txloom_xid": pa.string()}
    for batch in read:
        rows = pa.table(batch)
        for name, kind in stamps.items():
            rows = rows.append_column(name, pa.nulls(rows.num_rows, kind).fill_null("1" if kind == pa.string() else 1))
        write_deltalake(paths.table("orders"), rows, mode="append")
    table = DeltaTable(paths.table("orders"))
    table.optimize.compact()
    return LakeTable(paths, row_table, int(table.version()), 0)


def parameters(fields: dict[str, str]) -> dict[str, Any]:
    return {"host": fields["host"], "port": fields["port"], "user": fields["login"], "dbname": fields["schema"]}


def selected(fields: dict[str, str]) -> float:
    """Return how long it takes to read all rows."""
    begun = time.perf_counter()
    command = [
        "psql",
        "-h",
        fields["host"],
        "-p",
        fields["port"],
        "-U",
        fields["login"],
        "-At",
        "-c",
        "select * from orders",
    ]
    subprocess.run([*command, "-v", "FETCH_COUNT=10000", fields["schema"]], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def looked_at(case: str, lake: LakeTable, fields: dict[str, str], expected: int) -> None:
    """Compare, and print what it took."""
    begun = time.perf_counter()
    with connected(fields, Limits(10**9, 600)) as source:
        moment = source.begin()
        with source.reading(lake.row_table.table) as relation:
            seen = compare(source, relation, moment, lake)
        seconds = source.seconds
    assert len(seen.differences) + len(seen.in_flight) == expected, seen
    print(f"{case}: {seconds:.1f} s of the database, {time.perf_counter() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    sys.exit(main())
