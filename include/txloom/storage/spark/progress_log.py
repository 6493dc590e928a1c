"""Tells, while a step takes long, what Spark is at: a line in the task's log every half minute."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

LOG = logging.getLogger(__name__)

if TYPE_CHECKING:
    from pyspark import SparkContext

EVERY = float(os.environ.get("TXLOOM_PROGRESS_SECONDS", "30"))
SHOWN = 3
"""Stages that one line names."""


@contextmanager
def reported(step: str, every: float = EVERY) -> Iterator[None]:
    """Print a line about the running Spark jobs every so many seconds, until the block ends."""
    over, began = threading.Event(), monotonic()

    def tell() -> None:
        while not over.wait(every):
            LOG.info(f"{step} has worked for {duration(monotonic() - began)}: {_doing()}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def duration(seconds: float) -> str:
    """Write a duration as people say it.

    >>> duration(42.4), duration(150), duration(3723)
    ('42 s', '2 min 30 s', '1 h 2 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _doing() -> str:
    """Say what Spark is at; a job that has not loaded it does nothing there, and need not wait for it to load."""
    loaded = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    context = loaded._active_spark_context if loaded is not None else None
    stages = _stages(context) if context is not None else []
    if not stages:
        return "no Spark job is running at this moment"
    more = f", and {len(stages) - SHOWN} stages more" if len(stages) > SHOWN else ""
    return "; ".join(stages[:SHOWN]) + more


def _stages(context: "SparkContext") -> list[str]:
    """Return each running stage in words."""
    tracker = context.statusTracker()
    infos = (tracker.getStageInfo(stage) for stage in sorted(tracker.getActiveStageIds()))
    return [
        f"{stage.numCompletedTasks} of {stage.numTasks} tasks are done, {stage.numActiveTasks} run ({stage.name})"
        for stage in infos
        if stage is not None
    ]
