"""Check the source and say whether a cycle has anything to do, as the first task of the cdc DAG does.

python tests/benchmarks/programs/source_check.py PIPELINE WAREHOUSE

Prints RESULT with the counts, and the reasons.
"""

import json
import sys

from txloom.config import find
from txloom.steps.landing.check_source import check_source
from txloom.steps.landing.pending_work import reasons
from txloom.steps.step import Step

if __name__ == "__main__":
    pipeline = find(sys.argv[1])
    counts = check_source(Step.of(pipeline, sys.argv[2], "benchmark"))
    print("RESULT", json.dumps({"counts": counts, "work": reasons(pipeline, sys.argv[2], int(str(counts["waiting"])))}))
