"""repair: load the rows that an audit found to differ, as the source had them at the audit's moment.

    python jobs/repair.py --pipeline orders --warehouse /lake [--audit RUN_ID] [--table NAME[=RUN_ID] ...]

Without the run id of an audit, the newest result of each table counts. The rows become one transaction at the audit's
csn: what the stream says of them later applies. The next cycle merges it; audit again, which closes the finding. A
repeated call loads nothing more. Needs no Spark.

Exit codes: 0 done; 2 the audit lists no rows of these tables; 1 unforeseen. The last line of the log holds the counts.
"""

import sys
from argparse import Namespace
from typing import Any

from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.steps.runner import Job, listed, parser, run


def _choices(given: Namespace) -> dict[str, Any]:
    tables = [each.partition("=") for each in listed(given.table)]
    audits = {name: run_id for name, _, run_id in tables if run_id}
    return {"chosen": Chosen(given.audit or None, [name for name, _, _ in tables], audits)}


if __name__ == "__main__":
    flags = parser("repair", __doc__)
    flags.add_argument("--audit", default=None, help="the run id of an audit; default: of each table the newest")
    flags.add_argument(
        "--table",
        action="append",
        default=[],
        help="a declared table, with = and the run id of its audit where that is another; several with commas; "
        "default: all that differ",
    )
    sys.exit(run(Job("repair", repair, flags, session="none", choices=_choices)))
