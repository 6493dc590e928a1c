"""list_dead_letters: show the open dead letters by cause, with what to do and where they lie; nothing is written.

    python jobs/list_dead_letters.py --pipeline orders --warehouse /lake [--cause TEXT ...] [--message WHERE ...]

Totals count all of them, each cause shows its first few. What an event holds is not shown: it stands in the table's
column `value`. jobs/redrive.py lets the buffer decide on them again. Needs no Spark.

Exit codes: 0 done; 2 declaration wrong, or no such transaction, cause or message; 1 unforeseen. The last line of the
log holds the counts.
"""

import sys

from txloom.pipelines.command import parser, run
from txloom.pipelines.list_dead_letters import list_dead_letters

if __name__ == "__main__":
    flags = parser("list_dead_letters", __doc__)
    flags.add_argument("--transaction", action="append", default=[], help="an id in dead_letters; may be repeated")
    flags.add_argument("--cause", action="append", default=[], help="a cause in dead_letters; may be repeated")
    flags.add_argument("--message", action="append", default=[], help="where one lies, as listed; may be repeated")
    extra = lambda given: {  # noqa: E731
        "transactions": given.transaction,
        "causes": given.cause,
        "messages": given.message,
    }
    sys.exit(run("list_dead_letters", list_dead_letters, flags=flags, session="none", extra=extra, writes=False))
