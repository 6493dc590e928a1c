"""d. Many tables: 65 mirrors of 20,000 rows, and five of 5,000,000 beside them, 1,000 changes each in one cycle."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.data import mirrors
from benchmarks.measuring import Failed, copied, job, made, together
from benchmarks.report import Report
from txloom.storage.delta import arrow_tables

SMALL = {f"small_{number:02}": 20_000 for number in range(1, 66)}
LARGE = {f"large_{number}": 5_000_000 for number in range(1, 6)}
CHANGES = 1_000
STEPS = ("land_events", "buffer_transactions", "merge_current", "publish")


def measure(report: Report, rounds: int) -> None:
    """Measure one cycle over the 65, then one with the five large tables."""
    for case, sizes, most in (("65 tables", SMALL, 25), ("65 tables and 5 large", SMALL | LARGE, 60)):
        prepared = made(f"many_tables/{len(sizes)}", lambda folder, sizes=sizes: _prepare(folder, sizes))
        for _ in range(rounds):
            _cycle(report, case, prepared, sizes)
        report.goal(f"{case}, {CHANGES:,} changes each: a cycle, seconds", report.median(case, "txloom"), at_most=most)


def _prepare(folder: Path, sizes: Mapping[str, int]) -> None:
    declaration = mirrors.declared(folder, "bench", list(sizes), folder / "inbox")
    pipeline, paths = mirrors.pipeline_of(declaration, folder / "warehouse")
    chance = np.random.default_rng(1)
    for name, size in sizes.items():
        mirrors.write_base(pipeline, paths, name, size)
        known = CHANGES * 9 // 10
        ids = np.concatenate([chance.choice(size, known, replace=False), size + np.arange(CHANGES - known)])
        flags = ["U"] * known + ["I"] * (CHANGES - known)
        mirrors.write_changes(folder / "inbox", name, flags, mirrors.rows(ids.astype(np.int64), 1))


def _cycle(report: Report, case: str, prepared: Path, sizes: Mapping[str, int]) -> None:
    warehouse = copied(prepared / "warehouse", "many_tables/run")
    # Written anew, because the folder had another name when it was made.
    declaration = mirrors.declared(prepared, "bench", list(sizes), prepared / "inbox")
    steps = [report.add(case, f"txloom: {step}", job(step, declaration, warehouse)) for step in STEPS]
    whole = together(steps)
    report.add(case, "txloom", whole)
    pipeline, paths = mirrors.pipeline_of(declaration, warehouse)
    for name, size in sizes.items():
        sql = "select count(*) as n, sum(case when _txloom_csn > 0 then 1 else 0 end) as changed from t"
        seen = arrow_tables.select(paths.table(mirrors.current_of(pipeline, name)), sql).to_pylist()[0]
        if seen != {"n": size + CHANGES // 10, "changed": CHANGES}:
            raise Failed(f"{warehouse}: {name} shows {seen}")
    report.goal(f"{case}: largest peak of a process, MB", whole.largest_mb, at_most=3072)
