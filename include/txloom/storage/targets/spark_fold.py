"""Current tables with Spark: read new changes, fold them by key, and merge the net effects in one commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from txloom.current.folding.column_nulling import NULLING_COLUMNS, Columns, Gone
from txloom.current.folding.column_nulling import columns_of as columns_of_rows
from txloom.current.folding.column_nulling import of_all_rows as arrow_of_all_rows
from txloom.current.folding.components import components
from txloom.current.folding.fold import fold
from txloom.current.folding.recompute import recompute
from txloom.current.folding.value_sources import WHOLE
from txloom.storage.delta import spark_tables
from txloom.storage.delta.partition_pruning import MOST_NAMED, Within, within
from txloom.storage.delta.sql import spark_literal, spark_name
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.spark import spread
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable

PARTITIONS = 4
"""Groups of keys that are folded in parallel."""
LITERAL_KEYS = 5_000
"""The most changed keys that a merge names, so that Delta skips files and Parquet skips pages."""
SYSTEM_COLUMNS = ("_txloom_csn", "_txloom_pos", "_txloom_xid")
VERDICT = {"_txloom_deleted": "boolean", "_txloom_missing": "array<string>", "_txloom_evidence": "string"}
"""The columns of a net effect beside those of the row, with their Spark types (`txloom.current.folding.fold`)."""


def history(spark: SparkSession, paths: TablePaths, row_table: RowTable) -> DataFrame:
    """Return every change of a table, in the schema of a mirror's history, as a frame."""
    return changes_of(spark_tables.read(spark, paths.table(row_table.history)), row_table)


def changes_of(rows: DataFrame, row_table: RowTable) -> DataFrame:
    """Return the changes of a table in rows of the history that holds them, in the schema of a mirror's history."""
    if row_table.mirror is not None:
        return rows
    change = F.explode(row_table.field).alias("change")
    shared = ("_txloom_xid", "_txloom_csn", "_txloom_committed_at", "_txloom_release")
    return rows.select(*shared, change).select("change.*", *shared)


def key_hash(key: Sequence[str], prefix: str = "") -> Column:
    """Return a 64-bit hash of a key; keys with the same hash are folded in one group, which changes no result."""
    return F.xxhash64(*[F.col(f"{prefix}{spark_name(name)}") for name in key])


def key_edges(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the distinct (old, new) key hashes of updates that change the key."""
    keyed = changes.select("*", F.struct(*key_before(key)).alias("_txloom_old"))
    old, new = key_hash(key, "_txloom_old."), key_hash(key)
    return (
        keyed.where(F.col("_txloom_op") == "U")
        .select(old.alias("old"), new.alias("new"))
        .where("old != new")
        .distinct()
    )


def key_before(key: Sequence[str]) -> list[Column]:
    """Return the key of the row before a change; a column that the image before lacks is taken from the image after."""
    return [F.coalesce(F.col("_txloom_before")[name], F.col(spark_name(name))).alias(name) for name in key]


def folded(
    rows: DataFrame, changes: DataFrame, row_table: RowTable, chains: Mapping[int, int], cleaned: int
) -> DataFrame:
    """Fold changes into rows with `txloom.current.folding.fold`.

    Args:
        rows: the current rows of all keys that changes touch.
        changes: in the schema of a mirror's history.
        row_table: the table.
        chains: {hash of a key: representative of its chain}, for keys that key changes connect; the keys of a chain are
            folded in one group.
        cleaned: the csn up to which the history was cleaned; 0: never.

    Returns:
        the net effect of each touched key: columns of the current table, then those of VERDICT.
    """

    def effects_of(rows_of_group: pa.Table, changes_of_group: pa.Table) -> pa.Table:
        key, columns = row_table.key, row_table.table.column_names
        return fold(rows_of_group, changes_of_group, key=key, columns=columns, evidence=True, cleaned=cleaned)

    return _in_groups(effects_of, (rows, changes), row_table, chains)


def recomputed(
    rows: DataFrame, history: DataFrame, row_table: RowTable, chains: Mapping[int, int], merged: Watermark
) -> DataFrame:
    """Fold keys from their whole history with `txloom.current.folding.recompute.recompute`, because a change is late.

    Args:
        rows: the current rows of all keys that new changes touch.
        history: all changes of these keys up to the watermark that the table gets, with column nullings
            (`with_nullings`), which each group of keys needs.
        row_table: the table.
        chains: as for `folded`.
        merged: the watermark that the table has.

    Returns:
        the net effects, as `folded` returns them; none has evidence.
    """
    read = {*row_table.key, *SYSTEM_COLUMNS}
    only_read = [
        (F.col(spark_name(field.name)) if field.name in read else F.lit(None).cast(field.dataType)).alias(field.name)
        for field in rows.schema
    ]

    def effects_of(rows_of_group: pa.Table, history_of_group: pa.Table) -> pa.Table:
        key, columns = row_table.key, row_table.table.column_names
        effects = recompute(rows_of_group, history_of_group, merged, key=key, columns=columns)
        return effects.append_column("_txloom_evidence", pa.nulls(effects.num_rows, pa.string()))

    return _in_groups(effects_of, (rows.select(*only_read), history), row_table, chains)


def _in_groups(
    effects_of: Callable[[pa.Table, pa.Table], pa.Table],
    sides: tuple[DataFrame, DataFrame],
    row_table: RowTable,
    chains: Mapping[int, int],
) -> DataFrame:
    """Compute effects in groups of keys; sides: rows and changes, of which each group gets those of the whole table."""
    rows, changes = sides
    hashes, is_whole = [component(row_table.key, chains)], F.col("_txloom_op").isin(*WHOLE)
    verdict = ", ".join(f"{name} {kind}" for name, kind in VERDICT.items())
    named = row_table.partitions.ddl if row_table.partitions else ""
    return spread.in_buckets(
        _with_partitions(effects_of, row_table),
        f"{schemas.current_ddl(row_table.table)}{named}, {verdict}",
        (rows, spread.buckets_of(hashes, PARTITIONS)),
        (changes, spread.buckets_of(hashes, PARTITIONS, is_whole)),
    )


def component(key: Sequence[str], chains: Mapping[int, int]) -> Column:
    """Return the hash by which a key gets its group: that of its chain's representative, else that of the key."""
    default = key_hash(key)
    if not chains:
        return default
    return F.coalesce(F.create_map(*[F.lit(item) for pair in chains.items() for item in pair])[default], default)


def of_all_rows(changes: DataFrame) -> DataFrame:
    """Return the changes that affect all rows of a table, as `txloom.current.folding.column_nulling.of_all_rows` does.

    They are truncates and column nullings, and belong to every group of keys that is folded. That function is called
    batch by batch: where a transaction lies in several, each has a first and a last insert, which nulls no more.
    """
    read = ["_txloom_op", *NULLING_COLUMNS]
    chosen = changes.where("_txloom_op = 'T' or _txloom_absent is not null").select(*read)

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from arrow_of_all_rows(pa.Table.from_batches([batch])).to_batches()

    of_table = chosen.mapInArrow(apply, chosen.schema)
    return of_table.select(
        *[
            (F.col(field.name) if field.name in read else F.lit(None).cast(field.dataType)).alias(field.name)
            for field in changes.schema
        ]
    )


def with_nullings(changes: DataFrame) -> DataFrame:
    """Return changes, and column nullings of inserts that lack columns: a group of keys sees only its inserts."""
    return changes.unionByName(of_all_rows(changes).where("_txloom_op = 'C'"))


def columns_of(changes: DataFrame, gone: Mapping[str, Gone]) -> Columns:
    """Return which columns are dropped after changes, and of which columns the changes null values.

    gone: the columns that were dropped before.
    """
    lacking = changes.where("_txloom_absent is not null").select(F.explode("_txloom_absent")).distinct().collect()
    concerned = sorted(({row[0] for row in lacking} & set(changes.columns)) | set(gone))
    if not concerned:
        return Columns({}, [])
    is_given = F.col("_txloom_absent").isNotNull()
    for name in concerned:
        is_given |= F.col(spark_name(name)).isNotNull()
    flags = [F.when(F.col(spark_name(name)).isNotNull(), F.lit(True)).alias(name) for name in concerned]
    rows = changes.where(is_given).select(*NULLING_COLUMNS, *flags).toArrow()
    return columns_of_rows(rows, gone)


def _with_partitions(
    effects_of: Callable[[pa.Table, pa.Table], pa.Table], row_table: RowTable
) -> Callable[[int, pa.Table, pa.Table], pa.Table]:
    columns = row_table.table.column_names
    named = [row_table.partitions.column] if row_table.partitions and row_table.partitions.field else []

    def apply(_group: int, rows: pa.Table, changes: pa.Table) -> pa.Table:
        effects = row_table.filled(effects_of(rows, changes))
        return effects.select([*columns, *SYSTEM_COLUMNS, *named, *VERDICT])

    return apply


def tied(edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return {hash: representative} of the key hashes that key changes, pairs of hashes, connect."""
    return components(edges)


def merge(path: str, effects: DataFrame, key: Sequence[str], *, prune: str = "", metadata: str) -> None:
    """Apply net effects to a current table in one commit, also where no row changes.

    Args:
        path: the table's path.
        effects: at most one row for each key, with the columns of VERDICT.
        key: the key columns.
        prune: conditions, such as those of `pruning`, that exclude files without the keys.
        metadata: the commit's userMetadata as JSON, that is the watermark that the table has then.

    Raises:
        LeaseTaken: a later run stamped the table.
        WriteConflict: Delta skipped the write because another run has written.
    """
    columns = [name for name in effects.columns if name not in VERDICT]
    values = {spark_name(name): F.col(f"s.{spark_name(name)}") for name in columns}
    condition = " AND ".join(f"t.{spark_name(name)} = s.{spark_name(name)}" for name in key)
    session = spark_tables.new_write_session(effects.sparkSession, path, metadata)
    target = DeltaTable.forPath(session, path).alias("t")
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
    """Merge rows into a history in one commit: rows that it lacks are added, others get all values, none is deleted.

    Args:
        path: the history's path.
        rows: at least one, in the history's columns. Their structs may lack fields that the history has, of columns
            that are not declared any more: these are null.
        key: the columns by which rows are matched; null matches null.
        metadata: the commit's userMetadata as JSON.

    Raises:
        LeaseTaken: a later run stamped the table.
        WriteConflict: Delta skipped the write because another run has written.
    """
    values = {spark_name(name): F.col(f"s.{spark_name(name)}") for name in rows.columns}
    types = {field.name: field.dataType for field in spark_tables.read(rows.sparkSession, path).schema}
    rows = rows.select(
        *(
            _with_fields(F.col(spark_name(each.name)), each.dataType, types.get(each.name, each.dataType)).alias(
                each.name
            )
            for each in rows.schema
        )
    )
    bounds = rows.agg(F.min("_txloom_csn"), F.max("_txloom_csn")).first()
    assert bounds is not None
    condition = " AND ".join(f"t.{spark_name(name)} <=> s.{spark_name(name)}" for name in key)
    condition += f" AND t._txloom_csn BETWEEN {bounds[0]} AND {bounds[1]}"
    session = spark_tables.new_write_session(rows.sparkSession, path, metadata)
    target = DeltaTable.forPath(session, path).alias("t").merge(rows.alias("s"), condition)
    target.whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values).execute()
    spark_tables.refuse_unwritten(path, metadata)


def _with_fields(values: Column, has: DataType, wants: DataType) -> Column:
    """Return values of a type with the fields of another one; those that their structs lack are null."""
    if isinstance(has, ArrayType) and isinstance(wants, ArrayType):
        inside, target = has.elementType, wants.elementType
        return values if inside == target else F.transform(values, lambda each: _with_fields(each, inside, target))
    if has == wants or not isinstance(has, StructType) or not isinstance(wants, StructType):
        return values
    types = {field.name: field.dataType for field in has}
    fields = [
        _with_fields(values.getField(field.name), types[field.name], field.dataType)
        if field.name in types
        else F.lit(None).cast(field.dataType)
        for field in wants
    ]
    named = [each.alias(field.name) for each, field in zip(fields, wants, strict=True)]
    return F.when(values.isNotNull(), F.struct(*named))


def pruning(effects: DataFrame, key: Sequence[str]) -> str:
    """Return the condition of `naming` for the first key column of effects; "" where its values cannot be named."""
    return naming(key[0], _distinct(effects, key[0], LITERAL_KEYS + 1))


def pruning_partitions(effects: DataFrame, row_table: RowTable) -> str:
    """Return the condition of `only_within` for the partitions of effects; "" where the key does not decide on them."""
    partitions = row_table.partitions
    if partitions is None or partitions.declared.column not in row_table.key:
        return ""
    return only_within(within(partitions.column, _distinct(effects, partitions.column, MOST_NAMED + 1)))


def _distinct(effects: DataFrame, column: str, most: int) -> list[Any]:
    """Return at most so many distinct values of a column, through Arrow: PySpark's rows hold no time near year 1."""
    values: list[Any] = effects.select(spark_name(column)).distinct().limit(most).toArrow().column(0).to_pylist()
    return values


def only_within(partitions: Within | None) -> str:
    """Return the end of a merge condition that limits it to some partitions; "" for None."""
    if partitions is None:
        return ""
    return f" AND {partitions.condition(f't.{spark_name(partitions.column)}', spark_literal)}"


def naming(column: str, values: Sequence[object]) -> str:
    """Return the end of a merge condition that lists values of a key column, so that files without them are skipped.

    It is "" where there are none or more than LITERAL_KEYS, or one is no integer, text or date.

    >>> naming("id", [1, 2])
    ' AND t.`id` IN (1, 2)'
    """
    if not 0 < len(values) <= LITERAL_KEYS or not all(type(value) in (int, str, date) for value in values):
        return ""
    return f" AND t.{spark_name(column)} IN ({', '.join(map(spark_literal, values))})"
