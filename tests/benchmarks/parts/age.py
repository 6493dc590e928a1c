"""g. Age: the same cycle on a pipeline that is new, and on one with years behind it, step by step.

`data.aged` says what the old one has behind it. The new one has the same current rows and one cycle. Each step is a
process of its own, in the order of the cdc DAG, with what the maintenance DAG does to old rows at the end. A round is
the next cycle of both.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from deltalake import DeltaTable

from benchmarks.data import aged, aged_buffer, aged_past, goldengate
from benchmarks.data.goldengate import Change, Transaction
from benchmarks.measuring import Failed, Measured, copied, job, made, program, together
from benchmarks.report import Report
from txloom.config import load, names
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.paths import TablePaths

NEW = 100
"""Transactions of a cycle."""
REMEMBERED = max(round(480_000 * aged_past.SCALE), 1_000)
"""Transactions of the old pipeline's first real cycle: more than the buffer remembers."""
STEPS = ("land_events", "buffer_transactions", "merge_current", "check_expectations", "publish")
LANDED = 1_000_000
"""A cycle's csns lie so far behind those of the cycle before it."""
KINDS = ("kind", "step", "status", "op", "_txloom_op", "topic")
"""Columns whose values say which other columns a row has."""
SAMPLE = 20_000
"""Rows of a table that are looked at for that."""


def measure(report: Report, rounds: int) -> None:
    """Measure as many cycles as there are rounds, of both in turns."""
    ages = {"new": made("age/new", _new), "old": made(f"age/old-{aged_past.SCALE:g}", _old)}
    _compare(*(folder / "warehouse" for folder in ages.values()))
    folders = {age: copied(folder, f"age/run-{age}") for age, folder in ages.items()}
    for number in range(4, 4 + rounds):
        for age, folder in folders.items():
            _measured(report, age, folder, number)
    for case in dict.fromkeys(case for case, _ in report.runs):
        old, new = (report.runs[case, age] for age in ("old", "new"))
        report.goal(f"{case}: old to new, seconds", _ratio(old, new, lambda each: each.seconds), at_most=1.2)
        report.goal(f"{case}: old to new, CPU seconds", _ratio(old, new, lambda each: each.cpu_seconds), at_most=1.2)
    peak = max(each.largest_mb for (_, age), runs in report.runs.items() for each in runs if age == "old")
    report.goal("old: largest peak of a process, MB", peak, at_most=3072)


def _ratio(old: list[Measured], new: list[Measured], of: Callable[[Measured], float]) -> float:
    return median(map(of, old)) / median(map(of, new))


def _measured(report: Report, age: str, folder: Path, number: int) -> None:
    """Measure one cycle, then maintenance."""
    first, warehouse = _first_csn(age), folder / "warehouse"
    declaration = _written(folder, number, _cycle(first, number, NEW))
    steps = [report.add("check_source", age, program("source_check", declaration, warehouse))]
    steps += [report.add(step, age, job(step, declaration, warehouse)) for step in (*STEPS, "alert")]
    whole = together(steps)
    report.add("the whole cycle", age, whole)
    _check(declaration, warehouse, first, number)
    report.add("expire", age, job("maintain_tables", declaration, warehouse, "--task", "expire"))
    report.add("validate", age, job("validate", declaration, warehouse))


def _first_csn(age: str) -> int:
    return aged.FIRST_CSN if age == "old" else 1


def _cycle(first: int, number: int, count: int) -> list[Transaction]:
    """Return the transactions of a cycle: each updates an order and adds a line to it."""
    now, transactions = datetime.now(UTC), list[Transaction]()
    for place in range(count):
        csn, order = first + number * LANDED + place, _order(place, number)
        changed = {"id": order, "status": f"r{number}", "amount": f"{place}.2500"}
        line = {"id": _line(csn), "order_id": order, "text": f"line of {csn}"}
        changes = [Change("orders", "U", changed, {"id": order}), Change("lines", "I", line)]
        transactions.append(Transaction(csn, changes, now))
    return transactions


def _order(place: int, number: int) -> int:
    return (place * 7919 + number) % aged_past.ORDERS


def _line(csn: int) -> int:
    return aged_past.ORDERS * aged.LINES_OF_AN_ORDER + csn


def _written(folder: Path, number: int, transactions: list[Transaction]) -> Path:
    """Write the files of a cycle, and the declaration with the folder's inbox; return the declaration."""
    goldengate.write(folder / "inbox", aged_past.LANDINGS + number, transactions)
    return aged.declared(folder)


def _new(folder: Path) -> None:
    """Make a pipeline that is as good as new: it has had one cycle, in which a transaction and a line were dead."""
    declaration = aged.declared(folder)
    pipeline = load(declaration)
    aged.write_current(pipeline, TablePaths(str(folder / "warehouse"), pipeline.name), 0)
    transactions = _cycle(_first_csn("new"), 3, NEW)
    unreadable = Change("orders", "U", {"id": 1, "status": "r", "amount": "x"}, {"id": 1})
    transactions.append(Transaction(transactions[-1].csn + 1, [unreadable], transactions[-1].at))
    declaration = _written(folder, 3, transactions)
    goldengate.write_lines(folder / "inbox", goldengate.ROWS, 0, ["{bad"])
    for step in STEPS:
        job(step, declaration, folder / "warehouse")
    aged.maintain(pipeline, TablePaths(str(folder / "warehouse"), pipeline.name))


def _old(folder: Path) -> None:
    """Make a pipeline with years behind it, then a real cycle that is large, and two like those that are measured."""
    declaration, warehouse = aged.declared(folder), folder / "warehouse"
    pipeline = load(declaration)
    paths = TablePaths(str(warehouse), pipeline.name)
    aged.write_past(pipeline, paths)
    aged_buffer.begin(paths)
    for number in (1, 2, 3):
        count = REMEMBERED if number == 1 else NEW
        declaration = _written(folder, number, _cycle(_first_csn("old"), number, count))
        for step in STEPS:
            job(step, declaration, warehouse)
        if number == 2:
            aged_buffer.age(paths)
    _check(declaration, warehouse, _first_csn("old"), 3)
    aged.maintain(pipeline, paths)


def _check(declaration: Path, warehouse: Path, first: int, number: int) -> None:
    """Refuse a cycle after which the tables do not show exactly what it brought, or the ledger is not balanced."""
    pipeline = load(declaration)
    paths = TablePaths(str(warehouse), pipeline.name)
    since = first + number * LANDED
    last = since + NEW - 1
    orders = _rows(
        paths, "orders", f"select id, status, cast(amount as varchar) as amount from t where _txloom_csn >= {since}"
    )
    expected = [{"id": _order(n, number), "status": f"r{number}", "amount": f"{n}.2500"} for n in range(NEW)]
    lines = _rows(paths, "lines", f"select id from t where _txloom_csn >= {since}")
    documents = _rows(paths, "whole_current", f"select id, status, lines from t where _txloom_csn >= {since}")
    ends = {each["id"]: each["lines"][-1]["id"] for each in documents}
    released = _rows(paths, names.TRANSACTIONS, f"select csn from t where status = 'released' and csn >= {since}")
    cut = _rows(paths, names.CUTS, "select valid_through, gaps from t order by cut_id desc limit 1")[0]
    balance = small_tables.newest(paths.table(names.LEDGER), "balanced", "step = 'balance'")
    is_right = {
        "orders": sorted(orders, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"]),
        "lines": sorted(row["id"] for row in lines) == [_line(csn) for csn in range(since, last + 1)],
        "documents": ends == {_order(n, number): _line(since + n) for n in range(NEW)},
        "transactions": sorted(row["csn"] for row in released) == list(range(since, last + 1)),
        "cut": cut["valid_through"] == last,
        "ledger": balance is not None and balance["balanced"],
    }
    if not all(is_right.values()):
        raise Failed(
            f"{warehouse}: wrong after cycle {number}: {', '.join(name for name, each in is_right.items() if not each)}"
        )


def _rows(paths: TablePaths, table: str, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = arrow_tables.select(paths.table(table), sql).to_pylist()
    return rows


def _compare(new: Path, old: Path) -> None:
    """Refuse old tables that do not look like those of real cycles: schema, partitions, properties, filled columns."""
    for path in sorted(new.glob("aged/*/_delta_log")):
        name = path.parent.name
        real, written = (DeltaTable(str(warehouse / "aged" / name)) for warehouse in (new, old))
        for what, of in _SHAPES.items():
            if of(real) != of(written):
                raise Failed(f"{name} of the old pipeline has another {what}: {of(written)}, not {of(real)}")
        known = _filled(real)
        for kind, columns in _filled(_as_written(old / "aged" / name)).items():
            if kind in known and not columns <= known[kind]:
                raise Failed(f"{name} of the old pipeline, rows of {kind}: {columns} are filled, not {known[kind]}")


def _as_written(path: Path) -> DeltaTable:
    """Return a table as it was before the first real cycle, where its log goes back so far."""
    versions = [int(file.name.split(".")[0]) for file in (path / "_delta_log").glob("*.checkpoint.parquet")]
    return DeltaTable(str(path), version=min(versions) if versions else None)


def _filled(table: DeltaTable) -> dict[tuple[Any, ...], set[frozenset[str]]]:
    """Return which columns some rows of a table have filled, by kind of row; messages may be forgotten."""
    columns = [each.name for each in arrow_tables.schema_of(table) if each.name != "value"]
    kinds = [name for name in KINDS if name in columns]
    chosen = [f'"{name}" as k{number}' for number, name in enumerate(kinds)]
    chosen += [f'"{name}" is not null as "{name}"' for name in columns]
    filled: dict[tuple[Any, ...], set[frozenset[str]]] = {}
    sql = f"select distinct {', '.join(chosen)} from (select * from t limit {SAMPLE})"
    for row in arrow_tables.ask({"t": table}, sql).to_pylist():
        kind = tuple(row[f"k{number}"] for number in range(len(kinds)))
        filled.setdefault(kind, set()).add(frozenset(name for name in columns if row[name]))
    return filled


_SHAPES: dict[str, Callable[[DeltaTable], Any]] = {
    "schema": arrow_tables.schema_of,
    "partitioning": lambda table: table.metadata().partition_columns,
    "properties": lambda table: table.metadata().configuration,
}
