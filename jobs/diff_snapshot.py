"""diff_snapshot: compare the extracts of a date with the current tables, and land what differs as one transaction.

    python jobs/diff_snapshot.py --pipeline customers --warehouse /lake --date 2026-11-20

The extracts are at <source.files.path>/<date>/<table>, in files as load_snapshot takes them. Rows that are new, changed
or gone become one transaction, whose csn is the date as a number; a partial extract deletes nothing. Dates come in
order: one that is no newer than what was landed is skipped (skipped=1). The current tables must hold everything that
was landed before: run buffer_transactions and merge_current between two dates, as the DAG does. After an edit of
the declaration that changes current rows, the job runs both by itself before it compares the date.

A full extract has every watched table; a date that lacks one is refused, because a cut would show two dates. With
--without TABLE the table keeps its rows of the date before, and a finding says so.

Exit codes: 0 done, or skipped; 2 a row cannot be read, a key is null or stands twice, an extract without rows would
empty its table: nothing was landed; 3 the current tables are behind, also after the merge that follows an edit, or an
earlier date is in the dead letters; 12 the extracts are not there, not whole yet, or lack a table; 1 unforeseen. After
an edit of the declaration also those of buffer_transactions and merge_current.
"""

import sys
from datetime import date

from txloom.steps.runner import Job, parser, run
from txloom.steps.snapshots.diff_snapshot import diff_snapshot_after_edits

if __name__ == "__main__":
    flags = parser("diff_snapshot", __doc__)
    flags.add_argument("--date", required=True, type=date.fromisoformat, help="the date, as 2026-11-20")
    flags.add_argument(
        "--leave-out-dead", action="store_true", help="partial extracts: go on without dates that are dead letters"
    )
    flags.add_argument(
        "--without", action="append", default=[], metavar="TABLE", help="go on without an extract of this table"
    )
    choices = lambda given: {  # noqa: E731
        "day": given.date,
        "leave_out_dead": given.leave_out_dead,
        "without": given.without,
    }
    sys.exit(run(Job("diff_snapshot", diff_snapshot_after_edits, flags, session="lazy", choices=choices)))
