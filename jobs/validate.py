"""validate: let Great Expectations judge all expectations of a pipeline as one Checkpoint, on the newest cut.

    python jobs/validate.py --pipeline orders --warehouse /lake [--run-id ID]

Every declared expectation is judged on the tables as the newest cut shows them, also where SQL finds nothing. Results
go to `expectation_results` as those of check_expectations do; Data Docs are written to `_reports/<run>/data_docs` and
kept for `maintenance.reports.keep`.

Exit codes: 0 passed, or failed with severity warn or info, or nothing is published; 2 declaration wrong; 5 a table of
the cut was written anew; 20 an expectation that blocks failed; 1 Great Expectations cannot be loaded, or unforeseen.
The last line of the log holds the counts.
"""

import sys

from txloom.steps.publish.validate import validate
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    sys.exit(run(Job("validate", validate, parser("validate", __doc__), session="none")))
