"""The catalog of a PostgreSQL database: its tables with columns, keys, foreign keys and what their log holds."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg2

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.databases.database_catalog import Catalog, CatalogTable, Reference

RELATIONS = """
    select c.oid, n.nspname, c.relname, c.relreplident::text, c.relkind::text from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition and n.nspname = any(%s) order by n.nspname, c.relname
"""
COLUMNS = """
    select a.attname, format_type(a.atttypid, a.atttypmod), a.attgenerated <> '' from pg_attribute a
    where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
INDEXES = """
    select i.indisprimary, i.indisreplident, array(
        select a.attname from unnest(i.indkey::int[]) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
        where k.place <= i.indnkeyatts order by k.place
    )::text[] from pg_index i join pg_class c on c.oid = i.indrelid
    where i.indrelid = %s and i.indisunique and i.indpred is null and i.indexprs is null and i.indisvalid
    and not exists (select from unnest(i.indkey::int[]) with ordinality k(number, place) join pg_attribute a
                    on a.attrelid = i.indrelid and a.attnum = k.number
                    where k.place <= i.indnkeyatts and not a.attnotnull)
    order by i.indisreplident and c.relreplident = 'i' desc, i.indisprimary desc, i.indnkeyatts, i.indexrelid
"""
REFERENCES = """
    select f.confrelid, array(
        select a.attname from unnest(f.conkey) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.number order by k.place
    )::text[], array(
        select a.attname from unnest(f.confkey) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.number order by k.place
    )::text[] from pg_constraint f where f.contype = 'f' and f.conrelid = %s order by f.oid
"""
SYSTEM = "select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"


def read_catalog(address: str, schemas: Sequence[str] = ()) -> Catalog:
    """Read the catalog of a database.

    Args:
        address: libpq's URI or parameters.
        schemas: those that are read; empty: all but the system's.

    Raises:
        SourceUnavailable: it does not answer.
        ConfigurationError: it has no such schema.
    """
    try:
        with closing(psycopg2.connect(address, application_name="txloom init")) as connection:
            connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
            with closing(connection.cursor()) as cursor:
                return _read(cursor, schemas)
    except psycopg2.Error as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SourceUnavailable(f"the database did not answer: {reason}") from error


def _read(cursor: Any, schemas: Sequence[str]) -> Catalog:
    existing = [row[0] for row in _rows(cursor, SYSTEM)]
    if missing := sorted(set(schemas) - set(existing)):
        known = ", ".join(sorted(existing))
        raise ConfigurationError(f"--schema: found {', '.join(missing)}, but the database has {known}.")
    relations = list(_rows(cursor, RELATIONS, (list(schemas) or existing,)))
    names = {oid: f"{schema}.{name}" for oid, schema, name, *_ in relations}
    tables = tuple(_table(cursor, names, relation) for relation in relations)
    ((level,),) = _rows(cursor, "show wal_level")
    problem = f"wal_level of the database is {level}: its changes can be captured only with logical."
    return Catalog(tables, "postgresql", () if level == "logical" else (problem,))


def _table(cursor: Any, names: dict[int, str], relation: tuple[Any, ...]) -> CatalogTable:
    oid, _, _, identity, kind = relation
    indexes = list(_rows(cursor, INDEXES, (oid,)))
    is_primary, _, key = indexes[0] if indexes else (False, False, [])
    references = tuple(
        Reference(tuple(columns), names[other], tuple(referred))
        for other, columns, referred in _rows(cursor, REFERENCES, (oid,))
        if other in names
    )
    columns = list(_rows(cursor, COLUMNS, (oid,)))
    return CatalogTable(
        name=names[oid],
        columns=tuple((name, type_) for name, type_, is_generated in columns if not is_generated),
        key=tuple(key),
        is_primary=is_primary,
        identity=identity,
        references=references,
        is_partitioned=kind == "p",
        generated=tuple(name for name, _, is_generated in columns if is_generated),
    )


def _rows(cursor: Any, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    cursor.execute(sql, values or None)
    return iter(cursor.fetchall())
