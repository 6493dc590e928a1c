"""Nothing is left behind: a component ends with the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.absent import give_up_for
from services.broker import Broker
from services.fetched import PROJECT
from services.postgres import Postgres
from services.process import can_tie, wait_until

START_AND_WAIT = """
import sys, time
from pathlib import Path
from services.{module} import {kind}
service = {kind}(Path(sys.argv[1]))
service.start()
print(service.pid, flush=True)
if sys.argv[2] == "wait":
    time.sleep(300)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def started_elsewhere(kind: type, folder: Path, then: str) -> tuple[subprocess.Popen[str], int]:
    """Start a component in a Python process of its own; return that and the component's id."""
    script = START_AND_WAIT.format(module=kind.__module__.split(".")[-1], kind=kind.__name__)
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(folder), then],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{PROJECT / 'tests'}:{PROJECT / 'include'}"},
    )
    assert owner.stdout
    with owner.stdout:
        return owner, int(owner.stdout.readline())


def test_a_component_ends_with_the_process_that_forgot_it(tmp_path: Path) -> None:
    owner, pid = started_elsewhere(Broker, tmp_path, "end")
    assert owner.wait(60) == 0
    wait_until(lambda: not alive(pid), "the broker to end", 10)


@pytest.mark.parametrize("kind", [Broker, Postgres])
def test_a_component_ends_with_the_process_that_was_killed(
    kind: type, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not can_tie():
        give_up_for("this system has no setpriv that ends a process with its parent")
    if kind is Postgres:
        request.getfixturevalue("postgres")
    owner, pid = started_elsewhere(kind, tmp_path, "wait")
    assert alive(pid)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until(lambda: not alive(pid), f"{kind.__name__} to end", 10)
