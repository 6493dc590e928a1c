"""Plan a merge: every table by rewriting files, documents of what comes of their tables, what is too large by Spark."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.errors import WriteConflict
from txloom.steps.merge import document_merge, rewrite_merge
from txloom.steps.merge.document_merge import Composed
from txloom.steps.merge.merge_plan import Merge, Work
from txloom.steps.merge.rewrite_merge import TableMerge
from txloom.steps.parallel import Failures
from txloom.storage.delta import arrow_tables
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables, shape_of, shape_of_documents

Tables = set[str]


def planned(merge: Merge) -> tuple[Pipeline, Work]:
    """Compute all writes; return the pipeline without the tables for which that failed, and the writes.

    Tables that no document is composed of are merged each by itself, others with their documents. Tables that are
    computed anew, and all that have a document in common with one of them, are never left to Spark.
    """
    anew = _together(merge.pipeline, {*merge.computed.anew})
    is_local = arrow_tables.LOCAL_ROWS >= 0
    tables = [each for each in row_tables(merge.pipeline) if is_local or each.table.name in anew]
    calls = {each.table.name: partial(_prepare, merge, each, may_start_anew=each.table.name in anew) for each in tables}
    prepared = merge.failures.attempt(calls)
    ready = {name: made for name, made in prepared.items() if made is not None}
    here = without(merge.pipeline, merge.failures)
    by_spark = _together(here, {each.table.name for each in row_tables(here)} - set(ready))
    composing = {
        each.current: partial(_compose, merge, each, ready, may_start_anew=each.current in anew)
        for each in here.targets.aggregates
        if each.root not in by_spark
        and (each.current in anew or watermark_of(merge.paths.table(each.current)) < merge.target)
    }
    documents = merge.failures.attempt(composing)
    too_large = {name for name, composed in documents.items() if not composed.is_done}
    by_spark |= _together(here, too_large)
    work = _plan_by_spark(merge, by_spark)
    here = without(merge.pipeline, merge.failures)
    left = {each.table.name for each in row_tables(here)} - by_spark
    kept = {name: made for name, made in ready.items() if name in left}
    written = {each.current for each in here.targets.aggregates if each.root in left}
    return here, _joined(
        work,
        Work(
            {
                name: _commit_again(merge, name, rewrite, partial(_composed, call))
                for name, call in composing.items()
                if name in written and (rewrite := documents[name].rewrite) is not None
            },
            {
                name: _commit_again(merge, made.row_table.current, made.rewrite, partial(_rewritten, calls[name]))
                for name, made in kept.items()
                if made.rewrite is not None
            },
            sum(made.changes for made in kept.values()),
            {name: made.contradictions for name, made in kept.items() if not made.is_anew},
            {name: made.columns for name, made in kept.items()},
            {name: composed.several for name, composed in documents.items() if name in written},
            {name for name, made in kept.items() if made.is_anew and not made.contradictions},
        ),
    )


def without(pipeline: Pipeline, failures: Failures) -> Pipeline:
    """Leave out failed tables and all tables of a document with one of them: they are merged together or not."""
    return _only(pipeline, failed=_together(pipeline, set(failures.errors)))


def _together(pipeline: Pipeline, tables: Tables) -> Tables:
    """Return tables, and all that have a document in common with one of them, documents too."""
    aggregates = pipeline.targets.aggregates
    groups = [{each.current, *(name for name, _ in schemas.members_of(each))} for each in aggregates]
    while any(group & tables and not group <= tables for group in groups):
        tables = tables | {name for group in groups if group & tables for name in group}
    return tables


def _only(pipeline: Pipeline, *, failed: Collection[str]) -> Pipeline:
    """Return a pipeline without some tables and documents."""
    aggregates = tuple(each for each in pipeline.targets.aggregates if each.current not in failed)
    mirrors = tuple(mirror for mirror in pipeline.targets.mirrors if mirror.table not in failed)
    targets = pipeline.targets.model_copy(update={"aggregates": aggregates, "mirrors": mirrors})
    return pipeline.model_copy(update={"targets": targets})


def _prepare(merge: Merge, row_table: RowTable, *, may_start_anew: bool) -> TableMerge | None:
    """Compute the merge of a table, and which documents it touches.

    may_start_anew: whether all its rows are computed from history where that is asked for, or it is too large to merge.
    """
    name, parents = row_table.table.name, list[tuple[str, ...]]()
    for aggregate in merge.pipeline.targets.aggregates:
        if aggregate.root == name:
            parents.append(merge.pipeline.table(name).key)
        parents += [child.parent_key for child in aggregate.children if child.table == name]
    gone = merge.gone.get(name, {})
    if name not in merge.computed.anew:
        made = rewrite_merge.prepare(merge.spark, merge.paths, row_table, merge.target, gone, parents)
        if made is not None or not may_start_anew:
            return made
    return rewrite_merge.prepare_anew(merge.spark, merge.paths, row_table, merge.target, shape_of(row_table))


def _compose(merge: Merge, aggregate: Aggregate, merges: Mapping[str, TableMerge], *, may_start_anew: bool) -> Composed:
    """Compose the documents that are touched, or all of them.

    may_start_anew: whether all are composed where that is asked for, or there are too many to merge.
    """
    compose = partial(document_merge.prepare, merge.spark, merge.paths, merge.pipeline, aggregate, merges)
    members = [name for name, _ in schemas.members_of(aggregate)]
    is_anew = aggregate.current in merge.computed.anew or any(merges[name].is_anew for name in members)
    if not is_anew:
        composed = compose()
        if composed.is_done or not may_start_anew:
            return composed
    return compose(shape_of_documents(merge.pipeline, aggregate))


def _composed(call: Callable[[], Composed]) -> Rewrite | None:
    return call().rewrite


def _rewritten(call: Callable[[], TableMerge | None]) -> Rewrite | None:
    made = call()
    return None if made is None else made.rewrite


def _commit_again(
    merge: Merge, table: str, rewrite: Rewrite, again: Callable[[], Rewrite | None]
) -> Callable[[], None]:
    """Return the call that commits a table's merge; a repeated call computes it anew, as other files are there then."""
    at_hand: list[Rewrite | None] = [rewrite]

    def commit() -> None:
        prepared = at_hand.pop() if at_hand else again()
        if prepared is None:
            raise WriteConflict(f"{merge.paths.table(table)}: others wrote there; run the step again")
        prepared.commit(merge.metadata(table))

    return commit


def _plan_by_spark(merge: Merge, tables: Tables) -> Work:
    """Compute the writes of some tables and of their documents with Spark; those that fail are left out."""
    while tables := tables - _together(merge.pipeline, set(merge.failures.errors)):
        from txloom.steps.merge import spark_merge

        others = {*merge.pipeline.current_tables, *(each.table.name for each in row_tables(merge.pipeline))}
        pipeline = _only(merge.pipeline, failed=others - tables)
        if (work := spark_merge.plan(replace(merge, pipeline=pipeline))) is not None:
            return work
    return Work({}, {}, 0, {}, {}, {})


def _joined(some: Work, others: Work) -> Work:
    """Return the work of both."""
    return Work(
        {**some.documents, **others.documents},
        {**some.rows, **others.rows},
        some.changes + others.changes,
        {**some.contradictions, **others.contradictions},
        {**some.columns, **others.columns},
        {**some.several, **others.several},
        {*some.agreeing, *others.agreeing},
    )
