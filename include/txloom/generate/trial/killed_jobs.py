"""Kill a job of a pipeline in the middle of its work, as a machine does that runs out of memory."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

from txloom.errors import ConfigurationError

STEPS = ("land_events", "buffer_transactions", "merge_current", "publish")
LONGEST = 150
"""Seconds within which a run begins, which a schedule of a minute starts."""


def kill_a_job(pipeline: str, warehouse: Path, within: float = LONGEST) -> str:
    """Wait for a job of a pipeline's cycle, kill it, and return what was done, in words.

    Args:
        pipeline: its name.
        warehouse: the one that the job was told of in its environment: other checkouts have jobs of the same name.
        within: seconds.

    Raises:
        ConfigurationError: None was seen.
    """
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        for pid, step in _jobs(pipeline, warehouse):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
            return f"process {pid}, which ran {step} of {pipeline}, was killed"
        time.sleep(0.05)
    raise ConfigurationError(f"killed-task: no job of {pipeline} ran in {within:g} s; is its DAG unpaused?")


def _jobs(pipeline: str, warehouse: Path) -> list[tuple[int, str]]:
    """Return the processes that run a step of a pipeline's cycle, with the step."""
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            is_ours = f"TXLOOM_WAREHOUSE={warehouse.absolute()}".encode() in (process / "environ").read_bytes().split(
                b"\0"
            )
        except OSError:
            continue
        steps = [step for step in STEPS for word in words if word.endswith(f"jobs/{step}.py")]
        if steps and is_ours and _follows(words, "--pipeline", pipeline):
            running.append((int(process.name), steps[0]))
    return running


def _follows(words: list[str], flag: str, value: str) -> bool:
    return any(pair == (flag, value) for pair in pairwise(words))
