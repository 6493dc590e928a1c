"""redrive: let the buffer decide on dead letters once more.

    python jobs/redrive.py --pipeline orders --warehouse /lake --transaction 1.2.3:334516829
    python jobs/redrive.py --pipeline orders --warehouse /lake --cause "metadata never came"
    python jobs/redrive.py --pipeline orders --warehouse /lake --message "rows/7.jsonl, line 3"
    python jobs/redrive.py --pipeline orders --warehouse /lake --all

Repair first what the cause names: send what is missing, correct the counts, or the declaration. All that was ever
landed of a transaction is taken, with the newest of its metadata, as declared now. The next buffer_transactions
releases what is whole and gives up the rest at once; the next cut no longer lists what was released as a gap.
--version takes only what that version of the table dead_letters has, such as the one that was listed. Needs no Spark.

Exit codes: 0 done; 2 nothing chosen, no such transaction, cause or message; 1 unforeseen. The last line of the
log holds the counts.
"""

import sys

from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.runner import Job, dead_letter_flags, dead_letter_selection, parser, run

if __name__ == "__main__":
    flags = parser("redrive", __doc__)
    dead_letter_flags(flags)
    choices = lambda given: {"selection": dead_letter_selection(given)}  # noqa: E731
    sys.exit(run(Job("redrive", redrive, flags, session="none", choices=choices)))
