"""Run a program and measure it: wall seconds, processors' seconds and peak memory of it and all that it starts."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
SCRATCH = PROJECT / ".state" / "bench"
"""Where benchmarks keep their data and their warehouses; `make clean` removes it."""
SOURCES = os.pathsep.join(str(PROJECT / each) for each in ("include", "tests"))
"""Comes before the installed package: a worktree measures its own code, not that of the one that was set up."""
EVERY = 0.05
"""Seconds between two looks at the processes."""
IN_PLACE = ("_last_checkpoint", "heartbeat.json")
"""Files that Spark or txloom writes over: through a link they would change in the folder that was copied, too."""


class Failed(Exception):
    """A program failed, or its result is wrong: the benchmark says nothing then."""


@dataclass
class Measured:
    """What one run of a program took."""

    seconds: float
    cpu_seconds: float
    """Of all its processes; what a process does in its last EVERY seconds is not seen."""
    peak_mb: dict[str, float]
    """By kind of process (python, java, ...), the largest peak of resident memory of one process."""
    result: dict[str, Any] = field(default_factory=dict)
    """What it printed after RESULT, as JSON."""
    printed: str = ""

    @property
    def largest_mb(self) -> float:
        """Return the largest peak of resident memory of one process."""
        return max(self.peak_mb.values(), default=0.0)


def together(runs: Sequence[Measured]) -> Measured:
    """Return what runs that follow each other took together; peaks of memory are those of the largest process."""
    kinds = {kind for each in runs for kind in each.peak_mb}
    peaks = {kind: max(each.peak_mb.get(kind, 0.0) for each in runs) for kind in kinds}
    return Measured(sum(each.seconds for each in runs), sum(each.cpu_seconds for each in runs), peaks)


class Watch:
    """Looks at the processes below one while it runs."""

    def __init__(self, pid: int) -> None:
        """Begin to look at a process."""
        self._root, self._stop = psutil.Process(pid), threading.Event()
        self._cpu, self._peak = dict[tuple[int, float], float](), dict[str, float]()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> tuple[float, dict[str, float]]:
        """Return processors' seconds and peaks of memory by kind of process."""
        self._stop.set()
        self._thread.join()
        return sum(self._cpu.values()), self._peak

    def _look(self) -> None:
        while not self._stop.is_set():
            try:
                processes = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in processes:
                self._note(process)
            self._stop.wait(EVERY)

    def _note(self, process: psutil.Process) -> None:
        try:
            spent, name = process.cpu_times(), process.name()
            status = Path(f"/proc/{process.pid}/status").read_text()
        except (psutil.Error, OSError):
            return
        self._cpu[process.pid, process.create_time()] = spent.user + spent.system
        peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
        self._peak[name] = max(self._peak.get(name, 0.0), int(peak) / 1024)


def run(command: Sequence[Any], environment: Mapping[str, str] | None = None) -> Measured:
    """Run a program to its end and measure it.

    Raises:
        Failed: it ended with another exit code than 0; its last lines are in the message.
    """
    words = [str(word) for word in command]
    begun = time.perf_counter()
    program = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": SOURCES, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = Watch(program.pid)
    printed, errors = program.communicate()
    seconds = time.perf_counter() - begun
    cpu, peak = watch.end()
    if program.returncode:
        said = [line for line in (printed + errors).splitlines() if " INFO " not in line]
        raise Failed(
            f"{Path(words[0]).name} {' '.join(words[1:4])} ended with {program.returncode}:\n" + "\n".join(said[-20:])
        )
    line = next((each for each in printed.splitlines() if each.startswith("RESULT ")), "RESULT {}")
    return Measured(seconds, cpu, peak, json.loads(line.removeprefix("RESULT ")), printed)


def job(
    step: str, pipeline: Path, warehouse: Path, *flags: Any, environment: Mapping[str, str] | None = None
) -> Measured:
    """Run a step as its job runs, in a process of its own that opens a JVM only where the step needs one."""
    command = [
        sys.executable,
        PROJECT / "jobs" / f"{step}.py",
        "--pipeline",
        pipeline,
        "--warehouse",
        warehouse,
        *flags,
    ]
    return run(command, environment)


def program(name: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> Measured:
    """Run a program of `tests/benchmarks/programs`, which prints RESULT and JSON."""
    return run([sys.executable, HERE / "programs" / f"{name}.py", *arguments], environment)


def fresh(name: str) -> Path:
    """Return the name of a folder below SCRATCH that is not there; the one above it is."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def made(name: str, make: Any) -> Path:
    """Return a folder below SCRATCH that `make(folder)` fills once; a later run takes it as it is.

    Data that a changed generator would make differently needs another name.
    """
    folder = SCRATCH / name
    if not folder.is_dir():
        unfinished = fresh(f"{name}.unfinished")
        unfinished.mkdir()
        make(unfinished)
        unfinished.rename(folder)
    return folder


def copied(folder: Path, name: str) -> Path:
    """Return a copy of a folder, by links in no time: but for IN_PLACE, Delta's files are never changed in place."""
    copy = fresh(name)
    shutil.copytree(folder, copy, copy_function=_linked)
    return copy


def _linked(file: str, copy: str) -> None:
    if Path(file).name in IN_PLACE:
        shutil.copy2(file, copy)
    else:
        os.link(file, copy)
