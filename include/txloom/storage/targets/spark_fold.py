"""The Spark side of current tables: read what changed, fold it per key, merge it in one commit."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.current.folding.column_nulling import NULLING_COLUMNS, Columns, Gone
from txloom.current.folding.column_nulling import columns_of as columns_of_rows
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold
from txloom.current.folding.value_sources import WHOLE
from txloom.storage.delta import spark_tables
from txloom.storage.delta.partition_pruning import MOST_NAMED, Within, within
from txloom.storage.delta.sql import spark_literal, spark_name
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable

PARTITIONS = 4
"""Groups in which keys are folded beside each other."""
LITERAL_KEYS = 5_000
"""Up to so many changed keys the merge names them, so that Delta skips files and Parquet skips pages."""
SYSTEM_COLUMNS = ("_txloom_csn", "_txloom_pos", "_txloom_xid")
VERDICT = {"_txloom_deleted": "boolean", "_txloom_missing": "array<string>", "_txloom_evidence": "string"}
"""What folding says of a row beside its columns."""


def history(spark: SparkSession, paths: TablePaths, row_table: RowTable) -> DataFrame:
    """Return every change of a table, in the schema of a mirror's history."""
    return changes_of(spark_tables.read(spark, paths.table(row_table.history)), row_table)


def changes_of(rows: DataFrame, row_table: RowTable) -> DataFrame:
    """Return the changes of a table out of rows of the history that holds them, in the schema of a mirror's history."""
    if row_table.mirror is not None:
        return rows
    assert row_table.aggregate is not None
    field = dict(schemas.members_of(row_table.aggregate))[row_table.table.name]
    change = F.explode(field).alias("change")
    shared = ("_txloom_xid", "_txloom_csn", "_txloom_committed_at", "_txloom_release")
    return rows.select(*shared, change).select("change.*", *shared)


def new_changes(changes: DataFrame, have: Watermark, want: Watermark) -> DataFrame:
    """Return the changes that a table at one mark lacks at another, late ones (below valid-through) too."""
    csn, release = F.col("_txloom_csn"), F.col("_txloom_release")
    in_order = (csn > have.valid_through) & (csn <= want.valid_through)
    return changes.where((release <= want.release) & (in_order | is_late(have)) & (csn <= want.valid_through))


def is_late(have: Watermark) -> Column:
    """Say whether a change belongs below what the table already shows but was released after it was merged."""
    return (F.col("_txloom_csn") <= have.valid_through) & (F.col("_txloom_release") > have.release)


def key_hash(key: Sequence[str], prefix: str = "") -> Column:
    """Return a hash of a key; two keys with one hash are only folded together, which does no harm."""
    return F.xxhash64(*[F.col(f"{prefix}{spark_name(name)}") for name in key])


def key_edges(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return (old, new) key hashes of updates that change the key."""
    keyed = changes.select("*", F.struct(*key_before(key)).alias("_txloom_old"))
    old, new = key_hash(key, "_txloom_old."), key_hash(key)
    return (
        keyed.where(F.col("_txloom_op") == "U")
        .select(old.alias("old"), new.alias("new"))
        .where("old != new")
        .distinct()
    )


def key_before(key: Sequence[str]) -> list[Column]:
    """Return the key of the row before a change; a part that its image leaves out is the one after it."""
    return [F.coalesce(F.col("_txloom_before")[name], F.col(spark_name(name))).alias(name) for name in key]


def folded(
    rows: DataFrame, changes: DataFrame, row_table: RowTable, chains: Mapping[int, int], parts: int = PARTITIONS
) -> DataFrame:
    """Fold changes into rows: the net effect per touched key, with the columns of VERDICT.

    chains: key hashes that key changes tie together -> one representative; such keys are folded in one group.
    parts: how many groups there are, each of which one task holds.
    """
    everywhere = F.array(*[F.lit(part) for part in range(parts)])
    part = F.pmod(component(row_table.key, chains), F.lit(parts)).cast("int")
    spread = F.explode(F.when(F.col("_txloom_op").isin(*WHOLE), everywhere).otherwise(F.array(part)))
    left = rows.withColumn("_txloom_part", part).groupBy("_txloom_part")
    right = changes.withColumn("_txloom_part", spread).groupBy("_txloom_part")
    verdict = ", ".join(f"{name} {kind}" for name, kind in VERDICT.items())
    named = row_table.partitions.ddl if row_table.partitions else ""
    return left.cogroup(right).applyInArrow(
        _folder(row_table), f"{schemas.current_ddl(row_table.table)}{named}, {verdict}"
    )


def component(key: Sequence[str], chains: Mapping[int, int]) -> Column:
    """Return the hash under which a key is folded: that of its chain's representative, or its own."""
    default = key_hash(key)
    if not chains:
        return default
    return F.coalesce(F.create_map(*[F.lit(item) for pair in chains.items() for item in pair])[default], default)


def of_all_rows(changes: DataFrame) -> DataFrame:
    """Return the changes that touch all rows of a table, as `txloom.current.folding.column_nulling.of_all_rows` does.

    Whoever folds some keys only folds these with them.
    """
    position = F.struct("_txloom_pos", "_txloom_xid")
    nullings = changes.where("_txloom_absent is not null").groupBy("_txloom_csn", "_txloom_absent")
    ends = nullings.agg(F.min(position).alias("first"), F.max(position).alias("last"))
    lacking = ends.withColumn("place", F.explode(F.array_distinct(F.array("first", "last"))))
    flags = {
        "_txloom_op": F.lit("C"),
        "_txloom_pos": F.col("place._txloom_pos"),
        "_txloom_xid": F.col("place._txloom_xid"),
    }
    flags |= {name: F.col(name) for name in ("_txloom_csn", "_txloom_absent")}
    clears = lacking.select(
        *[flags.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in changes.schema]
    )
    return changes.where("_txloom_op = 'T'").unionByName(clears)


def with_nullings(changes: DataFrame) -> DataFrame:
    """Return changes, and for inserts that lack columns a clear each: groups of keys see only their own inserts."""
    return changes.unionByName(of_all_rows(changes).where("_txloom_op = 'C'"))


def columns_of(changes: DataFrame, gone: Mapping[str, Gone]) -> Columns:
    """Return which columns are gone after changes, and which they take values away from."""
    lacking = changes.where("_txloom_absent is not null").select(F.explode("_txloom_absent")).distinct().collect()
    concerned = sorted({row[0] for row in lacking} | set(gone))
    if not concerned:
        return Columns({}, [])
    is_given = F.col("_txloom_absent").isNotNull()
    for name in concerned:
        is_given |= F.col(spark_name(name)).isNotNull()
    flags = [F.when(F.col(spark_name(name)).isNotNull(), F.lit(True)).alias(name) for name in concerned]
    rows = changes.where(is_given).select(*NULLING_COLUMNS, *flags).toArrow()
    return columns_of_rows(rows, gone)


def _folder(row_table: RowTable) -> Callable[[pa.Table, pa.Table], pa.Table]:
    key, columns = tuple(row_table.key), tuple(row_table.table.column_names)
    named = [row_table.partitions.column] if row_table.partitions and row_table.partitions.field else []

    def apply(rows: pa.Table, changes: pa.Table) -> pa.Table:
        result = row_table.filled(fold(rows, changes, key=key, columns=columns, evidence=True))
        return result.select([*columns, *SYSTEM_COLUMNS, *named, *VERDICT])

    return apply


def tied(edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return a representative for every key hash that key changes tie together."""
    return components(edges)


def merge(path: str, effects: DataFrame, key: Sequence[str], *, prune: str = "", metadata: str) -> None:
    """Apply net effects to a current table in one commit, also where they change no row; metadata: what it then is."""
    columns = [name for name in effects.columns if name not in VERDICT]
    values = {spark_name(name): F.col(f"s.{spark_name(name)}") for name in columns}
    condition = " AND ".join(f"t.{spark_name(name)} = s.{spark_name(name)}" for name in key)
    session = effects.sparkSession
    session.conf.set(spark_tables.USER_METADATA, metadata)
    spark_tables.fence(session, path)
    target = DeltaTable.forPath(effects.sparkSession, path).alias("t")
    (
        target.merge(effects.alias("s"), condition + prune)
        .whenMatchedDelete("s._txloom_deleted")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert("NOT s._txloom_deleted", values=values)
        .execute()
    )
    spark_tables.note_unchanged(path, metadata)
    spark_tables.refuse_unwritten(path, metadata)


def correct(path: str, rows: DataFrame, key: Sequence[str], metadata: str) -> None:
    """Bring rows into a history in one commit: those that it lacks are added, others take their columns; none goes."""
    values = {spark_name(name): F.col(f"s.{spark_name(name)}") for name in rows.columns}
    bounds = rows.agg(F.min("_txloom_csn"), F.max("_txloom_csn")).first()
    assert bounds is not None
    condition = " AND ".join(f"t.{spark_name(name)} <=> s.{spark_name(name)}" for name in key)
    condition += f" AND t._txloom_csn BETWEEN {bounds[0]} AND {bounds[1]}"
    session = rows.sparkSession
    session.conf.set(spark_tables.USER_METADATA, metadata)
    spark_tables.fence(session, path)
    target = DeltaTable.forPath(session, path).alias("t").merge(rows.alias("s"), condition)
    target.whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values).execute()
    spark_tables.refuse_unwritten(path, metadata)


def pruning(effects: DataFrame, key: Sequence[str]) -> str:
    """Return `naming` for the keys that effects hold; "" when there are too many to name, or none."""
    return naming(key[0], _distinct(effects, key[0], LITERAL_KEYS + 1))


def pruning_partitions(effects: DataFrame, row_table: RowTable) -> str:
    """Return `only_within` for the partitions that the keys of effects tell; "" where the key does not tell them."""
    partitions = row_table.partitions
    if partitions is None or partitions.declared.column not in row_table.key:
        return ""
    return only_within(within(partitions.column, _distinct(effects, partitions.column, MOST_NAMED + 1)))


def _distinct(effects: DataFrame, column: str, most: int) -> list[Any]:
    """Return up to so many values of a column; by Arrow, since rows of PySpark hold no instant near year 1."""
    values: list[Any] = effects.select(spark_name(column)).distinct().limit(most).toArrow().column(0).to_pylist()
    return values


def only_within(partitions: Within | None) -> str:
    """Return the condition that a merge looks into some partitions only."""
    if partitions is None:
        return ""
    return f" AND {partitions.condition(f't.{spark_name(partitions.column)}', spark_literal)}"


def naming(column: str, values: Sequence[object]) -> str:
    """Return a condition that names changed keys literally, so that files and pages without them are skipped.

    >>> naming("id", [1, 2])
    ' AND t.`id` IN (1, 2)'
    """
    if not 0 < len(values) <= LITERAL_KEYS or not all(type(value) in (int, str, date) for value in values):
        return ""
    return f" AND t.{spark_name(column)} IN ({', '.join(map(spark_literal, values))})"
