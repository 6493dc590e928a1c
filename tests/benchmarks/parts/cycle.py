"""f. A cycle under a real Airflow: one that finds nothing new, and one of 1,000 transactions; by part and by task.

Seconds of a run are those from its start to its end, as Airflow has them. Processors' seconds are those of the jobs'
processes, and of the task processes of check_source and alert, which run without a job; what Airflow needs beside
them (scheduler, API server, DAG processor, the task processes around jobs) is counted apart. The interpreter with its
imports and the start of a JVM are measured in processes of their own, the same way as a job starts.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import HERE, PROJECT, Failed, Measured, fresh, made, program, run
from benchmarks.processes_over_time import ProcessesOverTime, Seen, below
from benchmarks.report import Report
from generate import replay
from oracle import comparison
from oracle.declarations import TABLES
from services.airflow.instance import Airflow
from services.process import wait_until
from txloom.config import jvm, names
from txloom.config.project import class_path
from txloom.storage.delta import arrow_tables

TRANSACTIONS = int(os.environ.get("TXLOOM_BENCH_CYCLE", "1000"))
FIRST = 200
"""Transactions of the first cycle, which makes the tables and is not measured."""
DAG = names.cdc_dag_id("orders")
ACTIVE = ("queued", "running")
WITHIN = 600
IN_AIRFLOW = "check_source and alert"
STARTS = "start of a job"


def measure(report: Report, rounds: int) -> None:
    """Measure idle cycles and cycles of TRANSACTIONS transactions, in turns."""
    data = made(f"cycle/{TRANSACTIONS}-{rounds}", partial(_data, rounds))
    starts = _starts(report)
    idle, busy, jvms = "idle cycle", f"{TRANSACTIONS:,} transactions", 0
    with _airflow(fresh("cycle/run")) as (airflow, inbox):
        _deliver(data / "0", inbox)
        _one(airflow)
        for number in range(1, rounds + 1):
            ended = _one(airflow)
            _enter(report, idle, ended, starts)
            jvms += sum(each.name == "java" for each in ended.processes)
            _deliver(data / str(number), inbox)
            _enter(report, busy, _one(airflow), starts)
            _check(airflow.warehouse, data / str(number))
    report.goal(f"{busy}: seconds from the run's start to its end", report.median(busy, "the run"), at_most=25)
    report.goal(f"{busy}: processors' seconds of the jobs", _cpu(report, busy), at_most=20)
    report.goal("idle cycle: processors' seconds of its tasks", _cpu(report, idle), at_most=3)
    report.goal("idle cycle: JVMs", jvms, at_most=0)


def _cpu(report: Report, case: str) -> float:
    spent = sorted(each.cpu_seconds for each in report.runs[case, "the run"])
    return spent[len(spent) // 2]


def _data(rounds: int, folder: Path) -> None:
    """Let the source work, and keep what it delivers before each cycle in a folder of its own, with the rows then."""
    whole, before = folder / "whole", set[Path]()
    for number in range(rounds + 1):
        more = ["--append"] if number else []
        size = ["--transactions", TRANSACTIONS if number else FIRST]
        run(["txloom", "generate", "--format", "goldengate", "--out", whole, *size, *more])
        files = {file for file in whole.rglob("*") if file.is_file() and "_source" not in file.parts}
        for file in files - before:
            target = folder / str(number) / file.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        shutil.copytree(whole / "_source" / "final", folder / str(number) / "_final")
        before = files


def _deliver(arrival: Path, inbox: Path) -> None:
    for file in (each for each in arrival.glob("*/*.jsonl") if each.parent.name != "_final"):
        (inbox / file.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, inbox / file.parent.name / file.name)


@contextmanager
def _airflow(folder: Path) -> Iterator[tuple[Airflow, Path]]:
    """Run an Airflow as `make up` does, with the shipped pipeline every minute; yield it and the pipeline's inbox."""
    inbox, pipelines = folder / "inbox", folder / "pipelines"
    inbox.mkdir(parents=True)
    pipelines.mkdir()
    declared = (PROJECT / "include" / "pipelines" / "orders.yaml").read_text()
    (pipelines / "orders.yaml").write_text(declared)
    more = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60", "ORDERS_SCHEDULE": "* * * * *"}
    more |= {
        "TXLOOM_DRIVER_MEMORY": "2g",
        "TXLOOM_INBOX": str(inbox),
        "TXLOOM_CLASS_ARCHIVE": str(PROJECT / ".state" / "spark.jsa"),
    }
    airflow = Airflow(folder / "airflow", pipelines, folder / "warehouse", more)
    try:
        with airflow:
            airflow.unpause(DAG, paused=True)
            yield airflow, inbox
    finally:
        airflow.stop()


@dataclass
class Run:
    """A run of the DAG that has ended."""

    about: dict[str, Any]
    tasks: list[dict[str, Any]]
    """Those that ran, in order."""
    processes: list[Seen]

    @property
    def begun(self) -> float:
        """Return when it began."""
        return _moment(self.about["start_date"])

    @property
    def ended(self) -> float:
        """Return when it ended."""
        return _moment(self.about["end_date"])

    def job_of(self, task: dict[str, Any]) -> list[Seen]:
        """Return the processes of a task's job, its own first; none where it has no job."""
        flags = f"--run-id {self.about['dag_run_id']} ", f"--task-id {task['task_id']}"
        return below(self.processes, lambda each: "/jobs/" in each.title and all(flag in each.title for flag in flags))

    def task_process(self, task: dict[str, Any]) -> list[Seen]:
        """Return the process in which Airflow runs a task, and what it began."""
        return below(self.processes, lambda each: each.title.startswith(f"airflow worker -- {task['id']}"))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _one(airflow: Airflow) -> Run:
    """Let the schedule begin one run, and return it once it has ended; the DAG is paused before and after."""
    known = {each["dag_run_id"] for each in airflow.runs(DAG)}
    roots = [process.pid for process in airflow._processes.values()]
    watched = ProcessesOverTime([pid for pid in roots if pid is not None])
    airflow.unpause(DAG)

    def begun() -> str:
        time.sleep(0.5)
        return next((each["dag_run_id"] for each in airflow.runs(DAG) if each["dag_run_id"] not in known), "")

    run_id = wait_until(begun, f"the schedule to begin a run of {DAG}", WITHIN)
    state = airflow.wait(DAG, run_id, WITHIN)
    processes = watched.end()
    tasks = airflow.tasks(DAG, run_id).values()
    if state != "success":
        states = {each["task_id"]: each["state"] for each in tasks}
        raise Failed(f"{DAG} {run_id} is {state}: {states}")
    _pause(airflow)
    about = next(each for each in airflow.runs(DAG) if each["dag_run_id"] == run_id)
    ran = [each for each in tasks if each["state"] == "success"]
    return Run(about, sorted(ran, key=lambda each: str(each["start_date"])), processes)


def _pause(airflow: Airflow) -> None:
    """Pause the DAG; a run that the schedule has begun meanwhile ends first."""
    airflow.unpause(DAG, paused=True)
    while active := [each["dag_run_id"] for each in airflow.runs(DAG) if each["state"] in ACTIVE]:
        airflow.unpause(DAG)
        airflow.wait(DAG, active[0], WITHIN)
        airflow.unpause(DAG, paused=True)


Starts = dict[str, tuple[Measured, Measured | None]]
"""What the interpreter with a job's imports takes, and what the JVM takes beside it; by step."""


def _starts(report: Report) -> Starts:
    """Measure how jobs start, before Airflow runs."""
    starts: Starts = {}
    for step in ("land_events", "buffer_transactions", "merge_current", "check_expectations", "publish"):
        lines = (PROJECT / "jobs" / f"{step}.py").read_text().splitlines()
        imports = "\n".join(line for line in lines if line.startswith(("import ", "from ")))
        alone = _warm(partial(run, [sys.executable, "-c", imports]))
        starts[step] = report.add(STARTS, f"{step}: interpreter and imports", alone), None
    bare = _warm(partial(run, [sys.executable, "-c", "from txloom.storage.spark.session import open_session"]))
    for step, session in (("buffer_transactions", _submitted), ("merge_current", _opened), ("land_events", _opened)):
        both = _warm(partial(session, step))
        alone = Measured(both.seconds - bare.seconds, both.cpu_seconds - bare.cpu_seconds, both.peak_mb)
        starts[step] = starts[step][0], report.add(STARTS, f"{step}: JVM until it is open, and its end", alone)
    return starts


def _warm(start: Callable[[], Measured]) -> Measured:
    """Return the quickest of three starts: in a run of the DAG, the files that a job reads are in memory already."""
    return min((start() for _ in range(3)), key=lambda each: each.seconds)


def _opened(step: str) -> Measured:
    return program("opened_session", step)


def _submitted(step: str) -> Measured:
    """Open a session as Airflow's task submits a job."""
    submit = [PROJECT / "include" / "bin" / "spark-submit-bound", "--master", "local[*]"]
    submit += ["--conf", f"spark.driver.extraJavaOptions={jvm.flags(step)}", "--conf", "spark.ui.enabled=false"]
    submit += ["--driver-class-path", class_path(), "--driver-memory", "2g"]
    return run([*submit, HERE / "programs" / "opened_session.py", step], {"PYSPARK_PYTHON": sys.executable})


def _enter(report: Report, case: str, ended: Run, starts: Starts) -> None:
    """Enter a run as a whole, by part and by task."""
    parts = dict.fromkeys(("Airflow", "interpreter and imports", "JVM start", "work", IN_AIRFLOW), (0.0, 0.0))
    inside = list[Seen]()

    def add(part: str, seconds: float, cpu: float) -> None:
        parts[part] = parts[part][0] + seconds, parts[part][1] + cpu

    for task in ended.tasks:
        wall = _moment(task["end_date"]) - _moment(task["start_date"])
        job = ended.job_of(task)
        processes = job or ended.task_process(task)
        inside += processes
        cpu = _spent(processes, ended)
        report.add(case, f"task {task['task_id']}", Measured(wall, cpu, _peaks(processes)))
        if not job:
            add(IN_AIRFLOW, wall, cpu)
            continue
        imports, session = starts[task["task_id"].partition(".")[0]]
        in_jvm = session if session is not None and any(each.name == "java" for each in job) else Measured(0, 0, {})
        works = max(each.ended for each in job) - min(each.began for each in job)
        add("interpreter and imports", imports.seconds, imports.cpu_seconds)
        add("JVM start", in_jvm.seconds, in_jvm.cpu_seconds)
        rest = cpu - imports.cpu_seconds - in_jvm.cpu_seconds
        add("work", works - imports.seconds - in_jvm.seconds, rest)
    others = [each for each in ended.processes if each not in inside]
    whole = ended.ended - ended.begun
    add("Airflow", whole - sum(seconds for seconds, _ in parts.values()), _spent(others, ended))
    for part, (seconds, cpu) in parts.items():
        report.add(case, f"part {part}", Measured(seconds, cpu, _peaks(others) if part == "Airflow" else {}))
    report.add(case, "the run", Measured(whole, _spent(inside, ended), _peaks(inside)))


def _spent(processes: Sequence[Seen], ended: Run) -> float:
    return sum(each.spent(ended.begun, ended.ended) for each in processes)


def _peaks(processes: Sequence[Seen]) -> dict[str, float]:
    """Return the largest peaks by kind of process: Airflow's have titles that begin with its name."""
    peaks = dict[str, float]()
    for each in processes:
        kind = each.name.partition(" ")[0]
        peaks[kind] = max(peaks.get(kind, 0.0), each.peak_mb)
    return peaks


def _check(warehouse: Path, arrival: Path) -> None:
    """Refuse a run after which a row of a current table is not as the source has it."""
    folder = warehouse / "orders"
    rows = {name: arrow_tables.select(str(folder / name), "select * from t").to_pylist() for name in TABLES}
    shown = {name: comparison.keyed(rows[name], table.key) for name, table in TABLES.items()}
    if differences := comparison.differences(replay.truth(arrival / "_final"), shown):
        raise Failed(f"{warehouse}: {comparison.report(differences)}")
