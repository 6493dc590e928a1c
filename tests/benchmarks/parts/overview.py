"""The overview of 65 pipelines in a new process: remembered, with some in the middle of a cycle, and read anew."""

from pathlib import Path

from benchmarks.data import many_pipelines
from benchmarks.measuring import Failed, copied, made, program
from benchmarks.report import Report
from txloom.config.models.pipeline import Pipeline
from txloom.storage.runs import lease
from txloom.storage.views.pipeline.overview import remember
from workloads.small_lake import SmallLake

PIPELINES, CYCLES = 65, 40
BUSY = 6
"""Pipelines that have landed something and have not published it."""
CASE = f"{PIPELINES} pipelines after {CYCLES} cycles"


def measure(report: Report, rounds: int) -> None:
    """Measure the first page of a process, and its next."""
    prepared = made(f"overview/{PIPELINES}", lambda folder: many_pipelines.prepare(folder, PIPELINES, CYCLES))
    for _ in range(rounds):
        folder = copied(prepared, "overview/run")
        pipelines = _declared(folder)
        _page(report, folder, "nothing remembered")
        for each in pipelines:
            remember(each, str(folder / "warehouse"))
        _page(report, folder, "txloom")
        for each in pipelines[:BUSY]:
            _land(folder, each)
        _page(report, folder, f"txloom, {BUSY} in the middle of a cycle")
    report.goal(f"the first overview of {PIPELINES} pipelines, seconds", report.median(CASE, "txloom"), at_most=1)
    busy = report.median(CASE, f"txloom, {BUSY} in the middle of a cycle")
    report.goal(f"the same with {BUSY} in the middle of a cycle, seconds", busy, at_most=2)


def _declared(folder: Path) -> list[Pipeline]:
    (folder / "pipelines").mkdir()
    all_names = map(many_pipelines.name_of, range(PIPELINES))
    return [many_pipelines.declared(folder / "pipelines", name, folder / "inbox") for name in all_names]


def _land(folder: Path, pipeline: Pipeline) -> None:
    """Begin a cycle: the lease was held, and something new is landed."""
    lake = SmallLake(folder, pipeline)
    many_pipelines.deliver(folder / "inbox", CYCLES)
    with lease.held(lake.paths, "run-x", "land_events"):
        lake.land()


def _page(report: Report, folder: Path, variant: str) -> None:
    first = program("first_overview", folder / "pipelines", folder / "warehouse")
    if first.result["cuts"] != [CYCLES]:
        raise Failed(f"{variant}: the overview shows the cuts {first.result['cuts']}, not {CYCLES}")
    report.add(CASE, variant, first, first.result["first_s"])
    again = program("first_overview", folder / "pipelines", folder / "warehouse")
    report.add(CASE, f"{variant}, the next page", again, again.result["next_s"])
