"""buffer_transactions: release whole transactions into history.

    python jobs/buffer_transactions.py --pipeline orders --warehouse /lake [--run-id ID]
    spark-submit jobs/buffer_transactions.py --pipeline include/pipelines/orders.yaml --warehouse /lake

Feeds what was landed through the stateful buffer, appends transactions that are whole to the history tables, lists
those that wait, and turns those that waited longer than patience into dead letters.

Exit codes: 0 done; 2 declaration wrong; 10-12 retry soon; 30 ledger unbalanced; 40 checkpoint damaged; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("buffer_transactions", buffer_transactions, parser("buffer_transactions", __doc__))))
