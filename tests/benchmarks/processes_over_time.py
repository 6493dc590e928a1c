"""Looks at processes and all below them while they run, so that each one's share of a span of time can be told."""

import bisect
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

EVERY = 0.1
"""Seconds between two looks; what a process does after the last one is not seen."""


@dataclass
class Seen:
    """A process, as it was seen."""

    pid: int
    parent: int
    began: float
    """In seconds since 1970, as all times here."""
    title: str = ""
    """Its name and command line: the last ones, for Airflow changes those of its processes."""
    name: str = ""
    peak_mb: float = 0.0
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Its processors' seconds at these times."""

    @property
    def ended(self) -> float:
        """Return when it was last seen."""
        return self.times[-1]

    def spent(self, since: float, until: float) -> float:
        """Return its processors' seconds between two times."""
        return self._spent_by(until) - self._spent_by(since)

    def _spent_by(self, moment: float) -> float:
        at = bisect.bisect_right(self.times, moment)
        if at:
            return self.cpu[at - 1]
        return self.cpu[0] if self.began < moment else 0.0


class ProcessesOverTime:
    """Looks at the processes below some until `end` is called."""

    def __init__(self, roots: Iterable[int]) -> None:
        """Begin; roots: ids of processes."""
        self._roots, self._stop = [psutil.Process(pid) for pid in roots], threading.Event()
        self.seen = dict[tuple[int, float], Seen]()
        self._look()
        self._thread = threading.Thread(target=self._look_again, daemon=True)
        self._thread.start()

    def end(self) -> list[Seen]:
        """Return all processes that were seen."""
        self._stop.set()
        self._thread.join()
        return list(self.seen.values())

    def _look_again(self) -> None:
        while not self._stop.wait(EVERY):
            self._look()

    def _look(self) -> None:
        for root in self._roots:
            try:
                below = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
            for process in below:
                self._note(process)

    def _note(self, process: psutil.Process) -> None:
        try:
            with process.oneshot():
                began, parent, name = process.create_time(), process.ppid(), process.name()
                spent, title = process.cpu_times(), " ".join(process.cmdline())
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        except (psutil.Error, OSError):
            return
        seen = self.seen.setdefault((process.pid, began), Seen(process.pid, parent, began))
        seen.name, seen.title = name, title or seen.title
        seen.times.append(time.time())
        seen.cpu.append(spent.user + spent.system)
        seen.peak_mb = max(seen.peak_mb, int(peak[1]) / 1024 if peak else 0.0)


def below(processes: Sequence[Seen], chosen: Callable[[Seen], bool]) -> list[Seen]:
    """Return the processes that are chosen, and all that these began."""
    known = {each.pid for each in processes if chosen(each)}
    while more := {each.pid for each in processes if each.parent in known} - known:
        known |= more
    return [each for each in processes if each.pid in known]
