"""redrive: let the buffer decide again on what became dead letters.

    python jobs/redrive.py --pipeline orders --warehouse /lake --transaction 1.2.3:334516829
    python jobs/redrive.py --pipeline orders --warehouse /lake --cause "metadata never came"
    python jobs/redrive.py --pipeline orders --warehouse /lake --all

Repair first what the cause names: send what is missing, correct the counts, or the declaration. All that was ever
landed of a transaction is taken, with the newest of its metadata, as declared now. The next buffer_transactions
releases what is whole and gives up the rest at once; the next cut no longer lists what was released as a gap. Needs no
Spark.

Exit codes: 0 done; 2 no such transaction or cause; 1 unforeseen. The last line of the log holds the counts.
"""

import sys

from txloom.pipelines.command import parser, run
from txloom.pipelines.redrive import redrive

if __name__ == "__main__":
    flags = parser("redrive", __doc__)
    which = flags.add_mutually_exclusive_group(required=True)
    which.add_argument("--transaction", action="append", default=[], help="an id in dead_letters; may be repeated")
    which.add_argument("--cause", action="append", default=[], help="a cause in dead_letters; may be repeated")
    which.add_argument("--all", action="store_true", help="every open dead letter")
    extra = lambda given: {"transactions": given.transaction, "causes": given.cause, "everything": given.all}  # noqa: E731
    sys.exit(run("redrive", redrive, flags=flags, extra=extra, session="none"))
