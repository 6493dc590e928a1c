"""A large backfill with Spark: each task holds a share of the transactions, or of the keys of a table."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from txloom.config import names
from txloom.steps.backfill.compare import STAY
from txloom.steps.backfill.released_events import OUTCOMES, landings, rebuild
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.backfill.shadow_diff import differing
from txloom.steps.backfill.shadow_rows import without_cleaned
from txloom.steps.buffer.release_batch import FEWEST_BITS, SHARE
from txloom.storage.delta import arrow_tables, data_files, small_tables, spark_tables
from txloom.storage.delta.sql import spark_name
from txloom.storage.spark import spread, tasks
from txloom.storage.targets import history_reader, shadow_tables, spark_documents, spark_fold
from txloom.storage.targets.row_tables import RowTable, row_tables
from txloom.storage.targets.shadow_tables import DIGEST, KIND, SURPLUS, WAS
from txloom.storage.targets.spark_documents import Change

ROWS = 200_000
"""About how many rows one task folds or compares."""
VERDICT = ((KIND, StringType()), (WAS, StringType()), (DIGEST, LongType()))


def histories(spark: SparkSession, scope: Scope, chosen: pa.Table, rows: int) -> None:
    """Write the shadows of histories: tasks write data files, share by share, and the driver commits them.

    Args:
        spark: the session.
        scope: the backfill.
        chosen: its transactions, as `released_events.transactions` returns them.
        rows: how many events they have.
    """
    targets = {each.name: each for each in scope.histories}
    empty = {each.name: each.schema.empty_table() for each in scope.histories}
    empty[names.TRANSACTIONS] = OUTCOMES.empty_table()
    for name, none in empty.items():
        shadow_tables.write(scope.paths.table(names.shadow_table(name)), none)
    if not chosen.num_rows:
        return
    between = landings(scope, chosen)
    split = ((spread.within(chosen, "tx", bounds), bounds) for bounds in spread.hash_ranges(rows, SHARE, FEWEST_BITS))
    shares = [(share, bounds) for share, bounds in split if share.num_rows]

    def write(some: Iterable[tuple[pa.Table, tuple[int, int]]]) -> Iterator[data_files.DataFile]:
        for share, bounds in some:
            rebuilt = rebuild(scope, share, between, bounds)
            history = {name: without_cleaned(targets[name], rows) for name, rows in rebuilt.history.items()}
            for name, made in {**history, names.TRANSACTIONS: rebuilt.outcomes}.items():
                if made.num_rows:
                    shadow = names.shadow_table(name)
                    yield data_files.write_file(made, shadow, scope.paths.table(shadow))

    written = tasks.in_tasks(lambda: spark, shares, write)
    attempt = f"backfill:{uuid.uuid4().hex}"
    for name in empty:
        shadow = names.shadow_table(name)
        of_table = [part for part in written if part.table == shadow]
        data_files.append_files(of_table, scope.paths.table(shadow), attempt, 0)


def currents(spark: SparkSession, scope: Scope) -> None:
    """Write the shadows of current tables: fold each history, then compose documents of the folded rows."""
    targets = {target.name: target for target in scope.histories}
    changes = {}
    for row_table in row_tables(scope.pipeline):
        target = scope.rows(row_table)
        path = scope.paths.table(names.shadow_table(target.name))
        shadow_tables.write_frame(path, _folded(spark, scope, row_table, targets[row_table.history]))
        changes[row_table.table.name] = Change(row_table.table, spark_tables.read(spark, path), None)
    for aggregate in scope.pipeline.targets.aggregates:
        target = scope.documents(aggregate)
        composed = spark_documents.documents(scope.pipeline, aggregate, changes, None).select(
            *map(spark_name, target.schema.names)
        )
        shadow_tables.write_frame(scope.paths.table(names.shadow_table(target.name)), composed)


def _folded(spark: SparkSession, scope: Scope, row_table: RowTable, target: Target) -> DataFrame:
    """Fold a history, as the backfill would leave it, into current rows."""
    shadow = _shadow(spark, scope, target)
    live = _live(spark, scope, target)
    rows = live.join(shadow, _same(live, shadow, target.key), "left_anti").unionByName(shadow)
    history = spark_fold.changes_of(rows.where(history_reader.upto(scope.newest_watermark)), row_table)
    edges = [] if row_table.table.insert_only else spark_fold.key_edges(history, row_table.key).collect()
    chains = spark_fold.tied([(row["old"], row["new"]) for row in edges])
    groups = max(spark_fold.PARTITIONS, _rows(scope, target.name) // ROWS)
    empty = spark_tables.frame_of(spark, pa.schema(scope.rows(row_table).schema).empty_table())
    folded = spark_fold.folded(empty, spark_fold.with_nullings(history), row_table, chains, groups)
    return folded.where("NOT _txloom_deleted").select(*map(spark_name, scope.rows(row_table).schema.names))


def _rows(scope: Scope, table: str) -> int:
    counted = small_tables.query(scope.paths.table(table), "select count(*) as n from t")
    return int(counted[0]["n"]) if counted else 0


def _shadow(spark: SparkSession, scope: Scope, target: Target) -> DataFrame:
    return spark_tables.read(spark, scope.paths.table(names.shadow_table(target.name)))


def _live(spark: SparkSession, scope: Scope, target: Target) -> DataFrame:
    """Return the rows of a live table in the columns and types of its shadow."""
    rows = spark_tables.read(spark, scope.paths.table(target.name))
    has = set(rows.columns)
    schema = _shadow(spark, scope, target).schema
    return rows.select(
        *[
            (F.col(spark_name(field.name)) if field.name in has else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in schema
        ]
    )


def _same(left: DataFrame, right: DataFrame, key: Sequence[str]) -> Column:
    """Return the condition that two rows have one key; null is equal to null."""
    condition = F.lit(True)
    for name in key:
        condition &= left[spark_name(name)].eqNullSafe(right[spark_name(name)])
    return condition


def compare(spark: SparkSession, scope: Scope, target: Target) -> None:
    """Write the differences of a table, a share of its keys in each task."""
    shadow, now = _shadow(spark, scope, target), _live(spark, scope, target)
    if target.is_history:
        now = now.where(scope.range_of(target))
        kept = spark_tables.read(spark, scope.paths.table(names.shadow_table(names.TRANSACTIONS))).where(STAY)
        kept = kept.select(F.col("xid").alias("_xid"), F.col("csn").alias("_csn"))
        now = now.join(
            F.broadcast(kept),
            now["_txloom_xid"].eqNullSafe(kept["_xid"]) & (now["_txloom_csn"] == kept["_csn"]),
            "left_anti",
        )
    groups = max(spark_fold.PARTITIONS, _rows(scope, target.name) // ROWS)
    buckets = spread.buckets_of([spark_fold.key_hash(target.key)], groups)
    schema = StructType([*shadow.schema.fields, *(StructField(*field) for field in VERDICT)])
    differences = spread.in_buckets(_differ(target), schema, (now, buckets), (shadow, buckets))
    shadow_tables.write_frame(scope.paths.table(names.difference_table(target.name)), differences)


def _differ(target: Target) -> Callable[[int, pa.Table, pa.Table], pa.Table]:
    def apply(_bucket: int, now: pa.Table, shadow: pa.Table) -> pa.Table:
        return differing(arrow_tables.conform(now, target.schema), arrow_tables.conform(shadow, target.schema), target)

    return apply


def correct(spark: SparkSession, scope: Scope, target: Target, metadata: str) -> None:
    """Add the rows that a history lacks, and correct those that differ, in one commit; repeated it changes nothing.

    Args:
        spark: the session.
        scope: the backfill.
        target: the history.
        metadata: of the commit, as JSON.
    """
    rows = _differences(spark, scope, target).where(f"{KIND} <> '{SURPLUS}'").drop(KIND, WAS, DIGEST)
    try:
        spark_fold.correct(scope.paths.table(target.name), rows, target.key, metadata)
    finally:
        spark_tables.unfence(spark)


def merge(spark: SparkSession, scope: Scope, target: Target, metadata: str) -> None:
    """Bring a current table to its rebuilt rows, in one commit; repeated it changes nothing.

    Args:
        spark: the session.
        scope: the backfill.
        target: the current table.
        metadata: of the commit, as JSON.
    """
    rows = _differences(spark, scope, target).withColumn("_txloom_deleted", F.expr(f"{KIND} = '{SURPLUS}'"))
    effects = rows.drop(KIND, WAS, DIGEST)
    prune = spark_fold.pruning(effects, target.key)
    try:
        spark_fold.merge(scope.paths.table(target.name), effects, target.key, prune=prune, metadata=metadata)
    finally:
        spark_tables.unfence(spark)


def _differences(spark: SparkSession, scope: Scope, target: Target) -> DataFrame:
    return spark_tables.read(spark, scope.paths.table(names.difference_table(target.name)))
