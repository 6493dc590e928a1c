"""Run one job and kill the process with SIGKILL right after its n-th write: `killed_job.py STEP N ARGUMENTS...`.

Writes are counted where they happen, in the storage room; the rest is `jobs/STEP.py` itself.
"""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from txloom.steps import parallel
from txloom.storage.delta import arrow_tables, data_files, small_merge, small_tables
from txloom.storage.maintenance import optimize
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import shadow_tables, spark_fold

JOBS = Path(__file__).parents[2] / "jobs"
WRITES = (
    (small_tables, "append"),
    (small_tables, "overwrite"),
    (arrow_tables, "append_once"),
    (data_files, "append_files"),
    (spark_fold, "merge"),
    (small_merge, "merge"),
    (Rewrite, "commit"),
    (shadow_tables, "write"),
    (shadow_tables, "correct"),
    (optimize, "optimize"),
    (optimize, "vacuum"),
)


def main() -> None:
    step, deadly = sys.argv[1], int(sys.argv[2])
    written = 0

    def killing(function: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **named: Any) -> Any:
            nonlocal written
            done = function(*given, **named)
            written += 1
            if written == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return write

    parallel.WRITERS = 1  # else other threads make writes behind the deadly one
    for room, name in WRITES:
        setattr(room, name, killing(getattr(room, name)))
    sys.argv = [str(JOBS / f"{step}.py"), *sys.argv[3:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
