"""The catalog of a database, whichever it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A foreign key: its columns, the table that it refers to, and the columns there."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...]


@dataclass(frozen=True)
class CatalogTable:
    """A table of a database.

    name: with its schema. columns: name and type, as the database writes it, in order. generated: columns that the log
    does not have. key: the columns of its replica identity's index, or of its primary key, or of another unique index;
    is_primary: whether of the primary key. identity: d, f, n or i, as pg_class.relreplident says of PostgreSQL's
    tables; f, whole rows, of others.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    is_primary: bool
    identity: str
    references: tuple[Reference, ...]
    is_partitioned: bool
    generated: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """The tables of a database; database: what Debezium calls its kind. problems: of its log, a sentence each."""

    tables: tuple[CatalogTable, ...]
    database: str
    problems: tuple[str, ...] = ()
