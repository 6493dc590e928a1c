"""Print, while a step runs, which Spark stages it works on: a line in the task's log every half minute."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from txloom.storage.spark import tasks

LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pyspark import SparkContext

EVERY = float(os.environ.get("TXLOOM_PROGRESS_SECONDS", "30"))
"""Seconds between two lines."""
SHOWN = 3
"""The most stages that one line names."""


@contextmanager
def reported(step: str, every: float = EVERY) -> Iterator[None]:
    """Print a line about the running Spark stages every so many seconds, until the block ends.

    step: the name with which each line begins.
    """
    over, began = threading.Event(), monotonic()

    def report() -> None:
        while not over.wait(every):
            LOG.info(f"{step} has worked for {duration(monotonic() - began)}: {_doing()}")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()


def duration(seconds: float) -> str:
    """Write a duration in seconds, or in the two largest of hours, minutes and seconds.

    >>> duration(42.4), duration(150), duration(3723)
    ('42 s', '2 min 30 s', '1 h 2 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _doing() -> str:
    """Describe the stages that Spark runs now, else the tasks of processes."""
    context = tasks.active_context()
    # A context is the active one before it has connected to its JVM.
    stages = _stages(context) if context is not None and getattr(context, "_jsc", None) is not None else []
    if not stages:
        return tasks.doing() or "no task is running at this moment"
    more = f", and {len(stages) - SHOWN} stages more" if len(stages) > SHOWN else ""
    return "; ".join(stages[:SHOWN]) + more


def _stages(context: "SparkContext") -> list[str]:
    """Return a description of each running stage, in the order of their ids."""
    tracker = context.statusTracker()
    infos = (tracker.getStageInfo(stage) for stage in sorted(tracker.getActiveStageIds()))
    return [
        f"{stage.numCompletedTasks} of {stage.numTasks} tasks are done, {stage.numActiveTasks} run ({stage.name})"
        for stage in infos
        if stage is not None
    ]
