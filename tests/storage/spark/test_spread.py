"""Buckets of rows and shares of hashes: each row is in the buckets of its hashes, each hash in one share."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from txloom.storage.spark import spread

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def listed(bucket: int, *sides: pa.Table) -> pa.Table:
    """Say which rows of each side a bucket holds."""
    return pa.table({"bucket": [bucket], "rows": [str([sorted(side.column("id").to_pylist()) for side in sides])]})


def test_a_row_is_in_the_bucket_of_each_hash_once_and_everywhere_where_that_holds(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 1, 4), (2, 1, 5), (3, 0, 0)], "id int, old long, new long")
    buckets = spread.buckets_of([F.col("old"), F.col("new")], 3, F.col("id") == 3)
    made = spread.in_buckets(listed, "bucket bigint, rows string", (rows, buckets), (rows.limit(0), buckets)).collect()
    shown = sorted((row["bucket"], row["rows"]) for row in made)
    assert shown == [(0, "[[3], []]"), (1, "[[1, 2, 3], []]"), (2, "[[2, 3], []]")]


def test_buckets_of_two_sides_meet_and_a_side_without_rows_is_empty(spark: Any) -> None:
    left = spark.createDataFrame([(1, -1), (2, 0)], "id int, hash long")
    right = spark.createDataFrame([(7, 1), (8, 0)], "id int, hash long")
    buckets = spread.buckets_of([F.col("hash")], 3)
    made = spread.in_buckets(listed, "bucket bigint, rows string", (left, buckets), (right, buckets)).collect()
    shown = sorted((row["bucket"], row["rows"]) for row in made)
    assert shown == [(0, "[[2], [8]]"), (1, "[[], [7]]"), (2, "[[1], []]")]


def test_ranges_cover_every_hash_once_and_are_as_many_as_rows_need() -> None:
    for rows, share, count in ((0, 10, 8), (79, 10, 8), (80, 10, 16), (10_000, 10, 1_024)):
        ranges = spread.hash_ranges(rows, share, 3)
        assert len(ranges) == count
        assert (ranges[0][0], ranges[-1][1]) == (LOWEST, HIGHEST)
        assert all(low[1] + 1 == high[0] for low, high in pairwise(ranges))
    hashes = pa.table({"tx": [LOWEST, -1, 0, HIGHEST]})
    held = [spread.within(hashes, "tx", bounds).column("tx").to_pylist() for bounds in spread.hash_ranges(0, 1, 1)]
    assert held == [[LOWEST, -1], [0, HIGHEST]]
