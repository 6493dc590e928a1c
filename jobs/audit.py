"""audit: compare the lake with the live database at one moment, and say exactly which rows differ.

    python jobs/audit.py --pipeline orders --warehouse /lake [--table NAME ...] [--wait SECONDS]
    python jobs/audit.py --pipeline orders --warehouse /lake --snapshot /exports/monday --csn 334516829

Reads the database that `audit.connection` of the declaration names, in one read-only transaction: digests of key
ranges, and rows only where these differ. Compares documents with the rows of their members. The result is in the table
audit_results, which also says what was not compared; each table that differs is a finding, and the last line of the log
holds the counts. With --snapshot the files of a folder, as of a csn, stand for the database.

Exit codes: 0 done, whatever was found; 2 no database is declared, it lacks a table or a column that --table names, or
none can be compared, or a file cannot be read; 12 the database does not answer; 1 unforeseen.
"""

import sys
from argparse import Namespace
from datetime import timedelta
from typing import Any

from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.steps.runner import Job, listed, optional, parser, run


def _choices(given: Namespace) -> dict[str, Any]:
    wait = None if given.wait is None else timedelta(seconds=given.wait)
    return {"choice": Choice(listed(given.table), wait, given.snapshot, given.csn)}


if __name__ == "__main__":
    flags = parser("audit", __doc__)
    flags.add_argument(
        "--table", action="append", default=[], help="a declared table, or several with commas; default: all"
    )
    flags.add_argument(
        "--wait",
        type=optional(float),
        default=None,
        help="seconds to wait until the lake shows the database's snapshot; default: as declared",
    )
    flags.add_argument(
        "--snapshot", type=optional(str), help="a snapshot folder to compare with, instead of the declared database"
    )
    flags.add_argument("--csn", type=optional(int), help="the csn as of which its rows are; default: its date's")
    sys.exit(run(Job("audit", audit, flags, session="none", writes=False, choices=_choices)))
