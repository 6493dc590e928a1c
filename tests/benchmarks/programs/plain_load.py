"""Copy Parquet files into one Delta table with Spark, in a session like a job's: the limit of a first load.

python tests/benchmarks/programs/plain_load.py FILES TABLE

Prints RESULT with the seconds of the session's start and of the write.
"""

import json
import sys
import time

from txloom.storage.spark.session import open_session

if __name__ == "__main__":
    begun = time.perf_counter()
    spark = open_session("plain load", "merge_current")
    opened = time.perf_counter()
    spark.read.parquet(sys.argv[1]).write.format("delta").save(sys.argv[2])
    print("RESULT", json.dumps({"session_s": opened - begun, "write_s": time.perf_counter() - opened}))
