"""land_events: append what is new at the source to change_events.

    python jobs/land_events.py --pipeline orders --warehouse /lake [--run-id ID]
    spark-submit jobs/land_events.py --pipeline include/pipelines/orders.yaml --warehouse /lake

Reads the files (or topics) of the pipeline's source that no earlier run took, decodes them into one envelope, writes
what cannot be decoded to dead_letters, and appends a clock row. A repeated run takes nothing twice.

Exit codes: 0 done; 2 declaration wrong; 10-12 retry soon; 30 ledger unbalanced; 40 checkpoint damaged; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

import txloom.steps.without_pandas  # noqa: F401  before all that makes values of Arrow
from txloom.steps.landing.land_events import land_events
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("land_events", land_events, parser("land_events", __doc__), session="lazy")))
