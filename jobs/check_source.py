"""check_source: say whether the source can be landed now, and how much waits there.

    python jobs/check_source.py --pipeline orders --warehouse /lake

Checks what land_events needs: the folder of the files; or brokers that answer, topics that exist and are those that
were landed before, records that are all still there. It writes nothing and starts no JVM; the cdc DAG begins with it.

Exit codes: 0 ready; 2 declaration wrong; 12 folder, brokers or topic unavailable; 13 records were lost; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

from txloom.steps.landing.check_source import check_source
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("check_source", check_source, parser("check_source", __doc__), session="none", writes=False)))
