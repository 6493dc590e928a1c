"""list_dead_letters: show the open dead letters by cause, with what to do and their positions; nothing is written.

    python jobs/list_dead_letters.py --pipeline orders --warehouse /lake [--cause TEXT ...] [--message WHERE ...]

Totals count all of them, each cause shows its first few. The payload of an event is not shown: it is in the table's
column `value`. jobs/redrive.py lets the buffer decide on them again. Needs no Spark.

Exit codes: 0 done; 2 declaration wrong, or no such transaction, cause or message; 1 unforeseen. The last line of the
log holds the counts.
"""

import sys

from txloom.steps.dead_letters.list_dead_letters import list_dead_letters
from txloom.steps.runner import Job, dead_letter_flags, dead_letter_selection, parser, run

if __name__ == "__main__":
    flags = parser("list_dead_letters", __doc__)
    dead_letter_flags(flags, newest_only=True)
    choices = lambda given: {"selection": dead_letter_selection(given)}  # noqa: E731
    job = Job("list_dead_letters", list_dead_letters, flags, session="none", writes=False, choices=choices)
    sys.exit(run(job))
