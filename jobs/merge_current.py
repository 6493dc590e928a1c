"""merge_current: merge released transactions into the current tables, up to valid-through.

    python jobs/merge_current.py --pipeline orders --warehouse /lake [--run-id ID]
    spark-submit jobs/merge_current.py --pipeline include/pipelines/orders.yaml --warehouse /lake

Applies released transactions in commit order, up to valid-through, to every mirror and every aggregate. Each commit
is a state that the source had; its userMetadata carries valid-through.

Exit codes: 0 done; 2 declaration wrong; 10-12 retry soon; 30 ledger unbalanced; 40 checkpoint damaged; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

import txloom.steps.without_pandas  # noqa: F401  before all that makes values of Arrow
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("merge_current", merge_current, parser("merge_current", __doc__), session="lazy")))
