"""Marks of current tables: what a table was computed from, in the userMetadata of its commits.

A mark names the history of each member and its basis (`records.Record`), and how rows become the table. A table whose
mark is another one than its declaration asks for is computed again from history, in one commit.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError

from txloom.config.contents import digest_of
from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations import records as r
from txloom.storage.declarations.earlier_steps import is_buffered
from txloom.storage.declarations.records import Pair, State
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import STAMP
from txloom.storage.targets.row_tables import RowTable, row_tables

MARK = "mark"
"""The entry of a current table's userMetadata with its mark; that of its declaration is STAMP."""


@dataclass(frozen=True)
class Marked:
    """What the newest commit of a current table says; mark: None for a table of before marks, or an empty new one."""

    mark: str | None
    stamp: str
    is_new: bool
    """No merge has written it yet: its first version is empty."""


def read_mark(path: str) -> Marked:
    """Return the mark of a current table; of one that does not exist, that of an empty new one."""
    about = newest_metadata(path)
    return Marked(about.get(MARK), about.get(STAMP, ""), not about.get("release") and not about.get("valid_through"))


def readable(paths: TablePaths, tables: Iterable[str]) -> dict[str, Marked]:
    """Return by name the marks of current tables; one whose log cannot be read is left out, and its merge fails."""
    read: dict[str, Marked] = {}
    for name in tables:
        with suppress(DeltaError):
            read[name] = read_mark(paths.table(name))
    return read


def row_mark(row_table: RowTable, bases: Mapping[Pair, int]) -> str:
    """Return the mark that a row table has to have; bases: by history and member."""
    return digest_of({"rows": _source(row_table, bases), "partitions": str(_partitions(row_table))})


def document_mark(pipeline: Pipeline, aggregate: Aggregate, bases: Mapping[Pair, int]) -> str:
    """Return the mark that a document table has to have; bases: by history and member."""
    tables = {row_table.table.name: row_table for row_table in row_tables(pipeline)}
    children = [[each.table, each.as_, each.relation, list(each.parent_key)] for each in aggregate.children]
    members = [aggregate.root, *(each.table for each in aggregate.children)]
    sources = {name: _source(tables[name], bases) for name in members}
    return digest_of({"root": aggregate.root, "children": children, "rows": sources})


def metadata_of(mark: str, stamp: str) -> dict[str, Any]:
    """Return the entries of a commit's userMetadata."""
    return {MARK: mark, STAMP: stamp}


def _source(row_table: RowTable, bases: Mapping[Pair, int]) -> list[Any]:
    pair = (row_table.history, row_table.table.name)
    return [*pair, bases.get(pair, 0)]


def _partitions(row_table: RowTable) -> str:
    return "" if row_table.partitions is None else str(row_table.partitions.declared)


def outdated_tables(declared: Pipeline, paths: TablePaths) -> set[str]:
    """Return the source tables whose current rows no merge has computed by the present declaration yet.

    Args:
        declared: the declaration, without columns that tables took up.
        paths: the tables of the pipeline.
    """
    seen = buffer_state(paths)
    if seen is not None and not is_buffered(declared, seen):
        return {table.name for table in declared.tables}
    pipeline, states = effective_pipeline(declared, paths), r.states(r.read(paths))
    fed = {each.table.name: (each.history, each.table.name) for each in row_tables(pipeline)}
    is_open = {name for name, pair in fed.items() if pair in states and states[pair].is_open}
    return is_open | differing_tables(pipeline, paths, states)


def differing_tables(pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State]) -> set[str]:
    """Return the source tables whose current rows have another mark than the records of their histories require.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        states: of each history's member.
    """
    bases = {pair: state.basis for pair, state in states.items()}
    marked = {each.table.name: (read_mark(paths.table(each.current)).mark, each) for each in row_tables(pipeline)}
    return {name for name, (mark, each) in marked.items() if mark not in (None, row_mark(each, bases))}
