"""Land and buffer what lies in a folder with txloom's own steps, one after the other in one process and one JVM.

python tests/benchmarks/programs/land_and_buffer.py DECLARATION WAREHOUSE

Prints RESULT with the seconds of the session's start and of each step, and what the steps released, counted after the
clock has stopped. Query seconds begin when the session is open and end when the last table is written.
"""

import json
import sys
import time

import psutil

from called import step_of
from txloom.config import load, names
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import spark_tables
from txloom.storage.spark.session import open_session


def cpu_seconds() -> float:
    """Return the processors' seconds of this process and of all below it that run: the JVM and Spark's workers."""
    this = psutil.Process()
    times = [each.cpu_times() for each in (this, *this.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def main(declaration: str, warehouse: str) -> None:
    """Run the two steps once on everything there is, then count."""
    begun = time.perf_counter()
    pipeline = load(declaration)
    spark = open_session("txloom benchmark", "buffer_transactions")
    opened, opened_cpu = time.perf_counter(), cpu_seconds()
    landing = land_events(step_of(pipeline, warehouse, "bench", spark))
    landed, landed_cpu = time.perf_counter(), cpu_seconds()
    buffer_transactions(step_of(pipeline, warehouse, "bench", spark))
    buffered, buffered_cpu = time.perf_counter(), cpu_seconds()
    transactions = spark_tables.read(spark, names.table_path(warehouse, pipeline.name, names.TRANSACTIONS))
    stream = spark_tables.read(spark, names.table_path(warehouse, pipeline.name, "order_stream"))
    documents = stream.selectExpr(
        "count(*)", "sum(size(line_items))", "sum(aggregate(line_items.item_qty, 0d, (total, qty) -> total + qty))"
    ).collect()[0]
    result = {
        "session_s": opened - begun,
        "land_s": landed - opened,
        "buffer_s": buffered - landed,
        "land_cpu_s": landed_cpu - opened_cpu,
        "buffer_cpu_s": buffered_cpu - landed_cpu,
        "query_s": buffered - opened,
        "lines": landing["landed"],
        "complete": transactions.where("status = 'released'").count(),
        "rows": documents[0],
        "line_items": documents[1],
        "qty": documents[2],
    }
    print("RESULT", json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
