"""Schemas of history and current tables, as Spark DDL, built from their declaration."""

from txloom.config.models import Aggregate, Pipeline, Table

CHANGE_COLUMNS = """
    _txloom_op string, _txloom_xid string, _txloom_csn bigint, _txloom_pos bigint, _txloom_committed_at timestamp,
    _txloom_release bigint, _txloom_landing bigint, _txloom_row bigint, _txloom_unchanged array<string>"""


def quote(name: str) -> str:
    """Quote a column name for Spark SQL.

    >>> quote("order")
    '`order`'
    """
    return "`" + name.replace("`", "``") + "`"


def columns_ddl(table: Table) -> str:
    """Return the declared columns of a table as Spark DDL."""
    return ", ".join(f"{quote(column.name)} {column.type.spark}" for column in table.columns)


def struct_ddl(table: Table) -> str:
    """Return the declared columns of a table as one Spark struct."""
    return "struct<" + ", ".join(f"{quote(column.name)}:{column.type.spark}" for column in table.columns) + ">"


def changes_ddl(table: Table) -> str:
    """Return the schema of a mirror's history, `<table>_changes`."""
    own = f"{CHANGE_COLUMNS}, _txloom_before {struct_ddl(table)}, _txloom_before_known array<string>"
    return f"{columns_ddl(table)}, {own}"


def current_ddl(table: Table) -> str:
    """Return the schema of a mirror's current table."""
    return f"{columns_ddl(table)}, _txloom_csn bigint, _txloom_pos bigint, _txloom_xid string"


def stream_ddl(pipeline: Pipeline, aggregate: Aggregate) -> str:
    """Return the schema of an aggregate's history: one row per transaction and root."""
    root = pipeline.table(aggregate.root)
    keys = ", ".join(f"{quote(name)} {root.column(name).type.spark}" for name in root.key)
    members = ", ".join(
        f"{quote(field)} array<{change_ddl(pipeline.table(table))}>" for table, field in members_of(aggregate)
    )
    own = "_txloom_xid string, _txloom_csn bigint, _txloom_committed_at timestamp, _txloom_release bigint"
    return f"{keys}, {own}, {members}"


def change_ddl(table: Table) -> str:
    """Return one change of an aggregate's member as a Spark struct."""
    columns = ", ".join(f"{quote(column.name)}:{column.type.spark}" for column in table.columns)
    return (
        f"struct<_txloom_pos:bigint, _txloom_op:string, {columns}, _txloom_unchanged:array<string>,"
        f" _txloom_before:struct<{columns}>, _txloom_before_known:array<string>,"
        " _txloom_landing:bigint, _txloom_row:bigint>"
    )


def members_of(aggregate: Aggregate) -> list[tuple[str, str]]:
    """Return (table, field of the history row) for the root and every child of an aggregate."""
    return [(aggregate.root, aggregate.root), *((child.table, child.as_) for child in aggregate.children)]


def document_ddl(pipeline: Pipeline, aggregate: Aggregate) -> str:
    """Return the schema of an aggregate's current table: the root's columns, then its children nested."""
    fields = [columns_ddl(pipeline.table(aggregate.root))]
    for child in aggregate.children:
        struct = struct_ddl(pipeline.table(child.table))
        fields.append(f"{quote(child.as_)} {struct if child.relation == 'one' else f'array<{struct}>'}")
    return ", ".join([*fields, "_txloom_csn bigint, _txloom_pos bigint, _txloom_xid string"])
