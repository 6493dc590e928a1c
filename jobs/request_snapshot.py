"""request_snapshot: ask the Debezium connector to read tables anew, beside its stream (an incremental snapshot).

    python jobs/request_snapshot.py --pipeline orders --warehouse /lake [--table NAME ...]

Without --table: the tables that a finding says need a snapshot. The connector takes the signal from the topic that
`source.signals` declares. The cycles that follow take the rows in as they come; when all are merged, rows that the
source no longer has are deleted, and the findings close. Needs no Spark.

Exit codes: 0 done; 2 no signals are declared, or no such table; 12 the brokers do not answer; 1 unforeseen.
"""

import sys
from argparse import Namespace
from typing import Any

from txloom.steps.runner import Job, listed, parser, run
from txloom.steps.snapshots.request_snapshot import request_snapshot


def _choices(given: Namespace) -> dict[str, Any]:
    return {"tables": listed(given.table)}


if __name__ == "__main__":
    flags = parser("request_snapshot", __doc__)
    flags.add_argument(
        "--table", action="append", default=[], help="a declared table, or several with commas; default: by findings"
    )
    sys.exit(run(Job("request_snapshot", request_snapshot, flags, session="none", choices=_choices)))
