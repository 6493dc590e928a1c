"""The row tables and mirrors of a pipeline, and how all its current tables are created."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures, write_deltalake

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Child, Mirror, Pipeline, Table
from txloom.current.documents.compose import Member
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.data_files import Shape
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.sql import has_exact_bounds, spark_name
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.targets import schemas
from txloom.storage.targets.partitioning import Partitions

STATISTICS = "delta.dataSkippingStatsColumns"
"""The property that lists the columns of which a table has statistics, the key among them."""


@dataclass(frozen=True)
class RowTable:
    """The table of a source table's current rows: a declared mirror, or one kept for an aggregate's documents."""

    table: Table
    current: str
    """The name of the current table."""
    mirror: Mirror | None
    aggregate: Aggregate | None
    """The aggregate whose history holds the changes, where there is no mirror."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns that identify a row: the key, or without one csn and position of the insert."""
        return self.table.key or names.POSITION

    @property
    def history(self) -> str:
        """Return the name of the history table that holds its changes."""
        if self.mirror is not None:
            return self.mirror.history
        assert self.aggregate is not None
        return self.aggregate.history

    @property
    def field(self) -> str:
        """Return the column of an aggregate's history that holds its changes."""
        assert self.aggregate is not None
        return dict(schemas.members_of(self.aggregate))[self.table.name]

    @property
    def partitions(self) -> Partitions | None:
        """Return how the table is partitioned; None where it is not."""
        return Partitions.of(self.table, self.mirror)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of a current table, and the added partition column where the table has one."""
        partition_field = self.partitions.field if self.partitions else None
        schema = schemas.current_schema(self.table)
        return schema if partition_field is None else schema.append(partition_field)

    def filled(self, effects: pa.Table) -> pa.Table:
        """Return effects with the added partition column filled, where the table has one."""
        return effects if self.partitions is None else self.partitions.filled(effects)


def member_of(table: Table, child: Child) -> Member:
    """Return a child table as `txloom.current.documents` describes it."""
    return Member(child.as_, child.relation, table.key, child.parent_key, table.column_names)


def row_tables(pipeline: Pipeline) -> list[RowTable]:
    """Return every mirror of a pipeline, and a row table for each member of an aggregate without a mirror."""
    stores = {m.table: RowTable(pipeline.table(m.table), m.current, m, None) for m in pipeline.targets.mirrors}
    for aggregate in pipeline.targets.aggregates:
        for name, _ in schemas.members_of(aggregate):
            store = RowTable(pipeline.table(name), names.row_store(name), None, aggregate)
            stores.setdefault(name, store)
    return list(stores.values())


def history_members(pipeline: Pipeline) -> list[RowTable]:
    """Return a row table for each member of each history, also for members whose rows are read from another history."""
    mirrors = [RowTable(pipeline.table(m.table), m.current, m, None) for m in pipeline.targets.mirrors]
    documents = [
        RowTable(pipeline.table(name), names.row_store(name), None, aggregate)
        for aggregate in pipeline.targets.aggregates
        for name, _ in schemas.members_of(aggregate)
    ]
    return [*mirrors, *documents]


def create(row_table: RowTable, paths: TablePaths) -> None:
    """Create a mirror's current table or a row table, or bring it to its declared schema; a repeated call does nothing.

    Its first version is the empty state as of csn 0. Errors are those of `schema_evolution.ensure`.
    """
    shape = shape_of(row_table)
    schema_evolution.ensure(
        paths.table(row_table.current),
        shape.schema,
        _properties(shape),
        partition_by=partition_columns(row_table),
        metadata=vars(Watermark()),
    )
    if row_table.table.insert_only:
        _refuse_same_rows(row_table, paths)


def _refuse_same_rows(row_table: RowTable, paths: TablePaths) -> None:
    """Empty a table without a key, once, where an older version of txloom merged several of its rows into one.

    That version identified rows by csn and position alone. The next merge makes all rows from history.
    """
    table = table_at(paths.table(row_table.current))
    if STATISTICS not in table.metadata().configuration or names.POSITION[1] in _indexed(table):
        return
    FENCE.refuse_stale(table.table_uri)
    if _were_taken_for_one(row_table, paths):
        commit = commit_properties(metadata=vars(Watermark()))
        nothing = arrow_tables.schema_of(table).empty_table()
        write_deltalake(table, nothing, mode="overwrite", commit_properties=commit)
    indexed = ",".join([names.POSITION[1], *_indexed(table)])
    table.alter.set_table_properties({STATISTICS: indexed})


def _indexed(table: DeltaTable) -> list[str]:
    """Return the columns that a table has statistics of."""
    columns: str = table.metadata().configuration[STATISTICS]
    return columns.split(",")


def _were_taken_for_one(row_table: RowTable, paths: TablePaths) -> bool:
    """Return whether rows share csn and position, or may have the xid of a transaction that only nulled a column."""
    same = "select 1 as n from t group by _txloom_csn, _txloom_pos having count(*) > 1 limit 1"
    cleared = "select 1 as n from t where _txloom_absent is not null limit 1"
    return any(small_tables.query(paths.table(row_table.history), sql) for sql in (cleared, same))


def partition_columns(row_table: RowTable) -> list[str]:
    """Return the columns that the files of a row table are partitioned by."""
    return [row_table.partitions.column] if row_table.partitions else []


def shape_of(row_table: RowTable) -> Shape:
    """Return the schema of a row table, and the columns of which its files have bounds."""
    ordered = [*row_table.mirror.zorder] if row_table.mirror else []
    ordered += [row_table.partitions.declared.column] if row_table.partitions and row_table.partitions.field else []
    return _shape(row_table.schema, [*row_table.key, *ordered])


def shape_of_documents(pipeline: Pipeline, aggregate: Aggregate) -> Shape:
    """Return the schema of an aggregate's current table, and the columns of which its files have bounds."""
    schema = schemas.document_schema(pipeline, aggregate)
    return _shape(schema, [*pipeline.table(aggregate.root).key, *aggregate.zorder])


def prepare_shape(path: str, shape: Shape, partition_by: Sequence[str] = ()) -> None:
    """Make an existing table ready for a commit that gives it another schema; no row and no column changes.

    Types that its protocol does not know are allowed, and columns that go are not bounded any more. A repeated call
    changes nothing.

    Args:
        path: the table's path.
        shape: what the table gets.
        partition_by: the declared partition columns.

    Raises:
        ConfigurationError: the table is partitioned by other columns than the declared ones.
        LeaseTaken: another run holds the lease.
    """
    schema_evolution.refuse_other_partitions(path, shape.schema, partition_by)
    table = FENCE.opened(path)
    known = arrow_tables.schema_of(table).names
    if _has_local_times(shape.schema) and "timestampNtz" not in (table.protocol().writer_features or ()):
        table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
    bounded = ",".join(spark_name(name) for name in shape.bounded if name in known)
    if bounded and table.metadata().configuration.get(STATISTICS) != bounded:
        carried = commit_properties(metadata=newest_metadata(path) or None)
        FENCE.opened(path).alter.set_table_properties({STATISTICS: bounded}, commit_properties=carried)


def _has_local_times(schema: pa.Schema) -> bool:
    """Return whether a schema has a time without a zone, also inside nested types."""
    kinds = [field.type for field in schema]
    while kinds:
        kind = kinds.pop()
        if pa.types.is_timestamp(kind) and kind.tz is None:
            return True
        if pa.types.is_nested(kind):
            kinds += [kind.field(number).type for number in range(kind.num_fields)]
    return False


def create_documents(pipeline: Pipeline, aggregate: Aggregate, paths: TablePaths) -> None:
    """Create the current table of an aggregate, or bring it to its declared schema; a repeated call does nothing.

    Its first version is the empty state as of csn 0. Errors are those of `schema_evolution.ensure`.
    """
    shape = shape_of_documents(pipeline, aggregate)
    schema_evolution.ensure(
        paths.table(aggregate.current), shape.schema, _properties(shape), metadata=vars(Watermark())
    )


def _shape(schema: pa.Schema, indexed: Sequence[str]) -> Shape:
    """Return a schema with bounds of the csn and of some columns, where they are exact."""
    bounded = [name for name in [*indexed, "_txloom_csn"] if has_exact_bounds(schema.field(name).type)]
    return Shape(schema, list(dict.fromkeys(bounded)))


def _properties(shape: Shape) -> dict[str, str]:
    """Return the properties of a new table."""
    return {**small_tables.DELETION_VECTORS, STATISTICS: ",".join(map(spark_name, shape.bounded))}
