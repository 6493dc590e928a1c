"""Open a session as the job of a step does, and end: what a JVM costs before it does anything.

python tests/benchmarks/programs/opened_session.py STEP

Prints RESULT with the seconds that it took to open it.
"""

import json
import sys
import time

from txloom.storage.spark.session import open_session

if __name__ == "__main__":
    begun = time.perf_counter()
    open_session("opened session", sys.argv[1])
    print("RESULT", json.dumps({"session_s": time.perf_counter() - begun}))
