"""The catalog of a MySQL or MariaDB server: tables with columns, keys and foreign keys, and what its binlog holds."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.databases.database_catalog import Catalog, CatalogTable, Reference

SCHEMES = ("mysql", "mariadb")
SYSTEM = "schema_name not in ('mysql', 'information_schema', 'performance_schema', 'sys')"
SCHEMAS = f"select schema_name from information_schema.schemata where {SYSTEM}"
COLUMNS = """
    select c.table_schema, c.table_name, c.column_name, c.column_type, c.data_type, c.is_nullable
    from information_schema.columns c join information_schema.tables t
    on t.table_schema = c.table_schema and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
    where c.table_schema in %s order by c.table_schema, c.table_name, c.ordinal_position
"""
INDEXES = """
    select table_schema, table_name, index_name, column_name, sub_part from information_schema.statistics
    where non_unique = 0 and table_schema in %s
    order by table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index
"""
REFERENCES = """
    select table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
        referenced_column_name
    from information_schema.key_column_usage where referenced_table_name is not null and table_schema in %s
    order by table_schema, table_name, constraint_name, ordinal_position
"""
SETTINGS = {
    "log_bin": ("ON", "1"),
    "binlog_format": ("ROW",),
    "binlog_row_image": ("FULL",),
    "binlog_row_value_options": ("",),
    "binlog_transaction_compression": ("OFF", "0"),
}
"""What the server's settings have to be, so that Debezium sees whole rows, each at a place of its own."""
Name = tuple[str, str]
"""The schema and the name of a table."""


def read_catalog(address: str, schemas: Sequence[str] = ()) -> Catalog:
    """Read the catalog of a server.

    Args:
        address: mysql://USER:PASSWORD@HOST:PORT/SCHEMA, with PyMySQL's ssl_ca and the like as parameters.
        schemas: those that are read; empty: the one that the address names; else all but the system's.

    Raises:
        SourceUnavailable: it does not answer.
        ConfigurationError: it has no such schema.
    """
    parts = urlsplit(address)
    named = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}
    given = {name: unquote(value) if isinstance(value, str) else value for name, value in named.items() if value}
    extra = {name: value for name, value in parse_qsl(parts.query) if name.startswith("ssl_")}
    schema = unquote(parts.path[1:])
    more = {**extra, "charset": "utf8mb4", "program_name": "txloom init"}
    try:
        with closing(pymysql.connect(**given, **more)) as connection, closing(connection.cursor()) as cursor:
            return _read(cursor, schemas or [schema] * bool(schema))
    except pymysql.MySQLError as error:
        reason = str(error.args[-1] if error.args else type(error).__name__).strip().splitlines()[0]
        raise SourceUnavailable(f"the database did not answer: {reason}") from error


def _read(cursor: Any, schemas: Sequence[str]) -> Catalog:
    ((version,),) = _rows(cursor, "select version()")
    existing = [row[0] for row in _rows(cursor, SCHEMAS)]
    if missing := sorted(set(schemas) - set(existing)):
        known = ", ".join(sorted(existing))
        raise ConfigurationError(f"--schema: found {', '.join(missing)}, but the database has {known}.")
    within = tuple(schemas or existing)
    columns, required = defaultdict[Name, list[tuple[str, str]]](list), set[tuple[str, str, str]]()
    for schema, table, column, kind, base, is_nullable in _rows(cursor, COLUMNS, within):
        columns[schema, table].append((column, kind if base.lower() not in ("enum", "set") else base))
        if is_nullable == "NO":
            required.add((schema, table, column))
    keys = _keys(_rows(cursor, INDEXES, within), required)
    references = _references(_rows(cursor, REFERENCES, within))
    tables = tuple(
        CatalogTable(
            name=f"{name[0]}.{name[1]}",
            columns=tuple(columns[name]),
            key=keys.get(name, ((), True))[0],
            is_primary=keys.get(name, ((), False))[1],
            identity="f",
            references=tuple(references[name]),
            is_partitioned=False,
        )
        for name in columns
    )
    return Catalog(tables, "mariadb" if "mariadb" in version.lower() else "mysql", tuple(_problems(cursor)))


def _keys(
    rows: Sequence[tuple[Any, ...]], required: set[tuple[str, str, str]]
) -> dict[Name, tuple[tuple[str, ...], bool]]:
    """Return the primary key of each table, or else its first unique index without nulls, and which one it is."""
    indexes = defaultdict[tuple[Name, str], list[tuple[str | None, int | None]]](list)
    for schema, table, index, column, part in rows:
        indexes[(schema, table), index].append((column, part))
    keys = dict[Name, tuple[tuple[str, ...], bool]]()
    for (name, index), columns in indexes.items():
        whole = [column for column, part in columns if column is not None and part is None]
        if name not in keys and len(whole) == len(columns) and all((*name, column) in required for column in whole):
            keys[name] = (tuple(whole), index == "PRIMARY")
    return keys


def _references(rows: Sequence[tuple[Any, ...]]) -> dict[Name, list[Reference]]:
    made = defaultdict[tuple[Name, str, str], list[tuple[str, str]]](list)
    for schema, table, constraint, column, other_schema, other, referred in rows:
        made[(schema, table), constraint, f"{other_schema}.{other}"].append((column, referred))
    references = defaultdict[Name, list[Reference]](list)
    for (name, _, other), pairs in made.items():
        columns, referred = zip(*pairs, strict=True)
        references[name].append(Reference(columns, other, referred))
    return references


def _problems(cursor: Any) -> list[str]:
    """Return what is wrong with the binlog, a sentence for each setting."""
    names = ", ".join(f"'{name}'" for name in SETTINGS)
    rows = _rows(cursor, f"show global variables where variable_name in ({names})")
    return [
        f"{name} of the database is {value}: its changes can be captured only with {SETTINGS[name][0] or 'none'}."
        for name, value in rows
        if value.upper() not in SETTINGS[name]
    ]


def _rows(cursor: Any, sql: str, within: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    cursor.execute(sql, (within,) if within else None)
    return list(cursor.fetchall())
