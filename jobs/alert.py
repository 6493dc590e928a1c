"""alert: check what is wrong with a pipeline now, and send one message when it begins and one when it is over.

    python jobs/alert.py --pipeline orders --warehouse /lake

`alerts` in the declaration defines the limits and the channels; the table `incidents` records which channel got which
message. It needs neither Spark nor the pipeline's lease. Connections of channels come from AIRFLOW_CONN_<ID>.

Exit codes: 0 done, whatever is wrong with the pipeline; 2 declaration wrong; 11 others wrote all the time; 15 a channel
did not take a message, the next run tries again; 1 unforeseen. The last line of the log holds the counts.
"""

import sys

from txloom.steps.alerts.alert import alert
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("alert", alert, parser("alert", __doc__), session="none", writes=False)))
