"""dismiss: close dead letters that need no redrive, by name and with the reason.

    python jobs/dismiss.py --pipeline orders --warehouse /lake --message "rows/7.jsonl, line 3" --reason "sent again"
    python jobs/dismiss.py --pipeline orders --warehouse /lake --cause "broken JSON" --reason "a test of the producer"
    python jobs/dismiss.py --pipeline orders --warehouse /lake --all --reason "read by mistake" --reopen

For a message that could not be read and was sent again, or a transaction that nobody can repair: no alert, expectation
or page shows it any more. The dead letters stay in dead_letters, the table dismissals records who dismissed them, why
and when; cuts go on listing a transaction among them as a gap. What comes for it later is a dead letter again, or makes
it whole. --reopen takes dismissals back. --version takes only what that version of dead_letters has. Needs no Spark.

Exit codes: 0 done; 2 nothing chosen, no reason, no such transaction, cause or message; 1 unforeseen. The last line of
the log holds the counts.
"""

import getpass
import sys

from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.runner import Job, dead_letter_flags, dead_letter_selection, parser, run

if __name__ == "__main__":
    flags = parser("dismiss", __doc__)
    dead_letter_flags(flags)
    flags.add_argument("--reason", required=True, help="why no redrive is needed, or why they are reopened")
    flags.add_argument("--by", default=getpass.getuser(), help="who says so; default: who runs this")
    flags.add_argument("--reopen", action="store_true", help="take dismissals back")
    choices = lambda given: {  # noqa: E731
        "selection": dead_letter_selection(given),
        "reason": given.reason,
        "person": given.by,
        "reopen": given.reopen,
    }
    sys.exit(run(Job("dismiss", dismiss, flags, session="none", choices=choices)))
