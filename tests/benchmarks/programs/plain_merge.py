"""A plain Delta MERGE of changed rows on the key into a table of that many rows, in a session like a job's.

python tests/benchmarks/programs/plain_merge.py TABLE CHANGES [--literals] (Parquet of changed rows with `deleted`)

Prints RESULT with the seconds of the session's start and of the merge. With --literals the condition lists the keys, up
to 5,000 of them, and Parquet's filter takes as many, so that files and pages are left out.
"""

import argparse
import json
import time

import pyarrow.parquet as pq
from delta.tables import DeltaTable

from txloom.storage.spark.session import open_session

MOST = 5_000


def main() -> None:
    """Merge once."""
    flags = argparse.ArgumentParser()
    flags.add_argument("table")
    flags.add_argument("changes")
    flags.add_argument("--literals", action="store_true")
    given = flags.parse_args()
    begun = time.perf_counter()
    spark = open_session("plain merge", "merge_current")
    opened = time.perf_counter()
    condition = "t.id = s.id"
    if given.literals:
        keys = pq.read_table(given.changes, columns=["id"]).column("id").to_pylist()
        if len(keys) <= MOST:
            condition += f" AND t.id IN ({', '.join(map(str, keys))})"
        else:
            condition += f" AND t.id BETWEEN {min(keys)} AND {max(keys)}"
        spark.conf.set("spark.sql.parquet.pushdown.inFilterThreshold", str(MOST + 1))
    changed = spark.read.parquet(given.changes)
    target = DeltaTable.forPath(spark, given.table).alias("t")
    values = {name: f"s.{name}" for name in changed.columns if name != "deleted"}
    (
        target.merge(changed.alias("s"), condition)
        .whenMatchedDelete("s.deleted")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("NOT s.deleted", values=values)
        .execute()
    )
    print("RESULT", json.dumps({"session_s": opened - begun, "merge_s": time.perf_counter() - opened}))


if __name__ == "__main__":
    main()
