"""i. Snapshot diff: full extracts as Parquet, compared with current tables that hold all but a hundredth of their rows.

Of a hundred changed rows eighty are updated, ten deleted and ten new. Where the largest extract takes longer than
LONGEST, one of a tenth of its rows is measured too. `TXLOOM_BENCH_SCALE=0.01` scales the largest extract down.
"""

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.data import mirrors
from benchmarks.measuring import Failed, copied, job, made
from benchmarks.report import Report
from txloom.storage.delta import arrow_tables

SMALL = 10_000
LARGE = max(round(10_000_000 * float(os.environ.get("TXLOOM_BENCH_SCALE", "1"))), SMALL)
FILE_ROWS = 1_000_000
LONGEST = 300
"""Seconds."""
DAY = date(2026, 1, 2)
EXTRACTS = """\
source: {{format: snapshots, files: {{path: "{inbox}", settle: 0s}}, snapshots: {{extracts: full}}}}
"""


def measure(report: Report, rounds: int) -> None:
    """Measure the small extract as often as there are rounds, the large one once."""
    for _ in range(rounds):
        _one(report, SMALL)
    if _one(report, LARGE) > LONGEST:
        print(f"  {LARGE:,} rows took longer than {LONGEST} seconds: a tenth of them is measured too", flush=True)
        _one(report, LARGE // 10)
    peak = max(each.largest_mb for runs in report.runs.values() for each in runs)
    report.goal("largest peak of a process, MB", peak, at_most=3072)


def _one(report: Report, size: int) -> float:
    prepared = made(f"snapshot_diff/{size}", lambda folder: _prepare(folder, size))
    warehouse = copied(prepared / "warehouse", "snapshot_diff/run")
    declaration = _declared(prepared)
    ran = job("diff_snapshot", declaration, warehouse, "--date", DAY.isoformat())
    report.add(f"an extract of {size:,} rows, 1 % changed", "diff_snapshot", ran)
    _check(warehouse, size, ran.printed)
    return ran.seconds


def _declared(folder: Path) -> Path:
    """Write the declaration of a mirror of `data.mirrors` whose source are extracts, and return its file."""
    file = mirrors.declared(folder, "bench", ["events"], folder / "inbox")
    lines = file.read_text().splitlines(keepends=True)
    source = EXTRACTS.format(inbox=folder / "inbox")
    file.write_text("".join(source if line.startswith("source:") else line for line in lines))
    return file


def _prepare(folder: Path, size: int) -> None:
    pipeline, paths = mirrors.pipeline_of(_declared(folder), folder / "warehouse")
    mirrors.write_base(pipeline, paths, "events", size)
    extract = folder / "inbox" / DAY.isoformat() / "events"
    extract.mkdir(parents=True)
    for number, start in enumerate(range(0, size + _new(size), FILE_ROWS)):
        ids = np.arange(start, min(start + FILE_ROWS, size + _new(size)), dtype=np.int64)
        ids = ids[~_deleted(ids, size)]
        version = np.where(_updated(ids, size), 1, 0)
        pq.write_table(mirrors.rows(ids, version), extract / f"part-{number}.parquet")


def _new(size: int) -> int:
    return size // 1000


def _deleted(ids: mirrors.Ints, size: int) -> Any:
    return (ids % 1000 == 7) & (ids < size)


def _updated(ids: mirrors.Ints, size: int) -> Any:
    return (ids % 100 == 7) & (ids % 1000 >= 107) & (ids % 1000 < 907) & (ids < size)


def _check(warehouse: Path, size: int, printed: str) -> None:
    """Refuse other differences than those that were made, by number, key and, where a row is updated, by its note."""
    ids = np.arange(size, dtype=np.int64)
    updated, deleted = ids[_updated(ids, size)], ids[_deleted(ids, size)]
    new = np.arange(size, size + _new(size), dtype=np.int64)
    counts = {"inserts": len(new), "updates": len(updated), "deletes": len(deleted)}
    counts |= {"unchanged": size - len(updated) - len(deleted)}
    last = printed.splitlines()[-1].split()
    if not {f"{name}={count}" for name, count in counts.items()} <= set(last):
        raise Failed(f"{warehouse}: {' '.join(last)}, not {counts}")
    sql = "select op, value from t where kind = 'row'"
    landed = arrow_tables.select(str(warehouse / "bench" / "change_events"), sql).to_pylist()
    notes: dict[str, dict[int, str]] = {"I": {}, "U": {}, "D": {}}
    for row in landed:
        message = json.loads(row["value"])
        image = {name.lower(): value for name, value in message["before" if row["op"] == "D" else "after"].items()}
        notes[row["op"]][int(image["id"])] = image["note"]
    expected = {"I": mirrors.rows(new), "U": mirrors.rows(updated, 1), "D": mirrors.rows(deleted)}
    for op, rows in expected.items():
        if notes[op] != dict(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True)):
            raise Failed(f"{warehouse}: the {len(notes[op]):,} changes {op} are not those that were made")
    if len(landed) != sum(map(len, notes.values())):
        raise Failed(f"{warehouse}: some rows have several changes")
