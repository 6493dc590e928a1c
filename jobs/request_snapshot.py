"""request_snapshot: ask the Debezium connector to read tables anew, beside its stream (an incremental snapshot).

    python jobs/request_snapshot.py --pipeline orders --warehouse /lake [--table NAME ...]
    python jobs/request_snapshot.py --pipeline orders --warehouse /lake --give-up REQUEST

Without --table: the tables that a finding says need a snapshot. The connector takes the signal from the topic that
`source.signals` declares. The cycles that follow take the rows in as they come; when all are merged, rows that the
source no longer has are deleted, and the findings close. One request is open at a time; --give-up ends one that stays
without an answer, and tells the connector to stop reading. Needs no Spark.

Exit codes: 0 done; 2 no signals are declared, no such table or request, or another request is open; 12 the brokers do
not answer; 1 unforeseen.
"""

import sys
from argparse import Namespace
from typing import Any

from txloom.steps.runner import Job, listed, parser, run
from txloom.steps.snapshots.request_snapshot import give_up_request, request_snapshot
from txloom.steps.step import Counts, Step


def _choices(given: Namespace) -> dict[str, Any]:
    return {"tables": listed(given.table), "give_up": given.give_up}


def _request_or_give_up(step: Step, tables: list[str], give_up: str | None) -> Counts:
    return request_snapshot(step, tables) if give_up is None else give_up_request(step, give_up)


if __name__ == "__main__":
    flags = parser("request_snapshot", __doc__)
    flags.add_argument(
        "--table", action="append", default=[], help="a declared table, or several with commas; default: by findings"
    )
    flags.add_argument("--give-up", default=None, metavar="REQUEST", help="end this request, which is open")
    sys.exit(run(Job("request_snapshot", _request_or_give_up, flags, session="none", choices=_choices)))
