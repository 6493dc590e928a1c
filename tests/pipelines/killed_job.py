"""Run one job and kill the process with SIGKILL right after its n-th write: `killed_job.py STEP N ARGUMENTS...`.

Writes are counted where they happen, in the storage room; nothing else differs from `jobs/STEP.py`.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from txloom.pipelines import command
from txloom.storage import books, current, local, tables

MODULES = {
    "land_events": "land",
    "buffer_transactions": "buffer",
    "merge_current": "merge",
    "publish": "publish",
    "check_expectations": "check",
    "maintain_tables": "maintain",
}
SESSIONS: dict[str, Any] = {"land_events": "lazy", "publish": "none"}


def main() -> int:
    step, deadly, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    module = importlib.import_module(f"txloom.pipelines.{MODULES[step]}")
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

    for room, name in (
        (books, "append"),
        (local, "append_once"),
        (tables, "append_once"),
        (current, "merge"),
        (books, "replace"),
    ):
        setattr(room, name, killing(getattr(room, name)))
    return command.run(step, getattr(module, step), arguments=arguments, session=SESSIONS.get(step, "open"))


if __name__ == "__main__":
    sys.exit(main())
