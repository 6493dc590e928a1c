"""Plan a merge: table by table in this process, tables of documents together, and what is too large with Spark."""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline
from txloom.errors import WriteConflict
from txloom.steps.merge import local_merge, rewrite_merge
from txloom.steps.merge.merge_plan import Merge, Work
from txloom.steps.merge.rewrite_merge import TableMerge
from txloom.steps.parallel import Failures
from txloom.storage.delta import arrow_tables, small_merge
from txloom.storage.delta.partition_pruning import Within
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables


def planned(merge: Merge) -> tuple[Pipeline, Work]:
    """Compute all writes; return the pipeline without the tables for which that failed, and the writes.

    Tables that no document is composed of are merged each by itself, others with their documents.
    """
    alone, rest = _apart(merge)
    works = [_plan_alone(merge, alone)]
    while row_tables(rest.pipeline):
        if (work := _plan_together(rest)) is not None:
            works.append(work)
            break
        rest = replace(rest, pipeline=without(rest.pipeline, merge.failures))
    return without(merge.pipeline, merge.failures), _joined(works)


def without(pipeline: Pipeline, failures: Failures) -> Pipeline:
    """Leave out failed tables and all tables of a document with one of them: they are merged together or not."""
    failed, declared = set(failures.errors), pipeline.targets.aggregates
    groups = [{each.current, each.root, *(child.table for child in each.children)} for each in declared]
    while any(group & failed and not group <= failed for group in groups):
        failed |= {name for group in groups if group & failed for name in group}
    aggregates = tuple(each for each in declared if each.current not in failed)
    mirrors = tuple(mirror for mirror in pipeline.targets.mirrors if mirror.table not in failed)
    targets = pipeline.targets.model_copy(update={"aggregates": aggregates, "mirrors": mirrors})
    return pipeline.model_copy(update={"targets": targets})


def _apart(merge: Merge) -> tuple[list[RowTable], Merge]:
    """Return the tables that no document is composed of, and the merge of the others."""
    if arrow_tables.LOCAL_ROWS < 0:
        return [], merge
    aggregates = merge.pipeline.targets.aggregates
    composed = {name for each in aggregates for name, _ in schemas.members_of(each)}
    alone = [each for each in row_tables(merge.pipeline) if each.table.name not in composed]
    return alone, replace(merge, pipeline=_mirroring(merge.pipeline, composed))


def _mirroring(pipeline: Pipeline, tables: Container[str]) -> Pipeline:
    """Return a pipeline with the mirrors of some tables alone."""
    mirrors = tuple(mirror for mirror in pipeline.targets.mirrors if mirror.table in tables)
    return pipeline.model_copy(update={"targets": pipeline.targets.model_copy(update={"mirrors": mirrors})})


def _plan_alone(merge: Merge, tables: Sequence[RowTable]) -> Work:
    """Compute the writes of tables, each by itself."""
    calls = {
        each.table.name: partial(
            rewrite_merge.prepare, merge.spark, merge.paths, each, merge.target, merge.gone.get(each.table.name, {})
        )
        for each in tables
    }
    prepared = merge.failures.attempt(calls)
    ready = {name: made for name, made in prepared.items() if made is not None}
    work = Work(
        {},
        {name: _commits(merge, made, calls[name]) for name, made in ready.items() if made.rewrite is not None},
        sum(made.changes for made in ready.values()),
        {name: made.contradictions for name, made in ready.items()},
        {name: made.columns for name, made in ready.items()},
    )
    return _joined([work, *_plan_by_spark(merge, set(prepared) - set(ready))])


def _plan_by_spark(merge: Merge, tables: set[str]) -> list[Work]:
    """Compute the writes of mirrors with Spark."""
    while tables := tables - set(merge.failures.errors):
        from txloom.steps.merge import spark_merge

        targets = merge.pipeline.targets.model_copy(update={"aggregates": ()})
        pipeline = _mirroring(merge.pipeline.model_copy(update={"targets": targets}), tables)
        if (work := spark_merge.plan(replace(merge, pipeline=pipeline))) is not None:
            return [work]
    return []


def _commits(merge: Merge, made: TableMerge, again: Callable[[], TableMerge | None]) -> Callable[[], None]:
    """Return the call that commits a table's merge; a repeated call computes it anew, as other files are there then."""
    at_hand: list[TableMerge | None] = [made]

    def commit() -> None:
        prepared = at_hand.pop() if at_hand else again()
        if prepared is None or prepared.rewrite is None:
            raise WriteConflict(f"{merge.paths.table(made.row_table.current)}: others wrote there; run the step again")
        prepared.rewrite.commit(vars(merge.target))

    return commit


def _joined(works: Sequence[Work]) -> Work:
    """Return several works as one."""
    return Work(
        {name: call for work in works for name, call in work.documents.items()},
        {name: call for work in works for name, call in work.rows.items()},
        sum(work.changes for work in works),
        {name: texts for work in works for name, texts in work.contradictions.items()},
        {name: columns for work in works for name, columns in work.columns.items()},
    )


def _plan_together(merge: Merge) -> Work | None:
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
    """Merge effects that this process holds: by rewriting files, else by delta-rs into a small table, else by Spark."""
    if rewrite_merge.written(path, effects, key, vars(merge.target)):
        return
    if small_merge.is_small(path):
        small_merge.merge(path, effects, key, vars(merge.target), within)
        return
    from txloom.steps.merge import spark_merge

    spark_merge.write_held(merge, path, effects, key, within)
