"""repair: load the rows that an audit found to differ, as the source had them at the audit's moment; or undo that.

    python jobs/repair.py --pipeline orders --warehouse /lake [--audit RUN_ID] [--table NAME[=RUN_ID] ...]
                          [--allow-rows N]
    python jobs/repair.py --pipeline orders --warehouse /lake --undo RUN_ID

Without the run id of an audit, the newest result of each table counts. The database is asked for each row once more; a
row of which it says something else now is left out and named. The rows become one transaction at the audit's csn: what
the stream says of them later applies. The next cycle merges it; audit again, which closes the finding. A repeated call
loads nothing more. Needs no Spark.

--allow-rows: how many rows a person allows to be deleted or changed, in tables of which that is more than
`audit.repair.max_share`; the refusal names the number. --undo: lands the rows that a run of this job touched as history
had them before it; rows that were changed since are left and named.

Exit codes: 0 done; 2 the audit lists no rows of these tables, or too large a share of a table would be deleted or
changed; 4 what the repair replaced was cleaned from history; 12 the database does not answer; 1 unforeseen. The last
line of the log holds the counts.
"""

import sys
from argparse import Namespace
from typing import Any

from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.steps.audit.undo_repair import undo_repair
from txloom.steps.runner import Job, listed, optional, parser, run
from txloom.steps.step import Counts, Step


def _choices(given: Namespace) -> dict[str, Any]:
    tables = [each.partition("=") for each in listed(given.table)]
    audits = {name: run_id for name, _, run_id in tables if run_id}
    chosen = Chosen(given.audit or None, [name for name, _, _ in tables], audits)
    return {"chosen": chosen, "allowed_rows": given.allow_rows, "undo": given.undo or None}


def _repair_or_undo(step: Step, chosen: Chosen, allowed_rows: int | None, undo: str | None) -> Counts:
    return repair(step, chosen, allowed_rows) if undo is None else undo_repair(step, undo)


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
    flags.add_argument(
        "--allow-rows", type=optional(int), default=None, help="rows that may be deleted or changed above max_share"
    )
    flags.add_argument("--undo", default=None, metavar="RUN_ID", help="undo what this run of the job landed")
    sys.exit(run(Job("repair", _repair_or_undo, flags, session="none", choices=_choices)))
