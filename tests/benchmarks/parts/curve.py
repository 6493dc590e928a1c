"""Curve: first rows of a table, from 1,000 to 10,000,000, merged in every way there is, and in the one that is chosen.

The ways are: all changes folded at once in the job's process; in pieces by processes of this machine; in pieces by the
tasks of a cluster on it, whose session is opened for them. What is merged is prepared by load_snapshot and the buffer;
`TXLOOM_BENCH_SCALE=0.01` scales the sizes down.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.data import mirrors
from benchmarks.measuring import copied, job, made
from benchmarks.report import Report

SCALE = float(os.environ.get("TXLOOM_BENCH_SCALE", "1"))
SIZES = [max(round(size * SCALE), 100) for size in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)]
REPEATED = 1_000_000
"""The most rows of which there are several rounds."""
FILE_ROWS = 1_000_000
CLUSTER = "local-cluster[1,2,1024]"
"""Spark's master of a cluster on this machine: executors are processes of their own, as on another machine."""
CHOSEN, AT_ONCE = "txloom", "at once"
WAYS = {
    CHOSEN: {},
    AT_ONCE: {"TXLOOM_MERGE_BYTES": str(1 << 40)},
    "in pieces, by processes": {"TXLOOM_MERGE_BYTES": "0"},
    "in pieces, by a cluster's tasks": {"TXLOOM_MERGE_BYTES": "0", "TXLOOM_SPARK_MASTER": CLUSTER},
}
"""The ways to merge, and the environment that leads to each."""


def measure(report: Report, rounds: int) -> None:
    """Measure every size in every way, the largest and a cluster's once."""
    for size in SIZES:
        prepared = made(f"curve/{size}", lambda folder, size=size: _prepare(folder, size))
        case = f"{size:,} first rows"
        for number in range(rounds if size <= REPEATED else 1):
            for way, environment in WAYS.items():
                if number and CLUSTER in environment.values():
                    continue
                warehouse = copied(prepared / "warehouse", "curve/run")
                report.add(case, way, job("merge_current", prepared / "bench.yaml", warehouse, environment=environment))
                mirrors.refuse_other_rows(prepared / "bench.yaml", warehouse, "events", size)
        best = min(report.median(case, way) for way in WAYS if way != CHOSEN)
        report.goal(f"{case}: chosen to the fastest way", report.median(case, CHOSEN) / best, at_most=1.3)
    runs = [each for (_, way), runs in report.runs.items() if way != AT_ONCE for each in runs]
    peak = max(each.largest_mb for each in runs)
    report.goal("largest peak of a process, but where all is folded at once, MB", peak, at_most=3072)


def _prepare(folder: Path, size: int) -> None:
    (folder / "rows" / "events").mkdir(parents=True)
    (folder / "inbox").mkdir()
    declaration = mirrors.declared(folder, "bench", ["events"], folder / "inbox")
    for number, start in enumerate(range(0, size, FILE_ROWS)):
        ids = np.arange(start, min(size, start + FILE_ROWS), dtype=np.int64)
        pq.write_table(mirrors.rows(ids), folder / "rows" / "events" / f"part-{number}.parquet")
    job("load_snapshot", declaration, folder / "warehouse", "--path", folder / "rows", "--csn", "100")
    job("buffer_transactions", declaration, folder / "warehouse")
