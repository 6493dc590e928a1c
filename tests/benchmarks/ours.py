"""Land and buffer the benchmark's data in a warehouse, in a process and a JVM of its own.

python tests/benchmarks/ours.py WAREHOUSE        (called by bench_buffer.py; TXLOOM_BENCH_DATA names the data)

Prints RESULT with the seconds of each step, and what it released, counted after the clock has stopped.
"""

import json
import sys
import time
from pathlib import Path

from called import step_of
from txloom.config import load, names
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import spark_tables
from txloom.storage.spark.session import open_session

DECLARATION = Path(__file__).with_name("bench.yaml")


def main(warehouse: str) -> None:
    """Run the two steps once on everything there is, then count."""
    begun = time.perf_counter()
    pipeline = load(DECLARATION)
    spark = open_session("txloom benchmark", "buffer_transactions")
    opened = time.perf_counter()
    land_events(step_of(pipeline, warehouse, "bench", lambda: spark))
    landed = time.perf_counter()
    buffer_transactions(step_of(pipeline, warehouse, "bench", spark))
    buffered = time.perf_counter()
    transactions = spark_tables.read(spark, names.table_path(warehouse, pipeline.name, names.TRANSACTIONS))
    stream = spark_tables.read(spark, names.table_path(warehouse, pipeline.name, "order_stream"))
    documents = stream.selectExpr(
        "count(*)", "sum(size(line_items))", "sum(aggregate(line_items.item_qty, 0d, (total, qty) -> total + qty))"
    ).collect()[0]
    result = {
        "session_s": opened - begun,
        "land_s": landed - opened,
        "buffer_s": buffered - landed,
        "query_s": buffered - opened,
        "released": transactions.where("status = 'released'").count(),
        "rows": documents[0],
        "line_items": documents[1],
        "qty": documents[2],
    }
    print("RESULT", json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
