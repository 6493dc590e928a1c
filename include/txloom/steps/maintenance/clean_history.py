"""clean_history: remove superseded rows from the histories of mirrors, as far as the declaration allows.

An aggregate's stream is kept whole: its rows are transactions, which have changes of many keys. So is the history of a
table without a key, where no row supersedes another.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from txloom.config.models.pipeline import Pipeline
from txloom.steps.parallel import Failures
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations import records
from txloom.storage.declarations.earlier_steps import is_buffered
from txloom.storage.declarations.records import Pair
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.maintenance import history_cleaning, history_retention
from txloom.storage.maintenance.history_cleaning import Cleaning
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable, row_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def clean_history(step: Step) -> dict[str, int]:
    """Clean the history of every mirror; a table that fails stops no other. A repeated call removes nothing more.

    Returns:
        tables: how many were examined. cleaned: how many lost rows. rows_before and rows_after: of all of them.
        horizon: the csn up to which rows may go.

    Raises:
        TablesFailed: if some histories could not be cleaned; the others were.
    """
    pipeline, paths = step.pipeline, step.paths
    counts = {"tables": 0, "cleaned": 0, "rows_before": 0, "rows_after": 0, "horizon": 0}
    keep = pipeline.maintenance.history.keep
    if keep is None:
        return counts
    counts["horizon"] = history_retention.horizon(paths, keep, pipeline.maintenance.vacuum.retain, datetime.now(UTC))
    failures = Failures()
    as_declared = _as_declared(pipeline, paths)
    cleanable = [
        row_table
        for row_table in row_tables(effective_pipeline(pipeline, paths))
        if _has_superseded(row_table, paths) and (row_table.history, row_table.table.name) in as_declared
    ]
    sizes = failures.attempt(
        {row_table.table.name: partial(history_cleaning.rows, paths, row_table) for row_table in cleanable}
    )
    known = {row_table.table.name: row_table for row_table in cleanable if row_table.table.name in sizes}
    small = [name for name in known if sizes[name] <= arrow_tables.LOCAL_ROWS]
    calls = {name: partial(_clean, step.session, paths, known[name], counts["horizon"]) for name in known}
    done = failures.attempt({name: calls[name] for name in small})
    for name in known:
        if name not in small:  # one by one: each takes much memory
            done |= failures.attempt({name: calls[name]})
    for name, gone in done.items():
        counts["tables"] += 1
        counts["cleaned"] += gone > 0
        counts["rows_before"] += sizes[name]
        counts["rows_after"] += sizes[name] - gone
    failures.refuse("cleaned")
    return counts


def _as_declared(pipeline: Pipeline, paths: TablePaths) -> set[Pair]:
    """Return the members of histories that a merge brought to the present declaration.

    Until then a history may have its key under other names, or another key, by which other rows supersede each other.
    """
    seen, states = buffer_state(paths), records.states(records.read(paths))
    if seen is None or not is_buffered(pipeline, seen):
        return set()
    declared = records.declared_pairs(pipeline)
    return {pair for pair in declared if pair not in states or not states[pair].is_open}


def _has_superseded(row_table: RowTable, paths: TablePaths) -> bool:
    if row_table.mirror is None or row_table.table.insert_only:
        return False
    return exists(paths.table(row_table.mirror.history)) and exists(paths.table(row_table.current))


def _upto(paths: TablePaths, row_table: RowTable, horizon: int) -> Watermark | None:
    """Return the watermark up to which a history may be cleaned now; None: it is. What is not merged yet is kept."""
    merged = watermark_of(paths.table(row_table.current))
    upto = Watermark(min(horizon, merged.valid_through), merged.release)
    return upto if upto.valid_through > history_reader.cleaned(paths, row_table) else None


def _clean(session: "Callable[[], SparkSession]", paths: TablePaths, row_table: RowTable, horizon: int) -> int:
    upto = _upto(paths, row_table, horizon)
    return 0 if upto is None else Cleaning(paths, row_table, upto).clean(session)
