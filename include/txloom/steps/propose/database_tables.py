"""Tables of a declaration out of the catalog of a database."""

from collections.abc import Callable, Iterator, Sequence

from txloom.steps.propose import database_types, mysql_types
from txloom.steps.propose.database_types import Proposed
from txloom.steps.propose.proposal import Column, ForeignKey, Table, fit
from txloom.storage.databases.database_catalog import Catalog, CatalogTable, Reference

Types = Callable[[str], Proposed]


def types_of(catalog: Catalog) -> Types:
    """Return what proposes the lake's type for a type of a database."""
    return database_types.proposed if catalog.database == "postgresql" else mysql_types.proposed


def tables_of(tables: Sequence[CatalogTable], proposed: Types) -> list[Table]:
    """Return proposed tables."""
    return [_table(each, proposed) for each in tables]


def foreign_keys(tables: Sequence[CatalogTable], proposed: Types) -> Iterator[ForeignKey]:
    """Yield the foreign keys between tables that refer to the whole key of another one."""
    known = {table.name: (table, _table(table, proposed)) for table in tables}
    seen = set[tuple[str, str, tuple[str, ...]]]()
    for table in tables:
        for each in table.references:
            parent, made = known.get(each.table, (None, None))
            if parent is None or made is None or tuple(made.key) != each.referred or not known[table.name][1].key:
                continue
            types = [proposed(dict(of.columns).get(name, "")).type for of, name in _pairs(table, parent, each)]
            name = (table.name, each.table, each.columns)
            if types[::2] == types[1::2] and name not in seen:
                seen.add(name)
                yield ForeignKey(*name)


def _pairs(table: CatalogTable, parent: CatalogTable, each: Reference) -> Iterator[tuple[CatalogTable, str]]:
    """Yield by turns a column of a foreign key and the one that it refers to."""
    for name, referred in zip(each.columns, each.referred, strict=True):
        yield table, name
        yield parent, referred


def _table(table: CatalogTable, proposed: Types) -> Table:
    every = {name: proposed(kind) for name, kind in table.columns}
    types = {name: kind for name, kind in every.items() if kind.type}
    left_out = [f"Its column {name!r} is left out: {kind.guess}." for name, kind in every.items() if not kind.type]
    columns = [Column(name, kind.type, kind.guess) for name, kind in types.items()]
    which = "it is the replica identity" if table.identity == "i" else "there is no primary key: this is a unique index"
    guess = "" if table.is_primary else which
    if not table.key:
        guess = "there is no key: inserts only, updates and deletes become dead letters"
    return fit(Table(table.name, columns, list(table.key), guess, [*_notes(table), *left_out]))


def _notes(table: CatalogTable) -> Iterator[str]:
    """Yield what the log lacks of a table, with the statement that repairs it."""
    if table.identity == "n" or (table.identity == "d" and not table.is_primary):
        repair = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"
        yield f"Its log has no keys of updates and deletes: {repair}, or USING INDEX."
    if table.generated:
        yield f"The log does not have its generated columns: {', '.join(table.generated)}."
    if table.is_partitioned:
        yield "It is partitioned: publish it as one table (publish_via_partition_root), or declare its partitions."
