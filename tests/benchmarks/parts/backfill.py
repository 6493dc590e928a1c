"""j. Backfill: a table of 1,000,000 rows that lost a hundredth of them is rebuilt, compared and repaired.

`TXLOOM_BENCH_SCALE=0.01` scales the table down.
"""

import os
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.data import mirrors
from benchmarks.measuring import Failed, copied, job, made, together
from benchmarks.report import Report

ROWS = max(round(1_000_000 * float(os.environ.get("TXLOOM_BENCH_SCALE", "1"))), 1_000)
TASKS = ("rebuild", "compare", "apply", "drop")
LOADED = ("load_snapshot", "buffer_transactions", "merge_current", "publish")


def measure(report: Report, rounds: int) -> None:
    """Measure each task of a backfill."""
    prepared = made(f"backfill/{ROWS}", _prepare)
    case = f"{ROWS:,} rows"
    for _ in range(rounds):
        warehouse = copied(prepared / "warehouse", "backfill/run")
        steps = []
        for task in TASKS:
            ran = job("backfill", prepared / "bench.yaml", warehouse, "--run-id", "bench", "--task", task)
            steps.append(report.add(case, task, ran))
            if task == "compare" and f"inserts={ROWS // 100}" not in ran.printed.splitlines()[-1].split():
                raise Failed(f"{warehouse}: not {ROWS // 100} rows that are gone: {ran.printed.splitlines()[-1]}")
        whole = together(steps)
        report.add(case, "all tasks", whole)
        report.goal("largest peak of a process, MB", whole.largest_mb, at_most=3072)
        mirrors.refuse_other_rows(prepared / "bench.yaml", warehouse, "events", ROWS)


def _prepare(folder: Path) -> None:
    declaration = mirrors.write_export(folder, ROWS, files=1)
    for step in LOADED:
        flags = ["--path", folder / "rows", "--csn", "100"] if step == "load_snapshot" else []
        job(step, declaration, folder / "warehouse", *flags)
    DeltaTable(str(folder / "warehouse" / "bench" / "events")).delete("id % 100 = 7")
