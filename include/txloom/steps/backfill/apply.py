"""backfill, apply: write what differs into the live tables, histories first; no row of history is ever removed.

Every write is a merge by key of rows that were stored when tables were compared: repeated after a crash it has the same
result.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.steps.backfill.scope import Scope, Target
from txloom.storage.delta import arrow_tables, small_merge, small_tables
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.publishing.watermark import merged
from txloom.storage.targets import history_tables, shadow_tables
from txloom.storage.targets.shadow_tables import KIND, SURPLUS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def apply_differences(
    spark: "Callable[[], SparkSession]", scope: Scope, counts: Mapping[str, Mapping[str, int]]
) -> int:
    """Write what differs into the live tables; return the number of commits. A repeated call changes nothing.

    Args:
        spark: opens a Spark session, for large tables.
        scope: the backfill.
        counts: counts of differences by table.
    """
    commits = 0
    for target in scope.histories:
        if sum(counts[target.name][name] for name in ("missing", "different")):
            correct_history(spark, scope, target)
            commits += 1
    for target in scope.currents:
        if sum(counts[target.name].values()):
            _merge(spark, scope, target)
            commits += 1
    return commits


def _is_small(scope: Scope, target: Target) -> bool:
    differing = scope.paths.table(names.difference_table(target.name))
    (rows,) = small_tables.query(differing, "select count(*) as n from t")
    return bool(rows["n"] <= arrow_tables.LOCAL_ROWS and small_merge.is_small(scope.paths.table(target.name)))


def correct_history(spark: "Callable[[], SparkSession]", scope: Scope, target: Target) -> None:
    """Add the rows that a history lacks, and correct those that differ."""
    path = scope.paths.table(target.name)
    history_tables.ensure(path, target.schema)
    about = {**newest_metadata(path), "backfill": scope.run_id}
    if _is_small(scope, target):
        rows = shadow_tables.differences(scope.paths, target.name, f"{KIND} <> '{SURPLUS}'")
        shadow_tables.correct(path, rows.select(target.schema.names), target.key, target.schema.names, about)
        return
    from txloom.steps.backfill import spark as backfill_spark

    backfill_spark.correct(spark(), scope, target, json.dumps(about))


def _merge(spark: "Callable[[], SparkSession]", scope: Scope, target: Target) -> None:
    """Bring a current table to its rebuilt rows; its watermark stays, unless a merge that died left it behind."""
    path = scope.paths.table(target.name)
    about: dict[str, Any] = {**newest_metadata(path), "backfill": scope.run_id}
    if merged(scope.paths, [each.name for each in scope.currents]) is None:
        # The rebuilt rows have what a table of the died merge has, and the next merge must not apply it again.
        about |= vars(scope.newest_watermark)
    if _is_small(scope, target):
        rows = shadow_tables.differences(scope.paths, target.name, "true")
        gone = pc.equal(rows.column(KIND), pa.scalar(SURPLUS))
        effects: pa.Table = rows.select(target.schema.names).append_column("_txloom_deleted", gone)
        small_merge.merge(path, effects, target.key, about)
        return
    from txloom.steps.backfill import spark as backfill_spark

    backfill_spark.merge(spark(), scope, target, json.dumps(about))
