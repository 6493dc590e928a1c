"""publish: publish a cut: valid-through and the version of every table.

    python jobs/publish.py --pipeline orders --warehouse /lake [--run-id ID]
    spark-submit jobs/publish.py --pipeline include/pipelines/orders.yaml --warehouse /lake

Appends one row to `cuts` when the tables have changed since the newest cut. Needs no Spark session.

Exit codes: 0 done; 2 declaration wrong; 10-12 retry soon; 30 ledger unbalanced; 40 checkpoint damaged; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

import txloom.steps.without_pandas  # noqa: F401  before all that makes values of Arrow
from txloom.steps.publish.publish import publish
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("publish", publish, parser("publish", __doc__), session="none")))
