"""Read tables of a pipeline: as of any csn or moment, the intervals of their rows, or the versions of a cut.

    from txloom import read

    read.as_of("orders", "orders_current", csn=34455408, warehouse="/lake")         # documents as of a csn
    read.as_of("orders", "orders", time=datetime(2026, 1, 31, tzinfo=UTC))           # a mirror as of a moment
    read.intervals("orders", "orders", untracked=["notes"])                          # SCD2: valid from, valid to
    read.versions("orders")                                                          # {table: Delta version} of a cut

Rows come as Arrow tables, without Spark; `as_of` and `intervals` compute them from history. pipeline is the name or the
file of a declaration, or a loaded one; warehouse is TXLOOM_WAREHOUSE unless it is given. Every function raises
ConfigurationError for a pipeline that is not declared, and without a warehouse.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import find
from txloom.config.models.pipeline import Aggregate, Pipeline, Table
from txloom.current.documents.compose import documents
from txloom.current.documents.document_versions import document_intervals
from txloom.current.folding.fold import fold
from txloom.current.versions import intervals as intervals_of
from txloom.current.versions import versions as versions_of
from txloom.errors import ConfigurationError
from txloom.storage.declarations import records
from txloom.storage.declarations.incomplete import refuse_incomplete
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.edits.pending_edits import refuse_pending
from txloom.storage.landing.connector_snapshots import refuse_mixed
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import history_reader, schemas
from txloom.storage.targets.row_tables import RowTable, member_of, row_tables


def as_of(
    pipeline: str | Pipeline,
    table: str,
    *,
    csn: int | None = None,
    time: datetime | None = None,
    warehouse: str | None = None,
) -> pa.Table:
    """Return a current table as it was at a csn, or at a moment in the source's commit time.

    Args:
        pipeline: The name or the file of a declaration, or a loaded one.
        table: The name of a mirror's or an aggregate's current table.
        csn: The csn; exactly one of csn and time must be given.
        time: The moment: up to the last transaction, in commit order, that was committed by then.
        warehouse: The warehouse; by default TXLOOM_WAREHOUSE.

    Returns:
        The rows in the schema of the current table, ordered by key.

    Raises:
        BeyondValidThrough: The csn is above valid-through.
        BeforeHistory: The csn is below what maintenance cleaned from history, or the history lacks changes at or below
            it because the declaration changed, or the csn lies between a connector's snapshot that was given up and the
            one that was taken instead.
        ConfigurationError: The pipeline does not have the table.
        ValueError: Not exactly one of csn and time was given.
    """
    declared, paths = _opened(pipeline, warehouse)
    upto = history_reader.watermark_at(paths, csn, time)
    refuse_mixed(declared, paths, upto.valid_through)
    aggregate = _aggregate(declared, table)
    if aggregate is None:
        row_table = _row_table(declared, paths, table)
        _refuse_gone(declared, paths, [row_table], upto)
        return _folded(paths, row_table, upto)
    of_members = {name: _row_table_of(declared, name) for name in _members(aggregate)}
    _refuse_gone(declared, paths, of_members.values(), upto)
    members = {name: _folded(paths, row_table, upto) for name, row_table in of_members.items()}
    root = declared.table(aggregate.root)
    children = [(member_of(declared.table(child.table), child), members[child.table]) for child in aggregate.children]
    composed = documents(members[root.name], children, root.key, root.column_names)
    return arrow_tables.conform(composed, schemas.document_schema(declared, aggregate))


def intervals(
    pipeline: str | Pipeline,
    table: str,
    *,
    untracked: Collection[str] = (),
    warehouse: str | None = None,
) -> pa.Table:
    """Return the intervals of a current table's rows, up to valid-through (SCD2).

    Args:
        pipeline: The name or the file of a declaration, or a loaded one.
        table: The name of a mirror's or an aggregate's current table.
        untracked: Columns of a mirror whose changes begin no new interval.
        warehouse: The warehouse; by default TXLOOM_WAREHOUSE.

    Returns:
        One row per interval: the declared columns, `_txloom_valid_from` and `_txloom_valid_to` (csn; a row holds from
        the first up to, but not including, the second, which is null for rows that still hold), the same in commit time
        with `_time` at the end, and `_txloom_is_current`. Where maintenance cleaned history, intervals that ended
        before that are missing, and those that began before it may have a later beginning. So it is below the csn from
        which on a history is complete.

    Raises:
        BeforeHistory: The history is not complete, because the declaration changed, or it lacks a column that the next
            cycle brings.
        ConfigurationError: The pipeline does not have the table, or the table not the untracked columns.
    """
    declared, paths = _opened(pipeline, warehouse)
    upto = history_reader.known(paths)
    aggregate = _aggregate(declared, table)
    if aggregate is None:
        row_table = _row_table(declared, paths, table)
        _refuse_lacking(declared, paths, [row_table], upto)
        _refuse_unknown(untracked, row_table.table)
        versions = _versions(paths, row_table, upto)
        return intervals_of(versions, key=row_table.key, columns=row_table.table.column_names, untracked=untracked)
    if untracked:
        raise ConfigurationError(f"{table}: columns can be left untracked in mirrors, not in documents")
    root = declared.table(aggregate.root)
    of_members = {name: _row_table_of(declared, name) for name in _members(aggregate)}
    _refuse_lacking(declared, paths, of_members.values(), upto)
    children = [
        (member_of(declared.table(child.table), child), _versions(paths, of_members[child.table], upto))
        for child in aggregate.children
    ]
    rows = _versions(paths, of_members[root.name], upto)
    return document_intervals(
        rows, root.key, root.column_names, children, pa.schema(schemas.document_fields(declared, aggregate))
    )


def versions(pipeline: str | Pipeline, *, cut_id: int | None = None, warehouse: str | None = None) -> dict[str, int]:
    """Return the Delta version of every current table in a published cut; the newest cut unless cut_id is given.

    Tables read at these versions show one moment of the source. The result is empty where there is no such cut. Raises
    CutReplaced where a table was written anew since, so that its version of that number is another.
    """
    _, paths = _opened(pipeline, warehouse)
    cut = reader_holds.published(paths, cut_id)
    if cut is None:
        return {}
    reader_holds.refuse_replaced(paths, cut)
    return dict(cut.versions)


@contextmanager
def held(
    pipeline: str | Pipeline,
    *,
    reader: str,
    cut_id: int | None = None,
    hours: float = 24,
    warehouse: str | None = None,
) -> Iterator[reader_holds.Cut]:
    """Hold a published cut while a block runs, so that vacuum keeps its files.

    Args:
        pipeline: The name or the file of a declaration, or a loaded one.
        reader: The name under which the hold is listed, such as a DAG's id.
        cut_id: The cut; by default the newest.
        hours: After how many hours the hold ends by itself, so that a reader that died does not keep files for ever.
        warehouse: The warehouse; by default TXLOOM_WAREHOUSE.

    Yields:
        The cut.

    Raises:
        ConfigurationError: There is no such cut, or vacuum may have begun to remove its files.
        CutReplaced: One of its tables was written anew since.
    """
    declared, paths = _opened(pipeline, warehouse)
    cut = reader_holds.published(paths, cut_id)
    if cut is None:
        raise ConfigurationError(
            f"pipeline {declared.name} has published no cut{'' if cut_id is None else f' {cut_id}'}"
        )
    reader_holds.hold(paths, reader, cut, datetime.now(UTC) + timedelta(hours=hours))
    try:
        reader_holds.refuse_replaced(paths, cut)
        retain = declared.maintenance.vacuum.retain
        if cut_id is not None and (old := reader_holds.vacuumed(paths, cut, retain)):
            raise ConfigurationError(f"cut {cut_id} is older than vacuum keeps ({', '.join(old)}): hold a newer one")
        yield cut
    finally:
        reader_holds.release(paths, reader, cut)


def at_version(
    pipeline: str | Pipeline,
    table: str,
    version: int,
    *,
    cut: reader_holds.Cut | None = None,
    warehouse: str | None = None,
) -> pa.Table:
    """Return a table's rows at a Delta version, such as one of `versions`.

    cut: the cut that names the version, such as the one from `held`. With it, CutReplaced is raised where the table was
    written anew since.
    """
    _, paths = _opened(pipeline, warehouse)
    if cut is not None:
        reader_holds.refuse_replaced(paths, cut, [table])
    return arrow_tables.select(paths.table(table), "select * from t", version)


def _opened(pipeline: str | Pipeline, warehouse: str | None) -> tuple[Pipeline, TablePaths]:
    declared = pipeline if isinstance(pipeline, Pipeline) else find(pipeline, connected=False)
    where = warehouse or os.environ.get("TXLOOM_WAREHOUSE")
    if not where:
        raise ConfigurationError("no warehouse: pass warehouse or set TXLOOM_WAREHOUSE")
    paths = TablePaths(where, declared.name)
    return effective_pipeline(declared, paths), paths


def _aggregate(pipeline: Pipeline, table: str) -> Aggregate | None:
    return next((each for each in pipeline.targets.aggregates if each.current == table), None)


def _row_table(pipeline: Pipeline, paths: TablePaths, table: str) -> RowTable:
    mirrors = {row_table.current: row_table for row_table in row_tables(pipeline) if row_table.mirror is not None}
    if table not in mirrors:
        known = ", ".join(sorted([*mirrors, *(each.current for each in pipeline.targets.aggregates)]))
        in_cut = f"map_extract(versions, {text_literal(table)})[1]"
        cut = newest_cut(paths, f"cut_id, valid_through, {in_cut} as version", f"{in_cut} is not null")
        if cut is None:
            raise ConfigurationError(f"pipeline {pipeline.name} has no current table {table!r}; it has {known}")
        raise ConfigurationError(
            f"pipeline {pipeline.name} has no current table {table!r}: the declaration does not have it any more. Cut "
            f"{cut['cut_id']}, as of csn {cut['valid_through']}, is the newest cut with the table: "
            f"read.at_version(..., {table!r}, {cut['version']}) returns its rows until vacuum removes them. The "
            f"pipeline has {known}"
        )
    return mirrors[table]


def _row_table_of(pipeline: Pipeline, source_table: str) -> RowTable:
    return next(row_table for row_table in row_tables(pipeline) if row_table.table.name == source_table)


def _members(aggregate: Aggregate) -> list[str]:
    return [aggregate.root, *(child.table for child in aggregate.children)]


def _refuse_gone(pipeline: Pipeline, paths: TablePaths, read_tables: Collection[RowTable], upto: Watermark) -> None:
    """Raise BeforeHistory where a history has not every change up to a watermark."""
    for row_table in read_tables:
        history_reader.refuse_cleaned(paths, row_table, upto)
    _refuse_lacking(pipeline, paths, read_tables, upto)


def _refuse_lacking(pipeline: Pipeline, paths: TablePaths, read_tables: Collection[RowTable], upto: Watermark) -> None:
    """Raise BeforeHistory where a history lacks changes or columns because the declaration changed."""
    states = records.states(records.read(paths))
    refuse_incomplete(states, read_tables, upto.valid_through)
    refuse_pending(pipeline, paths, states, read_tables)


def _folded(paths: TablePaths, row_table: RowTable, upto: Watermark) -> pa.Table:
    empty = schemas.current_schema(row_table.table).empty_table()
    folded = fold(
        empty, history_reader.changes(paths, row_table, upto), key=row_table.key, columns=row_table.table.column_names
    )
    rows = folded.filter(pc.invert(folded.column("_txloom_deleted"))).select(empty.schema.names)
    return rows.sort_by([(name, "ascending") for name in row_table.key])


def _versions(paths: TablePaths, row_table: RowTable, upto: Watermark) -> pa.Table:
    schema = schemas.current_schema(row_table.table)
    return versions_of(
        history_reader.changes(paths, row_table, upto),
        key=row_table.key,
        columns=row_table.table.column_names,
        schema=schema,
    )


def _refuse_unknown(columns: Collection[str], table: Table) -> None:
    for name in columns:
        if name not in table.column_names or name in table.key:
            plain = [column for column in table.column_names if column not in table.key]
            raise ConfigurationError(f"{table.name} has no plain column {name!r}; it has {', '.join(plain)}")
