"""A warehouse of many pipelines for the overview: one runs its cycles, and its tables are copied under other names."""

import shutil
from pathlib import Path

import numpy as np

from benchmarks.data import mirrors
from called import step_of
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.steps.publish.check_expectations import check_expectations
from txloom.storage.paths import TablePaths
from txloom.storage.runs import lease
from workloads.small_lake import SmallLake

MORE = """\
expectations:
- {kind: stuck_transactions, id: stuck, older_than: 10m, severity: warn, sentence: Nothing waits long., hint: Look.}
- {kind: orphans, id: orphans, child: parts, parent: items, parent_key: [id], severity: block,
   sentence: Each part is of an item., hint: Look.}
alerts: {valid_through_age: 30m, source_quiet: 2h, stuck_after: 10m, dead_letters: 0}
"""
TABLES = ("items", "parts")


def prepare(folder: Path, pipelines: int, cycles: int) -> None:
    """Fill the folder `warehouse` of a folder with the tables of pipelines that ran so many cycles."""
    lake = SmallLake(folder, declared(folder, name_of(0), folder / "inbox"))
    for cycle in range(cycles):
        _cycle(lake, cycle)
    for number in range(1, pipelines):
        copy = TablePaths(lake.warehouse, name_of(number))
        shutil.copytree(lake.paths.table("").rstrip("/"), copy.table("").rstrip("/"))


def name_of(number: int) -> str:
    """Return the name of a pipeline."""
    return f"plant_{number:02}"


def declared(folder: Path, name: str, inbox: Path) -> Pipeline:
    """Write the declaration of a pipeline and return it."""
    file = mirrors.declared(folder, name, TABLES, inbox)
    file.write_text(file.read_text() + MORE)
    return load(file)


def deliver(inbox: Path, cycle: int) -> None:
    """Let a source change some rows of either table."""
    ids = np.arange(cycle * 10, cycle * 10 + 20, dtype=np.int64)
    flags = ["U" if number < 10 and cycle else "I" for number in range(len(ids))]
    for number, name in enumerate(TABLES):
        first = mirrors.FIRST + (2 * cycle + number) * 1_000
        mirrors.write_changes(inbox, name, flags, mirrors.rows(ids, cycle), first)


def _cycle(lake: SmallLake, cycle: int) -> None:
    """Run a cycle as its DAG does."""
    deliver(lake.folder / "inbox", cycle)
    with lease.held(lake.paths, f"run-{cycle}", "cycle"):
        lake.run()
    check_expectations(step_of(lake.pipeline, lake.warehouse, f"run-{cycle}"))
