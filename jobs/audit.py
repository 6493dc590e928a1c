"""audit: compare the lake with the live database at one moment, and say exactly which rows differ.

    python jobs/audit.py --pipeline orders --warehouse /lake [--table NAME ...] [--wait SECONDS]

Reads the database that `audit.connection` of the declaration names, in one read-only transaction: digests of key
ranges, and rows only where these differ. The result is in the table audit_results, each table that differs is a
finding, and the last line of the log holds the counts.

Exit codes: 0 done, whatever was found; 2 no database is declared, or it lacks a table or a column; 12 the database does
not answer; 1 unforeseen.
"""

import sys
from argparse import Namespace
from datetime import timedelta
from typing import Any

from txloom.steps.audit.audit import Choice, audit
from txloom.steps.runner import Job, listed, optional, parser, run


def _choices(given: Namespace) -> dict[str, Any]:
    return {"choice": Choice(listed(given.table), None if given.wait is None else timedelta(seconds=given.wait))}


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
    sys.exit(run(Job("audit", audit, flags, session="none", writes=False, choices=_choices)))
