"""redrive: let the buffer decide again on what became dead letters.

    python jobs/redrive.py --pipeline orders --warehouse /lake --transaction 1.2.3:334516829
    python jobs/redrive.py --pipeline orders --warehouse /lake --cause "metadata never came"
    python jobs/redrive.py --pipeline orders --warehouse /lake --message "rows/7.jsonl, line 3"
    python jobs/redrive.py --pipeline orders --warehouse /lake --all

Repair first what the cause names: send what is missing, correct the counts, or the declaration. All that was ever
landed of a transaction is taken, with the newest of its metadata, as declared now. The next buffer_transactions
releases what is whole and gives up the rest at once; the next cut no longer lists what was released as a gap.
--version takes only what that version of the table dead_letters has: what somebody saw. Needs no Spark.

Exit codes: 0 done; 2 nothing chosen, no such transaction, cause or message; 1 unforeseen. The last line of the
log holds the counts.
"""

import sys

from txloom.pipelines.command import parser, run
from txloom.pipelines.redrive import redrive

if __name__ == "__main__":
    flags = parser("redrive", __doc__)
    flags.add_argument("--transaction", action="append", default=[], help="an id in dead_letters; may be repeated")
    flags.add_argument("--cause", action="append", default=[], help="a cause in dead_letters; may be repeated")
    flags.add_argument("--message", action="append", default=[], help="where one lies, as listed; may be repeated")
    flags.add_argument("--all", action="store_true", help="every open dead letter")
    flags.add_argument("--version", type=int, help="of the table dead_letters; default: the newest")
    extra = lambda given: {  # noqa: E731
        "transactions": given.transaction,
        "causes": given.cause,
        "messages": given.message,
        "everything": given.all,
        "version": given.version,
    }
    sys.exit(run("redrive", redrive, flags=flags, extra=extra, session="none"))
