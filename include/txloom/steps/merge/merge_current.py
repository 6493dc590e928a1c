"""merge_current: apply released transactions, in commit order, up to valid-through, to every current table.

Few changes to small tables are computed and written in this process; large merges run with Spark, table by table.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline
from txloom.steps.merge import local_merge
from txloom.steps.merge.contradictions import findings_of
from txloom.steps.merge.merge_plan import Merge, Work
from txloom.steps.merge.repaired_findings import close_repaired
from txloom.steps.parallel import Failures
from txloom.steps.schema_drift import gone_columns, note_back, note_gone
from txloom.steps.step import Counts, Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables, retry, small_merge
from txloom.storage.delta.partition_pruning import Within
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets.row_tables import create, create_documents, row_tables
from txloom.storage.targets.undeclared_columns import effective_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge_current(step: Step) -> Counts:
    """Bring every current table to the pipeline's valid-through; each table's commit is a state that the source had.

    Only large merges open a Spark session. Documents are written before the row tables that they are composed of: after
    a crash in between, the row tables still have their old watermark, so that the next call composes the same documents
    again. A repeated call changes nothing.

    Returns:
        valid_through and release that were reached; how many tables were merged, from how many changes; new findings;
        failed tables, if any.

    Raises:
        TablesFailed: if some tables could not be merged; the others were. Where all failed with one kind of
            TxloomError, this kind.
    """
    paths, run_id = step.paths, step.run_id
    declared, failures = effective_pipeline(step.pipeline, paths), Failures()
    healthy = _created(declared, paths, failures)
    target = target_watermark(healthy, paths)
    if target is None:
        failures.refuse()
        return {"valid_through": 0, "merged": 0, "changes": 0}
    known = findings.open_findings(paths)
    opened = cache(step.session)
    try:
        merge = Merge(opened, healthy, paths, target, gone_columns(known), failures)
        healthy, work = _planned(merge)
        changed = [row_table for row_table in row_tables(healthy) if row_table.table.name in work.rows]
        unknown = [finding for row_table in changed for finding in local_merge.unknown_values(paths, row_table, target)]
        seen = [*findings_of(paths, work.contradictions), *unknown]
        new = findings.record(paths, seen, run_id, step.pipeline.source.format)
        note_back(paths, known, work.columns, run_id)
        merged = _write_all(healthy, work, failures)
    finally:
        if opened.cache_info().currsize:
            _finish(opened())
    healthy = _without(healthy, failures)
    new += note_gone(healthy, paths, known, work.columns, run_id)
    counts = {"merged": merged, "changes": work.changes, "release": target.release}
    counts |= {"findings": len(new)} | ({"failed": len(failures.errors)} if failures.errors else {})
    detail = str(failures) or None
    entry = Entry(run_id, "merge_current", datetime.now(UTC), counts, valid_through=target.valid_through, detail=detail)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    failures.refuse()
    close_repaired(step.pipeline, paths, target, run_id)
    return {"valid_through": target.valid_through, **counts}


def _created(pipeline: Pipeline, paths: TablePaths, failures: Failures) -> Pipeline:
    """Create current tables that do not exist; return the pipeline without those that cannot be opened."""
    tables = row_tables(pipeline)
    failures.attempt({row_table.table.name: partial(create, row_table, paths) for row_table in tables})
    aggregates = pipeline.targets.aggregates
    failures.attempt({each.current: partial(create_documents, pipeline, each, paths) for each in aggregates})
    failures.attempt(
        {row_table.table.name: partial(watermark_of, paths.table(row_table.current)) for row_table in tables}
    )
    return _without(pipeline, failures)


def _without(pipeline: Pipeline, failures: Failures) -> Pipeline:
    """Leave out failed tables and all tables of a document with one of them: they are merged together or not."""
    failed, declared = set(failures.errors), pipeline.targets.aggregates
    groups = [{each.current, each.root, *(child.table for child in each.children)} for each in declared]
    while any(group & failed and not group <= failed for group in groups):
        failed |= {name for group in groups if group & failed for name in group}
    aggregates = tuple(each for each in declared if each.current not in failed)
    mirrors = tuple(mirror for mirror in pipeline.targets.mirrors if mirror.table not in failed)
    targets = pipeline.targets.model_copy(update={"aggregates": aggregates, "mirrors": mirrors})
    return pipeline.model_copy(update={"targets": targets})


def _planned(merge: Merge) -> tuple[Pipeline, Work]:
    """Compute all writes; return the pipeline without the tables for which that failed, and the writes."""
    while (work := plan(merge)) is None:
        merge = replace(merge, pipeline=_without(merge.pipeline, merge.failures))
    return merge.pipeline, work


def _write_all(pipeline: Pipeline, work: Work, failures: Failures) -> int:
    """Write documents, then the row tables that they are composed of; return how many tables were written."""
    done = failures.attempt(_repeated(work.documents))
    remaining = {row_table.table.name for row_table in row_tables(_without(pipeline, failures))}
    done |= failures.attempt(_repeated({table: call for table, call in work.rows.items() if table in remaining}))
    return len(done)


def _repeated(calls: Mapping[str, Callable[[], None]]) -> dict[str, Callable[[], None]]:
    """Return calls that repeat a write which conflicts with an OPTIMIZE that somebody started by hand."""
    return {table: partial(retry.repeated, call) for table, call in calls.items()}


def _finish(spark: "SparkSession") -> None:
    from txloom.storage.delta import spark_tables

    spark_tables.unfence(spark)


def target_watermark(pipeline: Pipeline, paths: TablePaths) -> Watermark | None:
    """Return the watermark to bring every table to: never below what a table has; None before the first batch.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
    """
    seen = buffer_state(paths)
    if seen is None:
        return None
    shown = [watermark_of(paths.table(row_table.current)) for row_table in row_tables(pipeline)]
    shown += [watermark_of(paths.table(aggregate.current)) for aggregate in pipeline.targets.aggregates]
    highest = max((each.valid_through for each in shown), default=0)
    newest = max((each.release for each in shown), default=0)
    if seen.release < newest:
        return Watermark(highest, newest)
    return Watermark(max(highest, valid_through(paths, seen)), seen.release)


def plan(merge: Merge) -> Work | None:
    """Compute all writes of a merge, in this process when the changes are few, else with Spark.

    Returns None where a table failed: the caller then plans again without it and its documents.
    """
    tables = row_tables(merge.pipeline)
    size = partial(local_merge.size, merge.paths, target=merge.target, gone=merge.gone)
    sizes = merge.failures.attempt({row_table.table.name: partial(size, row_table) for row_table in tables})
    if len(sizes) < len(tables):
        return None
    known = [size for size in sizes.values() if size is not None]
    if len(known) == len(sizes) and sum(known) <= arrow_tables.LOCAL_ROWS:
        return _plan_locally(merge)
    from txloom.steps.merge import spark_merge

    return spark_merge.plan(merge)


def _plan_locally(merge: Merge) -> Work | None:
    pipeline, paths, target = merge.pipeline, merge.paths, merge.target
    tables_by_name = {row_table.table.name: row_table for row_table in row_tables(pipeline)}
    prepare = local_merge.prepare
    calls = {
        name: partial(prepare, paths, row_table, target, merge.gone.get(name, {}))
        for name, row_table in tables_by_name.items()
    }
    changes = merge.failures.attempt(calls)
    if len(changes) < len(tables_by_name):
        return None
    documents = {}
    for aggregate in pipeline.targets.aggregates:
        path = paths.table(aggregate.current)
        if (
            watermark_of(path) < target
            and (documents_of := local_merge.documents(pipeline, aggregate, changes)) is not None
        ):
            key = pipeline.table(aggregate.root).key
            documents[aggregate.current] = partial(_write, merge, path, documents_of, key)
    rows = {
        name: partial(_write, merge, change.path, change.effects, change.row_table.key, change.within())
        for name, change in changes.items()
        if change.effects is not None
    }
    contradictions = {name: change.contradictions for name, change in changes.items()}
    after = {name: change.columns for name, change in changes.items()}
    return Work(documents, rows, sum(change.changes for change in changes.values()), contradictions, after)


def _write(merge: Merge, path: str, effects: pa.Table, key: tuple[str, ...], within: Within | None = None) -> None:
    """Merge effects that this process holds: into a small table by itself, into a large one with Spark."""
    if small_merge.is_small(path):
        small_merge.merge(path, effects, key, vars(merge.target), within)
        return
    from txloom.steps.merge import spark_merge

    spark_merge.write_held(merge, path, effects, key, within)
