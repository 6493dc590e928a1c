"""load_snapshot: bring rows of whole tables, as of a csn, into the stream: an initial load, or a repair.

    python jobs/load_snapshot.py --pipeline orders --warehouse /lake --path /exports/monday --csn 334516829
    python jobs/load_snapshot.py ... --time 2026-01-31T08:00:00Z --table orders

PATH holds a folder for each table, named as it is declared, with files of rows: .jsonl, .json, .csv (each also .gz) or
.parquet, columns named as in the source. Tables without a folder, or not among those that --table names, are not
changed. Take the csn at the source when the export begins, from a consistent read: changes at or below it do not change
the rows, later ones apply, so that the stream may have begun before.

Everything is read before anything is landed. The next cycle applies it as one transaction.

Exit codes: 0 done; 2 a file or a row cannot be read: nothing was loaded; 12 the folder is not there; 1 unforeseen.
"""

import sys
from argparse import BooleanOptionalAction, Namespace
from datetime import datetime
from typing import Any

from txloom.steps.runner import Job, listed, optional, parser, run
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot


def _choices(given: Namespace) -> dict[str, Any]:
    return {"snapshot": Snapshot(given.path, given.csn, given.time, listed(given.table), given.ahead)}


if __name__ == "__main__":
    flags = parser("load_snapshot", __doc__)
    flags.add_argument("--path", required=True, help="the folder with a folder for each table")
    flags.add_argument("--csn", required=True, type=int, help="the csn as of which the rows are")
    moment = optional(datetime.fromisoformat)
    flags.add_argument("--time", type=moment, help="when that was, for reads as of a moment")
    flags.add_argument(
        "--table", action="append", default=[], help="a table, or several with commas; default: all there"
    )
    ahead = "the csn is meant, though it is far above the stream's"
    flags.add_argument("--ahead", action=BooleanOptionalAction, default=False, help=ahead)
    sys.exit(run(Job("load_snapshot", load_snapshot, flags, session="lazy", choices=_choices)))
