"""Documents: 10,000 of 500,000 orders with three child tables change, and all of them are composed for the first time.

A change is a new state of the order, a line or note more, or one fewer. What is landed and buffered is prepared by the
jobs; merge_current alone is measured, with the opening of a JVM where it needs one.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.data import mirrors, orders
from benchmarks.measuring import Failed, copied, job, made
from benchmarks.report import Report
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list

ORDERS = int(os.environ.get("TXLOOM_BENCH_ORDERS", "500000"))
"""Orders that are there when some change; TXLOOM_BENCH_ORDERS names another number."""
CHANGES = ORDERS // 50
FIRST = int(os.environ.get("TXLOOM_BENCH_FIRST_ORDERS", "50000"))
"""Orders that are composed for the first time."""
CSN = 100
"""The csn of the load."""


def measure(report: Report, rounds: int) -> None:
    """Measure the merge of the changes, then the first merge."""
    base = made(f"documents/base-{ORDERS}", _base)
    prepared = made(f"documents/{ORDERS}-{CHANGES}", lambda folder: _changes(folder, base))
    case = f"{CHANGES:,} of {ORDERS:,} documents change"
    for _ in range(rounds):
        warehouse = copied(prepared / "warehouse", "documents/run")
        report.add(case, "txloom", job("merge_current", prepared / "bench.yaml", warehouse))
        _check(prepared / "bench.yaml", warehouse)
    each = report.median(case, "txloom") / CHANGES
    print(f"  {each * 1000:.2f} ms for each changed document", flush=True)
    loaded = made(f"documents/loaded-{FIRST}", _loaded)
    case = f"first merge of {FIRST:,} documents"
    warehouse = copied(loaded / "warehouse", "documents/run")
    report.add(case, "txloom", job("merge_current", loaded / "bench.yaml", warehouse))
    _check_first(loaded / "bench.yaml", warehouse)
    print(f"  {report.median(case, 'txloom') / FIRST * 1000:.2f} ms for each first document", flush=True)


def _base(folder: Path) -> None:
    declaration = orders.declared(folder, folder / "inbox")
    pipeline, paths = mirrors.pipeline_of(declaration, folder / "warehouse")
    orders.write_base(pipeline, paths, ORDERS)


def _changes(folder: Path, base: Path) -> None:
    """Land and buffer the changes beside a copy of the base."""
    declaration = orders.declared(folder, folder / "inbox")
    orders.Changed.among(ORDERS, CHANGES).write(folder / "inbox")
    for step in ("land_events", "buffer_transactions"):
        job(step, declaration, folder / "warehouse")
    for table in (base / "warehouse" / "bench").iterdir():
        mirrors.linked(table, folder / "warehouse" / "bench" / table.name)


def _loaded(folder: Path) -> None:
    """Load extracts of the four tables and buffer them, so that the first merge is left."""
    (folder / "inbox").mkdir()
    declaration = orders.declared(folder, folder / "inbox")
    for name, rows in orders.rows(0, FIRST).items():
        extract = folder / "extracts" / name
        extract.mkdir(parents=True)
        pq.write_table(rows, extract / "part-0.parquet")
    job("load_snapshot", declaration, folder / "warehouse", "--path", folder / "extracts", "--csn", CSN)
    job("buffer_transactions", declaration, folder / "warehouse")


def _check(declaration: Path, warehouse: Path) -> None:
    """Refuse a merge that shows other changed documents than plain Python composes, or another number of documents."""
    path = _documents_of(declaration, warehouse)
    changed = orders.Changed.among(ORDERS, CHANGES)
    _compare(path, changed.documents(changed.all))
    sums = {name: ORDERS * orders.CHILDREN + changed.growth(name) for name in orders.MANY}
    _compare_sums(path, {"n": ORDERS, "k": ORDERS, **sums})


def _check_first(declaration: Path, warehouse: Path) -> None:
    """Refuse a first merge that does not show all documents, or of which a hundredth is not what plain Python says."""
    path = _documents_of(declaration, warehouse)
    ids = np.arange(0, FIRST, 100, dtype=np.int64)
    _compare(path, orders.Changed.among(FIRST, 0).documents(ids))
    every = FIRST * orders.CHILDREN
    _compare_sums(path, {"n": FIRST, "k": FIRST, "lines": every, "notes": every})


def _compare(path: str, expected: Mapping[int, Mapping[str, object]]) -> None:
    """Refuse documents that differ from those expected, by id."""
    names = ", ".join(["order_id", "status", "total", '"at"', "details", *orders.MANY])
    rows = arrow_tables.select(
        path, f"select {names} from t where order_id in ({int_list(list(expected))})"
    ).to_pylist()
    shown = {row["order_id"]: row for row in rows}
    wrong = [order for order in expected.keys() | shown.keys() if expected.get(order) != shown.get(order)]
    if wrong or len(rows) != len(expected):
        first = next(iter(wrong), -1)
        raise Failed(f"{path}: {len(wrong)} documents differ, such as {shown.get(first)}, not {expected.get(first)}")


def _compare_sums(path: str, expected: Mapping[str, int]) -> None:
    sums = ", ".join(f"sum(cardinality({name})) as {name}" for name in orders.MANY)
    sql = f"select count(*) as n, count(distinct order_id) as k, {sums} from t"
    seen = arrow_tables.select(path, sql).to_pylist()[0]
    if seen != expected:
        raise Failed(f"{path}: {seen} instead of {expected}")


def _documents_of(declaration: Path, warehouse: Path) -> str:
    pipeline, paths = mirrors.pipeline_of(declaration, warehouse)
    return paths.table(pipeline.targets.aggregates[0].current)
