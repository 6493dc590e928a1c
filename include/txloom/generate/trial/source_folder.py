"""The folder of a source that lives: which process runs it, and which of its faults are open (`_faults`)."""

import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from txloom.errors import ConfigurationError
from txloom.generate.trial.damage import Fault

FAULTS = "_faults"
FIRST = 120
"""Transactions with which a source begins."""
ROWS = "1-3:60,4-8:38,9-20:2"
"""How many rows its transactions have."""


class Stop:
    """Whether this process was told to end (SIGTERM), from when it is made."""

    def __init__(self) -> None:
        """Listen from now on."""
        self.is_due = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, _number: int, _frame: object) -> None:
        self.is_due = True

    def rest(self, seconds: float) -> None:
        """Wait so long, or until the process is told to end."""
        until = time.monotonic() + seconds
        while not self.is_due and time.monotonic() < until:
            time.sleep(min(0.2, seconds))


class SourceFolder:
    """A folder that one process at a time changes; folder: the path, made when something is written."""

    folder: Path

    def open_faults(self) -> list[Fault]:
        """Return the faults that are open, the oldest first."""
        names = [file.stem for file in (self.folder / FAULTS).glob("*.json")]
        return sorted(map(self._load, names), key=lambda fault: fault.at)

    def is_open(self, name: str) -> bool:
        """Return whether a fault is open."""
        return self._file(name).exists()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Say that the source runs, while a block does.

        Raises ConfigurationError where another process runs it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".running").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigurationError(f"{self.folder}: another process runs this source.") from None
            yield

    def is_running(self) -> bool:
        """Return whether a process runs the source."""
        if not self.folder.is_dir():
            return False
        try:
            with self.running():
                return False
        except ConfigurationError:
            return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the source while a block runs; whoever comes second waits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def _refuse_open(self, name: str) -> None:
        """Raise ConfigurationError where a fault is open already."""
        if self.is_open(name):
            raise ConfigurationError(f"{name}: it is open since {self._load(name).at:%H:%M:%S}; repair it first.")

    def _file(self, name: str) -> Path:
        return self.folder / FAULTS / f"{name}.json"

    def _load(self, name: str) -> Fault:
        return msgspec.json.decode(self._file(name).read_bytes(), type=Fault)

    def _save(self, fault: Fault) -> None:
        file = self._file(fault.name)
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".part").write_bytes(msgspec.json.encode(fault))
        file.with_suffix(".part").rename(file)
