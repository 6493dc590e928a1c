"""Tables of a declaration out of the catalog of a PostgreSQL database."""

from collections.abc import Iterator, Sequence

from txloom.config.models.column_types import KEYLESS
from txloom.config.problems import nearest
from txloom.errors import ConfigurationError
from txloom.steps.propose.database_types import proposed
from txloom.steps.propose.proposal import Column, ForeignKey, Table
from txloom.storage.sources.postgresql_catalog import Catalog, CatalogTable


def chosen(catalog: Catalog, names: Sequence[str]) -> list[CatalogTable]:
    """Return the tables with some names, with or without their schema; without names all.

    Raises ConfigurationError for a name that the database does not have.
    """
    tables = list[CatalogTable]()
    for name in names:
        fitting = [each for each in catalog.tables if name.lower() in (each.name.lower(), _short(each.name).lower())]
        if not fitting:
            near = nearest(name, [each.name for each in catalog.tables])
            hint = f" Did you mean {near!r}?" if near else ""
            raise ConfigurationError(f"--tables: found {name!r}, but the database has no such table.{hint}")
        tables += [each for each in fitting if each not in tables]
    return tables if names else list(catalog.tables)


def tables_of(tables: Sequence[CatalogTable]) -> list[Table]:
    """Return proposed tables."""
    return [_table(each) for each in tables]


def foreign_keys(tables: Sequence[CatalogTable]) -> Iterator[ForeignKey]:
    """Yield the foreign keys between tables that refer to the whole key of another one."""
    keys = {table.name: table.key for table in tables}
    for table in tables:
        for each in table.references:
            if each.table in keys and each.referred == keys[each.table] and table.key:
                yield ForeignKey(table.name, each.table, each.columns)


def _short(name: str) -> str:
    return name.partition(".")[2]


def _table(table: CatalogTable) -> Table:
    types = {name: proposed(kind) for name, kind in table.columns}
    columns = [Column(name, kind.type, kind.guess) for name, kind in types.items()]
    key, guess = list(table.key), "" if table.is_primary else "there is no primary key: this is a unique index"
    if unfit := [name for name in key if types[name].type.split("<")[0] in KEYLESS]:
        key, guess = [], f"{unfit[0]} is no type of a key: inserts only"
    elif not key:
        guess = "there is no key: inserts only, updates and deletes become dead letters"
    return Table(table.name, columns, key, guess, list(_notes(table)))


def _notes(table: CatalogTable) -> Iterator[str]:
    """Yield what the log lacks of a table, with the statement that repairs it."""
    if table.identity == "n" or (table.identity == "d" and not table.is_primary):
        repair = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"
        yield f"Its log has no keys of updates and deletes: {repair}, or USING INDEX."
    if table.is_partitioned:
        yield "It is partitioned: publish it as one table (publish_via_partition_root), or declare its partitions."
