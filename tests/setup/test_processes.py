"""The processes that `make up` leaves running: found again, stopped with what they started, mistaken for no others."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.process import wait_until

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "processes.sh"
RENAMED = """#!/usr/bin/env bash
sleep 300 &
echo $! > "$AIRFLOW_HOME/child"
exec -a "airflow api_server -- host:0.0.0.0" tail -f /dev/null
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "log").mkdir()
    airflow = tmp_path / "airflow"
    airflow.write_text(RENAMED)
    airflow.chmod(0o755)
    yield tmp_path
    shell(tmp_path, "stop api-server")


def shell(home: Path, commands: str) -> int:
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}"}
    script = f". {SCRIPT}; {commands}"
    return subprocess.run(["bash", "-c", script], env=environment, check=False, stdout=subprocess.DEVNULL).returncode


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_a_started_process_runs_under_its_new_name_until_it_is_stopped_with_its_children(home: Path) -> None:
    assert shell(home, "start airflow api-server") == 0
    for _ in range(100):
        if shell(home, "running api-server") == 0 and (home / "child").exists() and (home / "child").read_text():
            break
        time.sleep(0.1)
    pid, child = int((home / "api-server.pid").read_text()), int((home / "child").read_text())
    assert alive(pid) and alive(child)
    assert shell(home, "running scheduler") != 0
    shell(home, "stop api-server")
    assert not alive(pid) and not alive(child)
    assert not (home / "api-server.pid").exists()


def test_another_process_that_got_the_number_is_left_alone(home: Path) -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        (home / "scheduler.pid").write_text(str(other.pid))
        assert shell(home, "running scheduler") != 0
        shell(home, "stop scheduler")
        assert other.poll() is None
        assert not (home / "scheduler.pid").exists()
        other.kill()


def test_what_a_killed_process_has_left_behind_is_stopped_too(home: Path) -> None:
    assert shell(home, "start airflow api-server") == 0
    wait_until(lambda: (home / "child").exists() and shell(home, "running api-server") == 0, "it to run", 20)
    pid, child = int((home / "api-server.pid").read_text()), int((home / "child").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "it to end", 10)
    assert alive(child)
    shell(home, "stop api-server")
    assert not alive(child)
    assert not (home / "api-server.pid").exists()


def test_nothing_is_left_of_a_killed_process_when_it_is_started_again(home: Path) -> None:
    assert shell(home, "start airflow api-server") == 0
    wait_until(lambda: (home / "child").exists() and shell(home, "running api-server") == 0, "it to run", 20)
    pid, child = int((home / "api-server.pid").read_text()), int((home / "child").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "it to end", 10)
    assert shell(home, "start airflow api-server") == 0
    assert not alive(child)


def test_a_number_from_before_a_restart_of_the_machine_ends_nobody(home: Path) -> None:
    leave = ["bash", "-c", "sleep 300 & echo $!"]
    with subprocess.Popen(leave, start_new_session=True, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        child = int(other.stdout.readline())
    (home / "scheduler.pid").write_text(str(other.pid))
    (home / "scheduler.boot").write_text("another boot\n")
    shell(home, "stop scheduler")
    assert alive(child)
    os.kill(child, signal.SIGKILL)
