"""check_expectations: judge the tables that publish would publish.

    python jobs/check_expectations.py --pipeline orders --warehouse /lake [--only EXPECTATION ...] [--run-id ID]

Great Expectations checks every declared expectation, or those named by --only, on pinned Delta versions. Results go to
`expectation_results` first; then a failed one with severity `block` ends the job with exit code 20, naming the rows.

Exit codes: 0 passed, or failed with severity warn or info; 2 declaration wrong; 20 blocked; 1 unforeseen.
The last line of the log holds the counts.
"""

import sys

import txloom.steps.without_pandas  # noqa: F401  before all that makes values of Arrow
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.runner import Job, parser, run

if __name__ == "__main__":
    flags = parser("check_expectations", __doc__)
    flags.add_argument("--only", action="append", default=[], help="the id of an expectation; may be repeated")
    choices = lambda given: {"only": given.only}  # noqa: E731
    sys.exit(run(Job("check_expectations", check_expectations, flags, session="none", choices=choices)))
