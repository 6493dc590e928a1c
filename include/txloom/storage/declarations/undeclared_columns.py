"""Undeclared columns, which a source has added: tables with `undeclared_columns: evolve` adopt them.

An adopted column holds the source's values as text, under its source name in lower case, or with the type that it was
declared with before. Where it is declared later, it gets the declared type (`txloom.storage.delta.schema_evolution`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from txloom.config import names
from txloom.config.models.column_types import ColumnType, parse
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Record
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import EVOLVED_COLUMNS


@dataclass(frozen=True)
class Undeclared:
    """An undeclared column of a table's rows."""

    table: str
    source: str
    """The column's name as the source writes it."""
    csn: int
    """The csn of the first transaction that had it."""
    xid: str
    """The id of that transaction."""


def effective_pipeline(pipeline: Pipeline, paths: TablePaths) -> Pipeline:
    """Return the pipeline with the undeclared columns that its tables have adopted, also under other names."""
    adopted_rows = small_tables.query(
        paths.table(names.EVOLVED_COLUMNS), 'select "table", "column", source from t order by added_at'
    )
    if not adopted_rows:
        return pipeline
    known = r.read(paths)
    called = r.present_names(pipeline, known)
    added = [(called.get(row["table"], row["table"]), row["column"], row["source"]) for row in adopted_rows]
    return with_columns(pipeline, added, known)


def with_columns(pipeline: Pipeline, added: Iterable[tuple[str, str, str]], known: Iterable[Record]) -> Pipeline:
    """Return a pipeline with more columns, of text or of the type that each was declared with last.

    Columns that are declared stay as they are.

    Args:
        pipeline: the declaration.
        added: (table, column, source name) of each; those of tables that are not watched are left out.
        known: the records of what was declared before.
    """
    tables, types = {table.name: table for table in pipeline.tables}, _declared_before(known)
    for name, column, source in added:
        if (table := tables.get(name)) is not None and not _is_declared(table, column, source):
            kind = types.get((table.source, column.casefold(), source.casefold()), ColumnType("string"))
            new = Column(name=column, type=kind, source=source)
            tables[name] = table.model_copy(update={"columns": (*table.columns, new)})
    return pipeline.model_copy(update={"tables": tuple(tables.values())})


def _declared_before(known: Iterable[Record]) -> dict[tuple[str, str, str], ColumnType]:
    """Return the type that each column was declared with last, by its table's source, its name and its source."""
    return {
        (record.declaration["source"], name.casefold(), source.casefold()): parse(kind)
        for record in known
        for name, (kind, source) in record.declaration["columns"].items()
    }


def _is_declared(table: Table, column: str, source: str) -> bool:
    known = {name for column in table.columns for name in (column.name.casefold(), column.source.casefold())}
    return column.casefold() in known or source.casefold() in known


def columns_to_adopt(pipeline: Pipeline, undeclared: Iterable[Undeclared]) -> list[tuple[Undeclared, str]]:
    """Return the undeclared columns that their tables adopt, each with its column name.

    Left out are columns of tables without `undeclared_columns: evolve`, and names that are taken or not possible.
    """
    chosen: dict[tuple[str, str], tuple[Undeclared, str]] = {}
    for each in sorted(undeclared, key=lambda each: (each.csn, each.source)):
        table, column = pipeline.table(each.table), lake_name(each.source)
        taken = column is None or _is_declared(table, column, each.source) or (each.table, column) in chosen
        taken = taken or column in _fields_of_children(pipeline, each.table)
        if table.undeclared_columns == "evolve" and column is not None and not taken:
            chosen[each.table, column] = each, column
    return list(chosen.values())


def _fields_of_children(pipeline: Pipeline, root: str) -> set[str]:
    """Return the names that a document gives to the children of a root."""
    aggregates = (aggregate for aggregate in pipeline.targets.aggregates if aggregate.root == root)
    return {child.as_.casefold() for aggregate in aggregates for child in aggregate.children}


def lake_name(source: str) -> str | None:
    """Return the column name of an undeclared column, of its source name; None where there is no valid one.

    >>> lake_name("GIFT_NOTE"), lake_name("Größe in cm"), lake_name("_txloom_csn")
    ('gift_note', 'gr__e_in_cm', None)
    """
    name = re.sub(r"[^a-z0-9_]", "_", source.lower())[:100]
    fits = re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None
    return name if fits and not name.startswith(names.SYSTEM_PREFIX) else None


def record_adopted(paths: TablePaths, columns: Sequence[tuple[Undeclared, str]]) -> None:
    """Record columns that tables adopt; a repeated call writes nothing."""
    path, now = paths.table(names.EVOLVED_COLUMNS), datetime.now(UTC)
    small_tables.ensure(path, EVOLVED_COLUMNS)
    known = {(row["table"], row["column"]) for row in small_tables.query(path, 'select "table", "column" from t')}
    rows = [
        {"table": each.table, "column": column, "source": each.source, "since_csn": each.csn, "added_at": now}
        for each, column in columns
        if (each.table, column) not in known
    ]
    if rows:
        small_tables.append(path, rows, EVOLVED_COLUMNS)
