"""Work in processes of this machine: its results in order, its errors as they are, and no process that outlives it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from services.process import wait_until
from txloom.errors import ConfigurationError, TxloomError
from txloom.steps.step import no_session
from txloom.storage.spark import tasks


@pytest.fixture
def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the session of other tests in this process be none."""
    monkeypatch.setattr(tasks, "_is_session_open", lambda: False)


def test_what_tasks_yield_comes_in_the_order_of_the_items(without_session: None) -> None:
    factor = 3

    def work(numbers: Iterable[int]) -> Iterator[tuple[int, bool]]:
        for number in numbers:
            yield number * factor, os.getpid() != parent
            yield -number, os.getpid() != parent

    parent = os.getpid()
    made = tasks.in_tasks(no_session, [5, 1, 4], work)
    assert made == [(15, True), (-5, True), (3, True), (-1, True), (12, True), (-4, True)]
    assert tasks.in_tasks(no_session, list[int](), work) == []
    assert tasks.doing() is None


def test_the_session_s_tasks_work_where_one_is_open(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_in_processes", None)
    assert tasks.in_tasks(lambda: spark, [[1, 2], [3], [4, 5]], lambda items: map(sum, items)) == [3, 3, 9]


def test_another_machine_is_asked_for_a_session(without_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tasks.MASTER, "spark://somewhere:7077")
    with pytest.raises(ConfigurationError, match="too large for a process without Spark"):
        tasks.in_tasks(no_session, [[1]], lambda items: map(sum, items))


def test_an_error_is_raised_as_it_is_and_what_has_not_begun_does_not_begin(
    without_session: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(tasks.MASTER, "local[1]")

    def work(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            if number == 1:
                raise ConfigurationError("file.csv: row 1: no number")
            (tmp_path / str(number)).touch()
            time.sleep(0.02)
            yield number

    with pytest.raises(ConfigurationError, match=r"^file.csv: row 1: no number$"):
        tasks.in_tasks(no_session, [0, 1, *range(2, 100)], work)
    begun = len(list(tmp_path.iterdir()))
    assert (tmp_path / "0").exists()
    assert begun < 50
    time.sleep(1)
    assert len(list(tmp_path.iterdir())) == begun, "no task runs any more"


class Odd(Exception):
    """An error that pickle does not restore: its argument is not what it was made of."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def of_delta(items: Iterable[str]) -> Iterator[int]:
    for path in items:
        yield DeltaTable(path).version()


def odd(items: Iterable[str]) -> Iterator[int]:
    raise Odd(3, 4)


@pytest.mark.parametrize(("work", "message"), [(of_delta, "TableNotFoundError: .*nowhere"), (odd, "^Odd: 3 and 4$")])
def test_an_error_that_cannot_be_sent_is_named(without_session: None, tmp_path: Path, work: Any, message: str) -> None:
    with pytest.raises(TxloomError, match=message):
        tasks.in_tasks(no_session, [str(tmp_path / "nowhere")], work)


@pytest.mark.parametrize(("text", "cores"), [("100000 100000", 1), ("1 100000", 1), ("max 100000", 0), ("what", 0)])
def test_no_more_cores_are_used_than_a_container_has(tmp_path: Path, text: str, cores: int) -> None:
    quota = tmp_path / "cpu.max"
    assert tasks.available_cores(quota) == len(os.sched_getaffinity(0))
    quota.write_text(text)
    assert tasks.available_cores(quota) == (cores or len(os.sched_getaffinity(0)))


def test_a_killed_process_is_an_error_that_says_so(without_session: None) -> None:
    def work(numbers: Iterable[int]) -> Iterator[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        return iter(numbers)

    with pytest.raises(TxloomError, match="was killed, for lack of memory perhaps"):
        tasks.in_tasks(no_session, [1], work)


def test_the_log_says_how_many_are_done(without_session: None, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"

    def work(numbers: Iterable[int]) -> Iterator[int]:
        wait_until(lambda: 0 in numbers or go_on.exists(), "the test to go on")
        return iter(numbers)

    running = threading.Thread(target=tasks.in_tasks, args=(no_session, [0, 1], work))
    running.start()
    try:
        wait_until(lambda: (tasks.doing() or "").startswith("1 of 2 tasks are done (test_tasks"), "one done")
    finally:
        go_on.touch()
        running.join()
    assert tasks.doing() is None


def test_processes_end_with_a_job_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "import os, sys, time\n"
        "from txloom.storage.spark import tasks\n"
        "def work(items):\n"
        "    for item in items:\n"
        "        open(f'{sys.argv[1]}/{item}.pid', 'w').write(str(os.getpid()))\n"
        "        time.sleep(300)\n"
        "        yield item\n"
        "if __name__ == '__main__':\n"
        "    tasks.in_tasks(None, [1, 2], work)\n"
    )
    environment = {**os.environ, tasks.MASTER: "local[2]"}
    job = subprocess.Popen([sys.executable, program, tmp_path], env=environment)
    try:
        wait_until(lambda: len([f for f in tmp_path.glob("*.pid") if f.read_text()]) == 2, "two processes")
        below = [each.pid for each in psutil.Process(job.pid).children(recursive=True)]
        working = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
        assert set(working) <= set(below)
    finally:
        job.kill()
        job.wait()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in below), "all processes to end")
