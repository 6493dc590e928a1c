"""m. Edits of a declaration: 5,000,000 rows are made again by the next cycle, beside the first load of them.

`TXLOOM_BENCH_SCALE=0.01` scales the table down.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.data import mirrors
from benchmarks.measuring import copied, fresh, job, made, together
from benchmarks.report import Report

ROWS = max(round(5_000_000 * float(os.environ.get("TXLOOM_BENCH_SCALE", "1"))), 1_000)
FILES = 5
LOADED = ("load_snapshot", "buffer_transactions", "merge_current", "publish")
CYCLE = ("land_events", "buffer_transactions", "merge_current", "publish")
EDITS: Mapping[str, tuple[str, str]] = {
    "the current table anew, from its history": ('["*"]', "[{table: events, current: events_now}]"),
    "another history, copied": ('["*"]', "[{table: events, history: events_log}]"),
    "another key, from messages": ("key: [id]", "key: [id, day]"),
}
"""By edit, what the declaration has instead of what."""


def measure(report: Report, rounds: int) -> None:
    """Measure the first load, and the cycle after each edit."""
    data, case = made(f"edits/{ROWS}", _data), f"{ROWS:,} rows"
    for _ in range(rounds):
        warehouse = fresh("edits/warehouse")
        flags = {"load_snapshot": ["--path", data / "rows", "--csn", "100"]}
        steps = [job(step, data / "bench.yaml", warehouse, *flags.get(step, [])) for step in LOADED]
        report.add(case, "first load", together(steps))
        for edit, (before, now) in EDITS.items():
            edited, copy = _edited(data, edit, before, now), copied(warehouse, "edits/edited")
            cycle = [job(step, edited, copy) for step in CYCLE]
            whole = together(cycle)
            report.add(case, edit, whole)
            report.add(case, f"{edit}: merge_current", cycle[CYCLE.index("merge_current")])
            report.goal("largest peak of a process, MB", whole.largest_mb, at_most=3072)
            mirrors.refuse_other_rows(edited, copy, "events", ROWS)
    for edit in EDITS:
        ratio = report.median(case, edit) / report.median(case, "first load")
        report.goal(f"{edit}: to the first load", ratio, at_most=2)


def _edited(data: Path, edit: str, before: str, now: str) -> Path:
    """Write the edited declaration beside the first one."""
    folder = data / edit.split(",", maxsplit=1)[0].replace(" ", "_")
    folder.mkdir(exist_ok=True)
    file = folder / "bench.yaml"
    text = (data / "bench.yaml").read_text().replace(f"{data}.unfinished", str(data))  # `made` has renamed the folder
    file.write_text(text.replace(before, now))
    return file


def _data(folder: Path) -> None:
    mirrors.write_export(folder, ROWS, FILES)
