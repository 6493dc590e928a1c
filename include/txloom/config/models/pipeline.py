"""The declaration of a pipeline, as frozen models; fields are in the order in which a user fills them in.

Editors show a field's description beside it, and the message for a missing field names it as what was expected.
"""

from collections.abc import Callable, Container
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, WrapValidator

from txloom.config import names
from txloom.config.models.alerts import Alerts
from txloom.config.models.audit import Audit
from txloom.config.models.base import Model
from txloom.config.models.column_types import ColumnType
from txloom.config.models.expectations import Expectation, Judge
from txloom.config.models.fields import (
    NO_KEY,
    Asset,
    ColumnName,
    Count,
    Day,
    Duration,
    EntryName,
    EntrySource,
    FieldName,
    LowerName,
    Remark,
    Schedule,
    SchemaName,
    SourceColumn,
    TableName,
    TablePattern,
    Text,
)
from txloom.config.models.maintenance import Maintenance
from txloom.config.models.partitions import Partition
from txloom.config.models.source import Source
from txloom.config.models.spark import Spark
from txloom.config.problems import Unfit


class Completeness(Model):
    """When a source transaction is whole."""

    rule: Annotated[
        Literal["counts", "markers", "progress", "single"],
        Field(
            description="The rule that makes a transaction whole; counts: metadata says how many events each table "
            "has, markers: its COMMIT has come, progress: every partition has shown a later transaction, single: each "
            "event is a transaction of its own"
        ),
    ]
    patience: Annotated[
        Duration,
        Field(description="How long an incomplete transaction may wait, such as 30m; not for progress and single"),
    ] = timedelta(minutes=30)
    idle_after: Annotated[
        Duration | None,
        Field(
            description="From when on a partition that shows nothing is no longer waited for, such as 10m; for "
            "progress, and for metadata over several partitions (there by default patience)"
        ),
    ] = None
    suspects: Annotated[
        Literal["release", "hold"],
        Field(
            description="What becomes of whole transactions whose rows come from two producer runs; release: with a "
            "warning, hold: they become dead letters after patience, and a redrive releases them"
        ),
    ] = "release"
    max_rows: Annotated[
        Count | None,
        Field(
            description="The most rows that a transaction may have (a loaded snapshot is one too); a larger one is "
            "dead letters (too large) at once, and the others go on. By default there is no limit"
        ),
    ] = None
    complete_now: Annotated[
        Literal["redrive", "approve"],
        Field(description="What becomes of dead transactions that late events make whole: redrive at once, or wait"),
    ] = "redrive"


Aliases = Annotated[
    tuple[SourceColumn, ...],
    Field(
        description="Former names of a column that the source renamed, newest first; if a row lacks `source`, its "
        "value is taken from the first of these names that the row has"
    ),
]


class Column(Model):
    """A column of a watched table."""

    name: Annotated[ColumnName, Field(description="The name in the lake")]
    type: Annotated[ColumnType, Field(description="The type of the values, such as long or decimal(20,4)")]
    source: Annotated[
        SourceColumn,
        Field(description="The name in the source, in any case; by default the name in the lake"),
    ] = Field(default_factory=lambda valid: valid["name"])
    source_aliases: Aliases = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Return `source` and `source_aliases`; a row's value is under the first of these names that the row has."""
        return (self.source, *self.source_aliases)

    def find_source(self, names: Container[str]) -> str:
        """Return, in lower case, the first of `sources` that is in `names` (in lower case); `source` if none is."""
        lower = [source.lower() for source in self.sources]
        return next((source for source in lower if source in names), lower[0])


class ColumnDetail(Model):
    """A column that has more to say than its type."""

    type: Annotated[ColumnType, Field(description="The type of the values, such as long or decimal(20,4)")]
    source: Annotated[
        SourceColumn | None, Field(description="The name in the source, in any case; by default the name in the lake")
    ] = None
    source_aliases: Aliases = ()


def _columns(declared: Any) -> Any:
    """Turn `name: type` and `name: {type: ..., source: ...}` into columns."""
    if isinstance(declared, tuple):
        return declared
    if not isinstance(declared, dict):
        hint = "Leave out the dashes." if isinstance(declared, list) else ""
        raise Unfit("a mapping of names to types, such as {order_id: long}", hint)
    return [
        (column if isinstance(column, dict) else {"type": column}) | {"name": name} for name, column in declared.items()
    ]


def _key(declared: Any, check: Callable[[Any], Any]) -> Any:
    """Return the key's columns; `none` declares a table without a key, which takes inserts only."""
    return () if declared == NO_KEY else check(declared)


class Table(Model):
    """A source table that the pipeline watches."""

    name: Annotated[
        EntryName,
        Field(description="The name in the lake, or several as a list or a range such as t_{01..65}"),
    ]
    source: Annotated[
        EntrySource,
        Field(description="The schema and name in the source, such as PUBLIC.ORDERS; for several: PUBLIC.{name}"),
    ]
    columns: Annotated[
        tuple[Column, ...],
        BeforeValidator(_columns, json_schema_input_type=dict[ColumnName, ColumnType | ColumnDetail]),
        Field(description="The columns and their types, such as {order_id: long}", min_length=1),
    ]
    key: Annotated[
        tuple[ColumnName, ...],
        Field(description="A list of the columns that identify a row, such as [order_id]", min_length=1),
        WrapValidator(_key, json_schema_input_type=list[ColumnName] | Literal["none"]),
    ]
    version: Annotated[
        ColumnName | None,
        Field(description="The column that counts the changes of a row; a cross-check, never an order"),
    ] = None
    undeclared_columns: Annotated[
        Literal["ignore", "evolve", "quarantine"],
        Field(
            description="What to do when a row has a column that is not declared; evolve: add it as text, "
            "quarantine: its transaction becomes dead letters"
        ),
    ] = "ignore"
    dropped_columns: Annotated[
        Literal["clear", "keep"],
        Field(
            description="What an insert without a declared column means; clear: the source dropped it, so that it is "
            "null in every row from then on, keep: it is null in that row, as where a producer leaves nulls out"
        ),
    ] = "clear"

    @property
    def insert_only(self) -> bool:
        """Return whether the table has no key, so that its rows cannot be updated or deleted one by one."""
        return not self.key

    def column(self, name: str) -> Column:
        """Return a declared column."""
        return next(column for column in self.columns if column.name == name)

    @property
    def columns_by_source(self) -> dict[str, Column]:
        """Return the columns by each of their source names in upper case."""
        return {source.upper(): column for column in self.columns for source in column.sources}

    @property
    def key_sources(self) -> dict[str, str]:
        """Return, by each source name of a key column in upper case, the name of the column in the lake."""
        return {source.upper(): name for name in self.key for source in self.column(name).sources}

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the names of the columns in the lake, in the order of their declaration."""
        return tuple(column.name for column in self.columns)


class Child(Model):
    """A table whose rows hang below a root."""

    table: Annotated[TableName, Field(description="A watched table")]
    as_: Annotated[
        FieldName,
        Field(alias="as", description="The field in the document; by default the name of the table"),
    ] = Field(default_factory=lambda valid: valid["table"])
    relation: Annotated[Literal["one", "many"], Field(description="How many rows a root has: one or many")]
    parent_key: Annotated[
        tuple[ColumnName, ...],
        Field(description="A list of the child's columns that hold the root's key, in its order", min_length=1),
    ]


class Aggregate(Model):
    """A root and its children as one nested document."""

    name: Annotated[TableName, Field(description="The name of the aggregate")]
    history: Annotated[
        TableName,
        Field(description="The table of whole transactions; by default NAME_stream"),
    ] = Field(default_factory=lambda valid: names.stream_table(valid["name"]))
    current: Annotated[
        TableName,
        Field(description="The table of one document for each root; by default NAME_current"),
    ] = Field(default_factory=lambda valid: names.document_table(valid["name"]))
    root: Annotated[TableName, Field(description="The watched table whose rows are the documents")]
    children: Annotated[tuple[Child, ...], Field(description="The tables whose rows hang below a root")] = ()
    zorder: Annotated[
        tuple[ColumnName, ...], Field(description="The columns of the root by which OPTIMIZE clusters")
    ] = ()


class Mirror(Model):
    """One watched table, flat."""

    table: Annotated[TablePattern, Field(description="A watched table, or a pattern of names such as readings_*")]
    current: Annotated[
        TableName,
        Field(description="The table of one row for each key; by default the name of the table"),
    ] = Field(default_factory=lambda valid: valid["table"])
    history: Annotated[
        TableName,
        Field(description="The table of every change; by default TABLE_changes"),
    ] = Field(default_factory=lambda valid: names.changes_table(valid["table"]))
    zorder: Annotated[tuple[ColumnName, ...], Field(description="The columns by which OPTIMIZE clusters")] = ()
    partition_by: Annotated[
        Partition | None,
        Field(description="What partitions the current table: a column, or year, month or day of one: year(created)"),
    ] = None


def _mirrors(declared: Any) -> Any:
    """Turn the name of a table into a mirror without options; anything else is left for validation to refuse."""
    if not isinstance(declared, list):
        return declared
    return [{"table": item} if isinstance(item, str) else item for item in declared]


class Targets(Model):
    """What the pipeline writes."""

    aggregates: Annotated[tuple[Aggregate, ...], Field(description="Nested documents")] = ()
    mirrors: Annotated[
        tuple[Mirror, ...],
        BeforeValidator(_mirrors, json_schema_input_type=list[TablePattern | Mirror]),
        Field(description="Flat tables: a table's name, a pattern of names such as '*', or a mapping"),
    ] = ()
    incomplete: Annotated[
        Literal["publish_without", "hold"],
        Field(
            description="What happens to cuts while a table needs a snapshot because its declaration changed and "
            "earlier messages are not kept; publish_without: they leave out the table and documents over it, "
            "hold: there is no new cut"
        ),
    ] = "publish_without"
    catalog: Annotated[
        SchemaName | None,
        Field(
            description="The schema of a catalog in which maintenance registers current and history tables, such as "
            "unity.lake"
        ),
    ] = None


class Pipeline(Model):
    """A pipeline of txloom: from the change events of one source to consistent tables."""

    name: Annotated[LowerName, Field(description="The name of the pipeline, its DAGs and its folder in the warehouse")]
    description: Annotated[Remark, Field(description="What the pipeline is for")] = ""
    owner: Annotated[Text, Field(description="The team that is called when it fails")] = "data-platform"
    schedule: Annotated[
        Schedule | None,
        Field(description="When it runs, as cron, or @continuous: when the run before has ended; nothing: by hand"),
    ] = None
    after: Annotated[
        tuple[Asset, ...],
        Field(description="Assets whose update begins a run, instead of a schedule, such as txloom://orders/cuts"),
    ] = ()
    start_date: Annotated[Day, Field(description="The first day of the schedule")] = date(2025, 1, 1)
    timeout: Annotated[
        Duration, Field(description="How long one task may take until it is ended and tried again, such as 2h")
    ] = timedelta(hours=6)
    source: Annotated[Source, Field(description="Where change events come from")]
    completeness: Annotated[Completeness, Field(description="When a transaction is whole")]
    tables: Annotated[tuple[Table, ...], Field(description="A list of the source tables to watch", min_length=1)]
    targets: Annotated[Targets, Field(description="What is written")]
    expectations: Annotated[tuple[Expectation, ...], Field(description="What must hold, and what failing does")] = ()
    judge: Annotated[
        Judge,
        Field(
            description="When Great Expectations judges in a cycle: on_failure: only what SQL finds to fail; always: "
            "every expectation, each in some seconds"
        ),
    ] = "on_failure"
    alerts: Annotated[Alerts | None, Field(description="What is an incident, and who is notified")] = None
    maintenance: Annotated[Maintenance, Field(description="How the tables are kept in shape")] = Maintenance()
    spark: Annotated[Spark, Field(description="Where the jobs run, and with how much")] = Spark()
    audit: Annotated[Audit | None, Field(description="How the lake is compared with the live source")] = None

    _referenced: frozenset[str] = PrivateAttr(frozenset())

    @property
    def referenced(self) -> frozenset[str]:
        """Return the values that replaced ${...} in the file; they may be secret, so no report may repeat them."""
        return self._referenced

    @property
    def current_tables(self) -> tuple[str, ...]:
        """Return the names of the current tables that readers see."""
        return (*(each.current for each in self.targets.aggregates), *(each.current for each in self.targets.mirrors))

    def table(self, name: str) -> Table:
        """Return a watched table by its name in the lake."""
        return next(table for table in self.tables if table.name == name)
