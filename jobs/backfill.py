"""backfill: rebuild tables from change_events beside the live ones, compare, and repair what differs.

    python jobs/backfill.py --pipeline orders --warehouse /lake --run-id july --task rebuild --from-csn 100 --to-csn 200
    python jobs/backfill.py ... --run-id july --task rebuild --from-time 2026-07-01T00:00:00Z --table orders
    python jobs/backfill.py ... --run-id july --task compare
    python jobs/backfill.py ... --run-id july --task apply
    python jobs/backfill.py ... --run-id july --task drop

rebuild builds the history of the range, as declared now, from the events of every released transaction, and the
current tables from history, into shadow tables (`_shadow_...`). compare counts what differs (`changes=0` in the last
line: nothing) and writes numbers and sample rows to the table `backfills`. apply writes it into the live tables:
history gets what it lacks and is corrected, it never loses a row; current tables get what follows from it. drop removes
the shadow tables. All four need the same --run-id. Without a range, or tables, everything is rebuilt.

Exit codes: 0 done; 2 no such range or table, or not this task's turn; 10 another run holds the lease; 21 live tables
moved on since and something else differs now: nothing was applied, begin anew; 1 unforeseen.
"""

import sys
from argparse import Namespace
from datetime import datetime
from typing import Any

from txloom.config.names import BACKFILL_TASKS
from txloom.steps.backfill.backfill import Range, backfill
from txloom.steps.runner import Job, listed, optional, parser, run


def _choices(given: Namespace) -> dict[str, Any]:
    csns, times = (given.from_csn, given.to_csn), (given.from_time, given.to_time)
    return {"task": given.task, "within": Range(csns, times, listed(given.table))}


if __name__ == "__main__":
    flags = parser("backfill", __doc__)
    flags.add_argument("--task", required=True, choices=BACKFILL_TASKS, help="what to do")
    for name, kind, what in (("csn", int, "csn"), ("time", datetime.fromisoformat, "commit time, with its zone")):
        flags.add_argument(f"--from-{name}", type=optional(kind), help=f"the first {what} of the range")
        flags.add_argument(f"--to-{name}", type=optional(kind), help=f"the last {what} of the range")
    flags.add_argument("--table", action="append", default=[], help="a watched table, or several with commas")
    sys.exit(run(Job("backfill", backfill, flags, session="lazy", choices=_choices)))
