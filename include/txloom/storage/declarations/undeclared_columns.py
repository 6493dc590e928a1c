"""Undeclared columns, which a source has added: tables with `undeclared_columns: evolve` adopt them.

An adopted column holds the source's values as text, under its source name in lower case. Where it is declared later, it
gets the declared type (`txloom.storage.delta.schema_evolution`).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

import pyarrow as pa

from txloom.config import names
from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.quality import findings as f
from txloom.storage.declarations.records import FROM_EARLIER, FROM_STREAM, Record, present_names, read
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.delta.sql import text_literal
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import EVOLVED_COLUMNS
from txloom.storage.targets import schemas


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


@dataclass(frozen=True)
class Adopted:
    """A column that a table took up by itself: one row of `evolved_columns`."""

    table: str
    """The name of the table then."""
    column: str
    source: str
    since_csn: int
    added_at: datetime


def adopted(paths: TablePaths) -> list[Adopted]:
    """Return every column that a table took up by itself, in the order in which they were taken up."""
    columns = ", ".join(f'"{field.name}"' for field in fields(Adopted))
    rows = small_tables.query(paths.table(names.EVOLVED_COLUMNS), f"select {columns} from t order by added_at")
    return [Adopted(**row) for row in rows]


def effective_pipeline(pipeline: Pipeline, paths: TablePaths) -> Pipeline:
    """Return the pipeline with what its lake knows.

    These are the columns that its tables have adopted, under their present or an earlier name; and, where images are
    read by the names of fields, the former names.
    """
    if pipeline.source.format == "change_sets":
        pipeline = landing_plan.as_landed(pipeline, paths)
    adopted_rows = small_tables.query(
        paths.table(names.EVOLVED_COLUMNS), 'select "table", "column", source from t order by added_at'
    )
    if not adopted_rows:
        return pipeline
    known = read(paths)
    called = present_names(pipeline, known)
    added = [(called.get(row["table"], row["table"]), row["column"], row["source"]) for row in adopted_rows]
    watched = {table.name for table in pipeline.tables}
    kept = [each for each in added if each[0] in watched and not _is_held_otherwise(pipeline, paths, known, *each)]
    return with_columns(pipeline, kept)


def with_columns(pipeline: Pipeline, added: Iterable[tuple[str, str, str]]) -> Pipeline:
    """Return a pipeline with more columns of text; columns that are declared stay as they are.

    added: (table, column, source name) of each; those of tables that are not watched are left out.
    """
    tables = {table.name: table for table in pipeline.tables}
    for name, column, source in added:
        if (table := tables.get(name)) is not None and not _is_declared(table, column, source):
            new = Column(name=column, type=ColumnType("string"), source=source)
            tables[name] = table.model_copy(update={"columns": (*table.columns, new)})
    return pipeline.model_copy(update={"tables": tuple(tables.values())})


def _is_held_otherwise(
    pipeline: Pipeline, paths: TablePaths, known: Iterable[Record], name: str, column: str, source: str
) -> bool:
    """Return whether the lake's tables hold a conflicting column of this name.

    Such a column has a type other than text, another source, or a name that differs only in case.
    """
    table = pipeline.table(name)
    for record in known:
        if record.declaration["source"] == table.source:
            _, earlier = record.declaration["columns"].get(column, ("", source))
            if earlier.casefold() != source.casefold():
                return True
    stored = [*_stored(pipeline, paths, name)]
    if any(schema_evolution.find_alike(column, fields) for fields in stored):
        return True
    return any(not pa.types.is_string(fields[column]) for fields in stored if column in fields)


def _stored(pipeline: Pipeline, paths: TablePaths, name: str) -> Iterator[dict[str, pa.DataType]]:
    """Yield the types of the columns that each history and each current table has of a source table."""
    for mirror in pipeline.targets.mirrors:
        if mirror.table == name:
            yield from (_types(paths, table) for table in (mirror.history, mirror.current))
    for aggregate in pipeline.targets.aggregates:
        fields = {field for member, field in schemas.members_of(aggregate) if member == name}
        if aggregate.root == name:
            yield _types(paths, aggregate.current)
        for of_table in (_types(paths, aggregate.history), _types(paths, aggregate.current)):
            for kind in (of_table[field] for field in fields if field in of_table):
                struct = kind.value_type if pa.types.is_list(kind) else kind
                yield {each.name: each.type for each in struct.fields} if pa.types.is_struct(struct) else {}


def _types(paths: TablePaths, table: str) -> dict[str, pa.DataType]:
    path = paths.table(table)
    schema = arrow_tables.plain_schema(small_tables.schema_of(path)) if exists(path) else ()
    return {field.name: field.type for field in schema}


def _is_declared(table: Table, column: str, source: str) -> bool:
    known = {name.casefold() for column in table.columns for name in (column.name, *column.sources)}
    return column.casefold() in known or source.casefold() in known


def columns_to_adopt(
    pipeline: Pipeline, paths: TablePaths, undeclared: Iterable[Undeclared]
) -> list[tuple[Undeclared, str]]:
    """Return the undeclared columns that their tables adopt, each with its column name.

    Left out are columns of tables without `undeclared_columns: evolve`, and names that are taken or not possible. A
    name is also taken if the lake's tables hold a column of this name with a type other than text, or from another
    source. A column whose name differs only in case takes it too.
    """
    chosen: dict[tuple[str, str], tuple[Undeclared, str]] = {}
    evolving = [each for each in undeclared if pipeline.table(each.table).undeclared_columns == "evolve"]
    known = read(paths) if evolving else []
    for each in sorted(evolving, key=lambda each: (each.csn, each.source)):
        table, column = pipeline.table(each.table), lake_name(each.source)
        if column is None or _is_declared(table, column, each.source) or (each.table, column) in chosen:
            continue
        taken = column in _fields_of_children(pipeline, each.table)
        if not taken and not _is_held_otherwise(pipeline, paths, known, each.table, column, each.source):
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


def first_seen(paths: TablePaths, tables: Iterable[str], source: str, *, but: int | None = None) -> int | None:
    """Return the csn of the first event that had an undeclared column; None where none was seen.

    Args:
        paths: the tables of the pipeline.
        tables: every name of the column's table.
        source: the column's name in the source, in lower case.
        but: the csn of the event by which the table took the column up, which does not count.
    """
    named = f'lower("column") = {text_literal(source)} and "table" in ({", ".join(map(text_literal, sorted(tables)))})'
    named += "" if but is None else f" and since_csn <> {but}"
    sql = f"select min(since_csn) as first from t where code = {text_literal(f.ADDED)} and {named}"
    rows = small_tables.query(paths.table(names.FINDINGS), sql)
    first: int | None = rows[0]["first"] if rows else None
    return first


def listed_since(pipeline: Pipeline, paths: TablePaths, history: str) -> dict[str, dict[str, tuple[int, int | None]]]:
    """Return since when inserts of a history list a column that they lack.

    Inserts do not list columns that were declared or taken up after the inserts were released, unless the
    inserts were made again. Columns that the history's first record declared are left out, because every insert lists
    them.

    Args:
        pipeline: the declaration with the columns that tables took up.
        paths: the tables of the pipeline.
        history: the history.

    Returns:
        by the field with a member's changes ("" for a mirror's history), and then by column: the newest release
        before the column was declared, and the csn of the first event that had it. The csn is None if no event had it.
    """
    members = {mirror.table: "" for mirror in pipeline.targets.mirrors if mirror.history == history}
    for aggregate in pipeline.targets.aggregates:
        members |= dict(schemas.members_of(aggregate)) if aggregate.history == history else {}
    known, taken_up = read(paths), adopted(paths)
    listed = dict[str, dict[str, tuple[int, int | None]]]()
    for member, field in members.items():
        table = pipeline.table(member)
        of_source = [each for each in known if each.declaration["source"] == table.source]
        names_of = {each.pair[1] for each in of_source}
        of_history = [each for each in of_source if each.table == history]
        listed[field] = {}
        # The history of a lake without records was written as it is declared.
        for column in table.columns if of_history else ():
            sources = {each.casefold() for each in column.sources}
            release = _release_before(paths, of_history, [each for each in taken_up if each.table in names_of], sources)
            if release:
                firsts = [first_seen(paths, names_of, each) for each in sources]
                first = min((each for each in firsts if each is not None), default=None)
                listed[field][column.name] = release, first
    return listed


def _release_before(
    paths: TablePaths, of_history: Iterable[Record], taken_up: Iterable[Adopted], sources: Collection[str]
) -> int:
    """Return the newest release before a column of a history was declared or taken up; 0 if there is none.

    Args:
        paths: the tables of the pipeline.
        of_history: the records of the column's table in the history, in order.
        taken_up: the columns that the table took up.
        sources: the names of the column in the source, in lower case.
    """
    for record in of_history:
        if any(source.casefold() in sources for _, source in record.declaration["columns"].values()):
            return 0 if record.reason in (FROM_STREAM, FROM_EARLIER) else record.release
    csns = [each.since_csn for each in taken_up if each.source.casefold() in sources]
    where = f"status = 'released' and csn = {min(csns)}" if csns else "false"
    sql = f"select min(release) - 1 as before from t where {where}"
    (row,) = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    before: int = names.HIGHEST_RELEASE if row["before"] is None else row["before"]
    return before
