"""A component's process: waited for until it is ready, ended when asked to, never left behind."""

import atexit
import functools
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakSet

T = TypeVar("T")

PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections, so that a port stays free while its owner is restarted."""
TROUBLE = re.compile(r"\b(ERROR|FATAL)\b|Caused by:|Exception:")
TROUBLES, LAST = 12, 15
"""Lines of a log that a message shows: of those that tell of trouble, and of its end."""
_started: "WeakSet[Service]" = WeakSet()


class ServiceFailed(Exception):
    """A component ended, or did not do in time what was waited for; the message shows the end of its log."""


def wait_until(check: Callable[[], T], what: str, within: float = 60) -> T:
    """Ask again and again until the answer is true, and return it."""
    deadline = time.monotonic() + within
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise ServiceFailed(f"waited {within:g} s for {what}")
        time.sleep(0.05)
    return answer


def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def listens(port: int) -> bool:
    """Tell whether something answers there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@functools.cache
def can_tie() -> bool:
    """Tell whether this system can end a process with the one that started it, even when that is killed."""
    program = shutil.which("setpriv")
    if not program:
        return False
    return "--pdeathsig" in subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout


def tied(
    command: Sequence[object], privileges: Sequence[str] = (), dies_by: signal.Signals = signal.SIGKILL
) -> list[str]:
    """Return the command with what gives it other privileges and a signal when its parent dies."""
    options = [*privileges, *(("--pdeathsig", dies_by.name.removeprefix("SIG")) if can_tie() else ())]
    return [*(["setpriv", *options] if options else []), *map(str, command)]


class Service:
    """One process with a folder of its own, its log in it."""

    name = "service"
    dies_by = signal.SIGKILL
    """What it gets when the process that started it dies."""
    ends_by = signal.SIGTERM
    crashes_by = signal.SIGKILL
    leads_session = True
    """Whether it has a session of its own: signals to that of the process that started it do not reach it."""

    def __init__(self, folder: Path) -> None:
        """Take a folder, which is made where it is not there; nothing is started."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file that takes what the process prints."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        raise NotImplementedError

    def stop(self, within: float = 30) -> None:
        """End it as an operator would; kill it when it does not follow."""
        self._end(self.ends_by, within)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._end(self.crashes_by, 30)

    def tail(self) -> str:
        """Return the end of the log, and before it the last of the earlier lines that tell of trouble."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        trouble = [line for line in lines[:-LAST] if TROUBLE.search(line)]
        return "\n".join(line[:300] for line in (*trouble[-TROUBLES:], "...", *lines[-LAST:]))

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self.stop()

    def _launch(
        self,
        command: Sequence[object],
        privileges: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process; what it says goes to the log. environment: its variables; None: those of this process."""
        if self.pid:
            raise ServiceFailed(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                tied(command, privileges, self.dies_by),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=self.leads_session,
            )
        _started.add(self)

    def _wait(self, check: Callable[[], bool], what: str, within: float = 90) -> None:
        """Wait for a sign of life; when none comes, kill the process and show its log."""

        def alive_and_ready() -> bool:
            if not self.pid:
                code = self._process.returncode if self._process else None
                raise ServiceFailed(f"{self.name} ended with exit code {code} before {what}")
            return check()

        try:
            wait_until(alive_and_ready, what, within)
        except ServiceFailed as failed:
            self.kill()
            raise ServiceFailed(f"{self.name}: {failed}; the end of {self.log}:\n{self.tail()}") from None

    def _signal(self, number: signal.Signals) -> None:
        if self._process and self.pid:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals, within: float) -> None:
        if not self._process:
            return
        self._signal(number)
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        _started.discard(self)


@atexit.register
def _kill_all() -> None:
    for service in list(_started):
        service.kill()
