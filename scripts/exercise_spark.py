"""Make Spark load what the jobs need: Delta writes and merges, and a stateful stream over Arrow.

spark-submit scripts/exercise_spark.py FOLDER        (called by archive_classes.sh)
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from txloom.storage.spark.session import open_session


def write_and_merge(spark: SparkSession, table: str) -> None:
    """Create a table, merge into it, maintain it, read it back."""
    spark.sql(f"create table delta.`{table}` (id bigint, at timestamp, amount decimal(12,2), kind string) using delta")
    rows = spark.range(1000).selectExpr(
        "id", "timestamp_micros(id) as at", "cast(id as decimal(12,2)) as amount", "string(id % 7) as kind"
    )
    rows.write.format("delta").mode("append").save(table)
    rows.where("id % 5 = 0").createOrReplaceTempView("changed")
    spark.sql(
        f"merge into delta.`{table}` t using changed s on t.id = s.id when matched and s.id % 2 = 0 then delete "
        "when matched then update set * when not matched then insert *"
    )
    spark.sql(f"optimize delta.`{table}` zorder by (id)")
    spark.read.format("delta").load(table).groupBy("kind").sum("amount").collect()


def stream(spark: SparkSession, table: str, out: str) -> None:
    """Run one stateful stream over everything that is available."""

    def count(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        total = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
        state.update((total,))
        yield pd.DataFrame({"bucket": [key[0]], "rows": [total]})

    def write(frame: DataFrame, number: int) -> None:
        frame.persist()
        frame.write.format("delta").mode("append").save(f"{out}/{number}")
        frame.unpersist()

    events = spark.readStream.format("delta").load(table).selectExpr("id % 4 as bucket", "id", "to_json(struct(*))")
    (
        events.groupBy("bucket")
        .applyInPandasWithState(count, "bucket bigint, rows bigint", "rows bigint", "append", "NoTimeout")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    """Exercise Spark in the folder that the command line names."""
    folder = Path(sys.argv[1])
    spark = open_session("txloom class archive")
    write_and_merge(spark, f"{folder}/table")
    stream(spark, f"{folder}/table", f"{folder}/out")
    spark.stop()


if __name__ == "__main__":
    main()
