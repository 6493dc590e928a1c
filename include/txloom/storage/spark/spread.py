"""Spread work over Spark's tasks: rows by buckets of their keys' hashes, anything else by shares of 64-bit hashes.

It lies here and not in `storage/delta`, which is full: it knows frames of Spark and tables of Arrow, and none of Delta.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

BUCKET = "_txloom_bucket"
"""The column that says in which bucket a row lies."""
Bounds = tuple[int, int]
"""The lowest and the highest hash of a share."""


def buckets_of(hashes: Sequence[Column], buckets: int, everywhere: Column | None = None) -> Column:
    """Return the numbers of the buckets that a row lies in: of each hash, once; all where `everywhere` holds."""
    numbers = F.array_distinct(F.array(*[F.pmod(each, F.lit(buckets)).cast("int") for each in hashes]))
    if everywhere is None:
        return numbers
    return F.when(everywhere, F.sequence(F.lit(0), F.lit(buckets - 1))).otherwise(numbers)


def in_buckets(
    function: Callable[..., pa.Table], schema: StructType | str, *sides: tuple[DataFrame, Column]
) -> DataFrame:
    """Call a function on each bucket of rows: with its number, and with a table for each of two sides.

    Args:
        function: Gets the rows of a bucket without BUCKET; returns rows in the schema. A side without rows there is an
            empty table, and a bucket without any rows is left out.
        schema: The schema of the rows that the function returns.
        sides: Rows, and the buckets of each as `buckets_of` returns them.
    """
    left, right = (rows.withColumn(BUCKET, F.explode(buckets)).groupBy(BUCKET) for rows, buckets in sides)
    return left.cogroup(right).applyInArrow(_of_two(function), schema)


def _of_two(function: Callable[..., pa.Table]) -> Callable[[tuple[Any, ...], pa.Table, pa.Table], pa.Table]:
    def apply(bucket: tuple[Any, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        return function(bucket[0].as_py(), left.drop_columns(BUCKET), right.drop_columns(BUCKET))

    return apply


def hash_ranges(rows: int, share: int, fewest: int) -> list[Bounds]:
    """Split all signed 64-bit hashes into ranges of one width, so that each holds about `share` of the rows.

    rows: how many there are. fewest: there are at least 2 to the power of so many ranges.

    >>> len(hash_ranges(0, 10, 3)), len(hash_ranges(1_000, 10, 3)), hash_ranges(0, 1, 0)
    (8, 128, [(-9223372036854775808, 9223372036854775807)])
    """
    width = 1 << (64 - max(fewest, (rows // share).bit_length()))
    return [(lowest, lowest + width - 1) for lowest in range(-(1 << 63), 1 << 63, width)]


def within(rows: pa.Table, column: str, bounds: Bounds) -> pa.Table:
    """Return the rows whose hash lies in a range.

    >>> within(pa.table({"tx": [-1, 0, 5]}), "tx", (0, 5)).column("tx").to_pylist()
    [0, 5]
    """
    hashes = rows.column(column)
    lowest, highest = (pa.scalar(bound, pa.int64()) for bound in bounds)
    return rows.filter(pc.and_(pc.greater_equal(hashes, lowest), pc.less_equal(hashes, highest)))
