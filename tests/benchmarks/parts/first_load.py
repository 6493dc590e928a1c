"""b. First load: 5,000,000 rows from Parquet by load_snapshot to a published cut, beside Spark that copies them."""

from pathlib import Path

from benchmarks.data import mirrors
from benchmarks.measuring import fresh, job, made, program, together
from benchmarks.report import Report

ROWS = 5_000_000
FILES = 5
STEPS = ("load_snapshot", "buffer_transactions", "merge_current", "publish")


def measure(report: Report, rounds: int) -> None:
    """Measure the load step by step."""
    data = made(f"first_load/{ROWS}", _data)
    for _ in range(rounds):
        plain = program("plain_load", data / "rows" / "events", fresh("first_load/plain"))
        report.add(f"{ROWS:,} rows", "plain Spark", plain)
        _load(report, data)
    ratio = report.median(f"{ROWS:,} rows", "txloom") / report.median(f"{ROWS:,} rows", "plain Spark")
    report.goal(f"{ROWS:,} first rows to a cut: txloom to plain Spark", ratio, at_most=3)


def _load(report: Report, data: Path) -> None:
    warehouse = fresh("first_load/warehouse")
    declaration = data / "bench.yaml"
    steps = []
    for step in STEPS:
        flags = ["--path", data / "rows", "--csn", "100"] if step == "load_snapshot" else []
        steps.append(report.add(f"{ROWS:,} rows", f"txloom: {step}", job(step, declaration, warehouse, *flags)))
    whole = together(steps)
    report.add(f"{ROWS:,} rows", "txloom", whole)
    mirrors.refuse_other_rows(declaration, warehouse, "events", ROWS)
    report.goal(f"{ROWS:,} first rows: largest peak of a process, MB", whole.largest_mb, at_most=3072)


def _data(folder: Path) -> None:
    mirrors.write_export(folder, ROWS, FILES)
