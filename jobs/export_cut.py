"""export_cut: write the tables of a published cut as plain Parquet files, with a manifest.

    python jobs/export_cut.py --pipeline orders --warehouse /lake --out /exports/orders [--cut N] [--table NAME ...]

Writes `OUT/TABLE/part-N.parquet` and, last, the file manifest.json in OUT with the cut, and of every table its version,
columns, and of every file its rows, bytes and SHA-256. Vacuum keeps the cut's files while it runs.

Exit codes: 0 done, or done before; 2 no such cut or table, or the folder holds something else; 5 a table of the cut was
written anew; 1 unforeseen. The last line of the log holds the counts.
"""

import sys
from argparse import Namespace
from typing import Any

from txloom.steps.export.export_cut import Choice, export_cut
from txloom.steps.runner import Job, listed, optional, parser, run


def _choices(given: Namespace) -> dict[str, Any]:
    return {"choice": Choice(given.out, given.cut, listed(given.table))}


if __name__ == "__main__":
    flags = parser("export_cut", __doc__)
    flags.add_argument("--out", required=True, help="the folder to write into, a path or a URI")
    flags.add_argument("--cut", type=optional(int), default=None, help="the number of the cut; default: the newest")
    flags.add_argument(
        "--table", action="append", default=[], help="a current table, or several with commas; default: all"
    )
    sys.exit(run(Job("export_cut", export_cut, flags, session="none", writes=False, choices=_choices)))
