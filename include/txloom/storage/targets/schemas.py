"""Schemas of history and current tables, built from their declaration; as DDL for rows that Spark computes."""

from typing import Any

import pyarrow as pa

from txloom.config.models.pipeline import Aggregate, Pipeline, Table
from txloom.events.values.scalars import arrow_type
from txloom.storage.delta.sql import spark_name
from txloom.storage.system_tables import INSTANT, arrow_schema

NAMES = pa.list_(pa.string())
STAMPS: list[tuple[str, pa.DataType]] = [
    ("_txloom_csn", pa.int64()),
    ("_txloom_pos", pa.int64()),
    ("_txloom_xid", pa.string()),
]
"""The columns of a current row beside the declared ones: csn, position and transaction of the row's newest change."""


def columns_ddl(table: Table) -> str:
    """Return the declared columns of a table as Spark DDL."""
    return ", ".join(f"{spark_name(column.name)} {column.type.spark}" for column in table.columns)


def struct_ddl(table: Table) -> str:
    """Return the declared columns of a table as one Spark struct."""
    return "struct<" + ", ".join(f"{spark_name(column.name)}:{column.type.spark}" for column in table.columns) + ">"


def changes_schema(table: Table) -> pa.Schema:
    """Return the schema of a mirror's history, `<table>_changes`."""
    system_fields: list[tuple[str, pa.DataType]] = [("op", pa.string()), ("xid", pa.string())]
    system_fields += [
        ("csn", pa.int64()),
        ("pos", pa.int64()),
        ("committed_at", INSTANT),
        ("release", pa.int64()),
        ("landing", pa.int64()),
        ("row", pa.int64()),
    ]
    system_fields += [
        ("unchanged", NAMES),
        ("before", pa.struct(columns(table))),
        ("before_known", NAMES),
        ("absent", NAMES),
    ]
    return arrow_schema([*columns(table), *[(f"_txloom_{name}", kind) for name, kind in system_fields]])


def stream_schema(pipeline: Pipeline, aggregate: Aggregate) -> pa.Schema:
    """Return the schema of an aggregate's history: one row per transaction and root."""
    root = pipeline.table(aggregate.root)
    keys = [field for field in columns(root) if field.name in root.key]
    system_fields: list[tuple[str, pa.DataType]] = [("_txloom_xid", pa.string()), ("_txloom_csn", pa.int64())]
    system_fields += [("_txloom_committed_at", INSTANT), ("_txloom_release", pa.int64())]
    members: list[tuple[str, pa.DataType]] = [
        (field, pa.list_(change_type(pipeline.table(table)))) for table, field in members_of(aggregate)
    ]
    return arrow_schema([*sorted(keys, key=lambda field: root.key.index(field.name)), *system_fields, *members])


def change_type(table: Table) -> pa.DataType:
    """Return the type of one change of an aggregate's member in the aggregate's history."""
    image = pa.struct(columns(table))
    first: list[tuple[str, pa.DataType]] = [("_txloom_pos", pa.int64()), ("_txloom_op", pa.string())]
    last: list[tuple[str, pa.DataType]] = [("unchanged", NAMES), ("before", image), ("before_known", NAMES)]
    last += [("landing", pa.int64()), ("row", pa.int64()), ("absent", NAMES)]
    fields = [pa.field(name, kind) for name, kind in first]
    fields += [*columns(table), *[pa.field(f"_txloom_{name}", kind) for name, kind in last]]
    return pa.struct(fields)


def current_schema(table: Table) -> pa.Schema:
    """Return the schema of a mirror's current table."""
    return arrow_schema([*columns(table), *STAMPS])


def document_schema(pipeline: Pipeline, aggregate: Aggregate) -> pa.Schema:
    """Return the schema of an aggregate's current table: the root's columns, then its children nested."""
    return arrow_schema([*document_fields(pipeline, aggregate), *STAMPS])


def document_fields(pipeline: Pipeline, aggregate: Aggregate) -> "list[pa.Field[Any]]":
    """Return the declared columns of a document: the root's, and one for each child."""
    fields = columns(pipeline.table(aggregate.root))
    for child in aggregate.children:
        row = pa.struct(columns(pipeline.table(child.table)))
        fields.append(pa.field(child.as_, row if child.relation == "one" else pa.list_(row)))
    return fields


def columns(table: Table) -> "list[pa.Field[Any]]":
    """Return the declared columns of a table."""
    return [pa.field(column.name, arrow_type(column.type)) for column in table.columns]


def current_ddl(table: Table) -> str:
    """Return the schema of a mirror's current table as Spark DDL."""
    return f"{columns_ddl(table)}, _txloom_csn bigint, _txloom_pos bigint, _txloom_xid string"


def members_of(aggregate: Aggregate) -> list[tuple[str, str]]:
    """Return (table, field of the history row) for the root and every child of an aggregate."""
    return [(aggregate.root, aggregate.root), *((child.table, child.as_) for child in aggregate.children)]
