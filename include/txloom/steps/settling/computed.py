"""Which current tables a merge computes anew, because their declaration or a history changed, or they were lost."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations import marks
from txloom.storage.declarations import records as r
from txloom.storage.declarations.marks import Marked
from txloom.storage.declarations.records import Pair, State
from txloom.storage.delta import arrow_tables, small_tables, table_metadata
from txloom.storage.delta.read_session import exists
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import row_tables


@dataclass(frozen=True)
class Computed:
    """What the current tables of a merge are computed from.

    Args:
        stamp: the stamp of the declaration, which the tables get; "" while a history is not complete, so that the next
            merge compares again.
        marks: by current table, its mark.
        anew: the source tables whose rows are computed from all of history, and the current tables whose documents all
            are composed.
        unstamped: the current tables that do not have their mark and stamp yet.
    """

    stamp: str = ""
    marks: Mapping[str, str | None] = field(default_factory=dict)
    anew: Collection[str] = ()
    unstamped: Collection[str] = ()

    def metadata(self, table: str) -> dict[str, Any]:
        """Return the entries of userMetadata that say what a current table is computed from."""
        mark = self.marks.get(table)
        return {} if mark is None else marks.metadata_of(mark, self.stamp)


def are_compared(pipeline: Pipeline, paths: TablePaths, stamp: str) -> bool:
    """Return whether all current tables were compared with a declaration; stamp: that of the declaration."""
    return all(marked.stamp == stamp for marked in marks.readable(paths, _current_tables(pipeline)).values())


def computed_as_before(pipeline: Pipeline, paths: TablePaths, stamp: str) -> Computed:
    """Return what tables are computed from while no record is new: their marks stay.

    Only documents that are behind the rows that they are composed of are computed anew.
    """
    known = marks.readable(paths, _current_tables(pipeline))
    behind = set(_documents_behind(pipeline, paths, known))
    return Computed(stamp, {name: marked.mark for name, marked in known.items()}, behind)


def compare(pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State], stamp: str) -> Computed:
    """Compare the marks of all current tables with what the records of their histories ask for.

    Args:
        pipeline: the declaration, with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
        stamp: the stamp of the declaration.
    """
    bases = {pair: state.basis for pair, state in states.items()}
    earlier = {pair: _basis_before_records(state) for pair, state in states.items()}
    expected, anew, unstamped = dict[str, str | None](), set[str](), set[str]()
    known = marks.readable(paths, _current_tables(pipeline))
    for row_table in row_tables(pipeline):
        name = row_table.current
        if (marked := known.get(name)) is None:
            continue
        expected[name] = marks.row_mark(row_table, bases)
        is_other = _is_other(marked, expected[name], marks.row_mark(row_table, earlier))
        if is_other or (marked.is_new and not _has_schema(paths.table(name), row_table.schema)):
            anew.add(row_table.table.name)
        if (marked.mark, marked.stamp) != (expected[name], stamp):
            unstamped.add(name)
    for aggregate in pipeline.targets.aggregates:
        name, path = aggregate.current, paths.table(aggregate.current)
        if (marked := known.get(name)) is None:
            continue
        schema = schemas.document_schema(pipeline, aggregate)
        expected[name] = marks.document_mark(pipeline, aggregate, bases)
        is_other = _is_other(marked, expected[name], marks.document_mark(pipeline, aggregate, earlier))
        is_earlier = marked.mark is None and not marked.is_new and not _has_columns(path, schema.names)
        if is_other or is_earlier or (marked.is_new and not _has_schema(path, schema)):
            anew.add(name)
        if (marked.mark, marked.stamp) != (expected[name], stamp):
            unstamped.add(name)
    return Computed(stamp, expected, anew | set(_documents_behind(pipeline, paths, known)), unstamped)


def stamp_tables(paths: TablePaths, computed: Computed) -> None:
    """Give current tables that no merge wrote their mark and stamp, each by a commit that changes no row."""
    for name in sorted(computed.unstamped):
        path = paths.table(name)
        about = table_metadata.newest_metadata(path)
        if exists(path) and about | computed.metadata(name) != about:
            table_metadata.stamp(path, about | computed.metadata(name))


def _current_tables(pipeline: Pipeline) -> list[str]:
    """Return the names of all current tables, also of those that are kept for documents alone."""
    documents = [aggregate.current for aggregate in pipeline.targets.aggregates]
    return [*documents, *(row_table.current for row_table in row_tables(pipeline))]


def _is_other(marked: Marked, expected: str | None, before_marks: str) -> bool:
    """Return whether a table was computed from something else than its mark is to say.

    before_marks: the mark of a table that an earlier version merged.
    """
    if marked.mark is not None:
        return marked.mark != expected
    return not marked.is_new and before_marks != expected


def _basis_before_records(state: State) -> int:
    """Return the basis of tables that were merged before there were records; -1 for a history without such rows."""
    settled = state.settled
    return (settled.basis or 0) if settled is not None and settled.reason == r.FROM_EARLIER else -1


def _has_schema(path: str, schema: pa.Schema) -> bool:
    """Return whether a table has exactly the columns of a schema, or does not exist yet."""
    if not exists(path):
        return True
    has, declared = (arrow_tables.plain_schema(each) for each in (small_tables.schema_of(path), schema))
    return set(has) == set(declared)


def _has_columns(path: str, columns: Collection[str]) -> bool:
    return set(columns) <= {*arrow_tables.plain_schema(small_tables.schema_of(path)).names}


def _documents_behind(pipeline: Pipeline, paths: TablePaths, readable: Collection[str]) -> Iterator[str]:
    """Yield the document tables that lack changes of their rows: they were lost, restored, or declared later.

    readable: the current tables whose logs can be read.
    """
    current = {row_table.table.name: row_table.current for row_table in row_tables(pipeline)}
    for aggregate in pipeline.targets.aggregates:
        tables = [current[name] for name, _ in schemas.members_of(aggregate)]
        if not {aggregate.current, *tables} <= set(readable):
            continue
        members = [watermark_of(paths.table(name)) for name in tables]
        if watermark_of(paths.table(aggregate.current)) < max(members):
            yield aggregate.current
