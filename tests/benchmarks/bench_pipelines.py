"""Measure Airflow with many declared pipelines: parsing their DAGs, what its processes take at rest, the overview.

    PYTHONPATH=tests python tests/benchmarks/bench_pipelines.py [--pipelines 200] [--database URI]

Starts an Airflow in a temporary folder, on SQLite or on the database that is named, with all DAGs paused; it takes
about five minutes. Prints seconds and CPU seconds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from services.airflow.instance import Airflow

PROJECT = Path(__file__).resolve().parents[2]
DECLARATION = """name: p{number:03}
schedule: "*/15 * * * *"
source: {{format: change_sets, files: {{path: /nowhere/{number}}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long, note: string}}}}]
targets: {{mirrors: [rows]}}
"""
REST = 60.0
"""Seconds that the processes are watched for."""


def main() -> int:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--pipelines", type=int, default=200)
    flags.add_argument("--database", default="")
    given = flags.parse_args()
    with tempfile.TemporaryDirectory(prefix="txloom-pipelines-") as made:
        folder = Path(made)
        pipelines = folder / "pipelines"
        pipelines.mkdir()
        for number in range(given.pipelines):
            (pipelines / f"p{number:03}.yaml").write_text(DECLARATION.format(number=number))
        parsed(pipelines)
        more = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": given.database} if given.database else {}
        with Airflow(folder / "airflow", pipelines, folder / "lake", more) as airflow:
            begun = time.perf_counter()
            while airflow.ask("GET", "/api/v2/dags?limit=1")["total_entries"] < 6 * given.pipelines:
                time.sleep(1)
            print(f"all DAGs are known after {time.perf_counter() - begun:.0f} s more")
            at_rest(airflow)
            shown(airflow)
    return 0


def parsed(pipelines: Path) -> None:
    """Parse each DAG file in a process of its own, as Airflow's processor does."""
    environment = {**os.environ, "TXLOOM_PIPELINES": str(pipelines), "PYTHONPATH": str(PROJECT / "include")}
    for file in sorted((PROJECT / "dags").glob("txloom_*.py")):
        begun = time.perf_counter()
        subprocess.run([sys.executable, file], env=environment, check=True, capture_output=True)
        print(f"{file.name}: parsed in {time.perf_counter() - begun:.1f} s")


def at_rest(airflow: Airflow) -> None:
    """Print what each process and its children take while nothing runs."""
    before = {name: taken(process.pid) for name, process in airflow._processes.items()}
    time.sleep(REST)
    for name, process in airflow._processes.items():
        used = taken(process.pid) - before[name]
        print(f"{name}: {used / REST:.0%} of a core, {memory(process.pid):.0f} MB")


def family(pid: int | None) -> list[psutil.Process]:
    """Return a process and all that it has started."""
    assert pid is not None
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def taken(pid: int | None) -> float:
    """Return the CPU seconds of a process and its children, those that have ended too."""
    times = [each.cpu_times() for each in family(pid)]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def memory(pid: int | None) -> float:
    """Return the megabytes of a process and its children."""
    return sum(each.memory_info().rss for each in family(pid)) / 1e6


def shown(airflow: Airflow) -> None:
    """Print how long the overview takes, the first time and the next."""
    for attempt in ("the first time", "again"):
        request = urllib.request.Request(f"{airflow.url}/txloom/")
        request.add_header("Authorization", f"Bearer {airflow._signed_in()}")
        begun = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            size = len(answer.read())
        print(f"the overview {attempt}: {time.perf_counter() - begun:.2f} s, {size >> 10} KB")


if __name__ == "__main__":
    sys.exit(main())
