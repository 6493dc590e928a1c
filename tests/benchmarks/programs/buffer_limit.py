"""Land and join the benchmark's transactions with Spark alone and with no rule at all: the limit of this engine.

python tests/benchmarks/programs/buffer_limit.py DATA WAREHOUSE

What any program on this engine does at least, in a session like a job's:

1. It reads each topic as text, parses the envelope of each message by a schema, and writes a row for each message into
   a Delta table `change_events`: the message as it came, where it came from, and its transaction's id and hash, csn,
   position, table, operation, commit time and counts.
2. It reads that table, parses the images before and after by a schema, casts their values to the declared types,
   shuffles by transaction and order, and writes a row for each of them into a Delta table `order_stream`: lists of the
   changes of orders, details and line items, each with its position, operation and both images.

It takes no duplicate out, compares no count, holds nothing back, keeps no state and no ledger, and a value that does
not fit its type would be null: its rows are those of all transactions, whole or not. Prints RESULT with the seconds of
the session's start and of both writes, and what it wrote, counted after the clock has stopped.
"""

import json
import sys
import time
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.storage.spark.session import open_session

ENVELOPE = "`table` string, op_type string, op_ts string, tx_ts string, pos string, xid string, csn string, event_count bigint, data_collections array<struct<data_collection:string,event_count:bigint>>"  # noqa: E501
TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "orders": (
        "APPUSER.ORDERS",
        {
            "order_id": "bigint",
            "order_ref": "string",
            "version": "int",
            "order_date": "timestamp",
            "order_status": "string",
            "total_amount": "decimal(20,4)",
            "currency": "string",
            "customer_id": "bigint",
        },
    ),
    "order_details": (
        "APPUSER.ORDER_DETAILS",
        {
            "order_id": "bigint",
            "version": "int",
            "shipping_method": "string",
            "carrier": "string",
            "tracking_no": "string",
            "ship_address": "string",
        },
    ),
    "order_line_items": (
        "APPUSER.ORDER_LINE_ITEMS",
        {
            "line_item_id": "bigint",
            "order_id": "bigint",
            "version": "int",
            "product_id": "string",
            "item_qty": "decimal(18,4)",
            "item_price": "decimal(18,8)",
            "discount": "decimal(18,4)",
            "status": "string",
        },
    ),
}
METADATA = "tx_metadata"


def events(spark: SparkSession, data: str) -> DataFrame:
    """Return the rows of change_events: one for each message."""
    topics = [f"{data}/{topic}" for topic in (*TABLES, METADATA)]
    parsed = F.from_json("value", ENVELOPE)
    texts = spark.read.text(topics).select("value", F.col("_metadata.file_path").alias("file"), parsed.alias("m"))
    transaction_id = F.concat_ws(":", "m.xid", "m.csn")
    counts = F.map_from_entries("m.data_collections")
    return texts.select(
        "file",
        F.current_timestamp().alias("landed_at"),
        transaction_id.alias("transaction_id"),
        F.xxhash64(transaction_id).alias("tx"),
        "m.xid",
        F.col("m.csn").cast("bigint").alias("csn"),
        F.col("m.pos").cast("bigint").alias("pos"),
        F.col("m.table").alias("source_table"),
        F.col("m.op_type").alias("op"),
        F.coalesce("m.op_ts", "m.tx_ts").cast("timestamp").alias("committed_at"),
        counts.alias("expected"),
        "m.event_count",
        "value",
    )


def changes(landed: DataFrame, table: str) -> DataFrame:
    """Return the changes of one table, each with its images in the declared types, and the key of its order."""
    source, columns = TABLES[table]
    image = ", ".join(f"{name.upper()}:string" for name in columns)
    parsed = F.from_json("value", f"before struct<{image}>, after struct<{image}>")
    rows = landed.where(F.col("source_table") == source).withColumn("images", parsed)
    after, before = (_typed(f"images.{side}", columns) for side in ("after", "before"))
    change = F.struct("pos", "op", after.alias("after"), before.alias("before"))
    return rows.select(
        "tx",
        F.coalesce("images.after.ORDER_ID", "images.before.ORDER_ID").cast("bigint").alias("order_id"),
        "xid",
        "csn",
        "committed_at",
        *[(change if name == table else F.lit(None)).alias(name) for name in TABLES],
    )


def _typed(image: str, columns: Mapping[str, str]) -> Column:
    values = [F.col(f"{image}.{name.upper()}").cast(kind).alias(name) for name, kind in columns.items()]
    return F.when(F.col(image).isNotNull(), F.struct(*values))


def documents(landed: DataFrame) -> DataFrame:
    """Return the rows of order_stream: one for each transaction and order, whole or not."""
    one, *others = (changes(landed, table) for table in TABLES)
    rows = one
    for other in others:
        rows = rows.unionByName(other, allowMissingColumns=True)
    about = [F.max(name).alias(name) for name in ("xid", "csn", "committed_at")]
    lists = [F.sort_array(F.collect_list(name)).alias(name) for name in TABLES]
    return rows.groupBy("tx", "order_id").agg(*about, *lists).drop("tx")


def main(data: str, warehouse: str) -> None:
    """Write both tables once, then count."""
    begun = time.perf_counter()
    spark = open_session("limit", sys.argv[3] if len(sys.argv) > 3 else "merge_current")
    opened = time.perf_counter()
    landed, stream = f"{warehouse}/change_events", f"{warehouse}/order_stream"
    events(spark, data).write.format("delta").save(landed)
    written = time.perf_counter()
    documents(spark.read.format("delta").load(landed)).write.format("delta").save(stream)
    joined = time.perf_counter()
    orders = spark.read.format("delta").load(stream).selectExpr("count(*)", "sum(size(order_line_items))").collect()[0]
    result = {
        "session_s": opened - begun,
        "land_s": written - opened,
        "buffer_s": joined - written,
        "query_s": joined - opened,
        "lines": spark.read.format("delta").load(landed).count(),
        "rows": orders[0],
        "line_items": orders[1],
    }
    print("RESULT", json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
