"""merge_current: apply released transactions, in commit order, up to valid-through, to every current table.

Tables and documents are merged piece by piece, by rewriting files; Spark merges what would rewrite too much
(`planning`).
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial

from txloom.config.contents import digest_of, pipeline_content
from txloom.config.models.pipeline import Pipeline
from txloom.steps.current.contradictions import close_agreeing, findings_of
from txloom.steps.merge.merge_plan import Merge, Work
from txloom.steps.merge.planning import planned, without
from txloom.steps.merge.repaired_findings import close_repaired
from txloom.steps.merge.several_children import close_single, findings_of_several
from txloom.steps.merge.unknown_values import unknown_values
from txloom.steps.parallel import Failures
from txloom.steps.schema_drift import gone_columns, note_back, note_declared, note_gone
from txloom.steps.settling.computed import Computed, stamp_tables
from txloom.steps.settling.follow import follow_declaration
from txloom.steps.step import Counts, Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import retry
from txloom.storage.delta.read_session import exists
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets import shadow_tables
from txloom.storage.targets.row_tables import (
    create,
    create_documents,
    partition_columns,
    prepare_shape,
    row_tables,
    shape_of,
    shape_of_documents,
)

LOG = logging.getLogger(__name__)


def merge_current(step: Step) -> Counts:
    """Bring every current table to the pipeline's valid-through; each table's commit is a state that the source had.

    Nothing is merged where the declaration was edited since the buffer ran. Only large merges open a Spark session.
    Documents are written before the row tables that they are composed of: after a crash in between, the row tables
    still have their old watermark, so that the next call composes the same documents again. A repeated call changes
    nothing.

    Returns:
        valid_through and release that were reached; how many tables were merged, from how many changes; anew, how many
        of them were computed from all of history; incomplete, how many source tables need a snapshot or wait for
        messages; new findings; failed tables, if any.

    Raises:
        TablesFailed: if some tables could not be merged; the others were. Where all failed with one kind of
            TxloomError, this kind.
    """
    paths, run_id = step.paths, step.run_id
    declared, failures = effective_pipeline(step.pipeline, paths), Failures()
    followed = follow_declaration(step, declared)
    if followed is None:
        LOG.info("the declaration was edited since the buffer ran: the next cycle merges by it")
        return {"valid_through": 0, "merged": 0, "changes": 0}
    computed = followed.computed
    healthy = _created(declared, paths, failures, computed)
    target = target_watermark(healthy, paths)
    if target is None:
        failures.refuse()
        return {"valid_through": 0, "merged": 0, "changes": 0}
    known = findings.open_findings(paths)
    merge = Merge(cache(step.session), healthy, paths, target, gone_columns(declared, paths, known), failures, computed)
    healthy, work = planned(merge)
    changed = [row_table for row_table in row_tables(healthy) if row_table.table.name in work.rows]
    unknown = [finding for row_table in changed for finding in unknown_values(paths, row_table, target)]
    several = findings_of_several(healthy, work.several)
    seen = [*findings_of(paths, work.contradictions, followed.incomplete), *unknown, *several]
    new = findings.record(paths, seen, run_id, step.pipeline.source.format)
    note_back(paths, known, work.columns, run_id)
    close_agreeing(healthy, paths, work.agreeing, known, run_id)
    merged = _write_all(healthy, work, failures)
    healthy = without(healthy, failures)
    if followed.is_settled:
        shadow_tables.note_made(paths, run_id, shadow_tables.COMPUTED, _computed(healthy, computed))
    if not failures.errors:
        stamp_tables(paths, computed)
    new += note_gone(healthy, paths, known, work.columns, run_id)
    counts = {"merged": merged, "changes": work.changes, "release": target.release}
    counts |= {"anew": len(computed.anew)} if computed.anew else {}
    counts |= {"incomplete": len(followed.incomplete)} if followed.incomplete else {}
    counts |= {"findings": len(new) + followed.opened} | ({"failed": len(failures.errors)} if failures.errors else {})
    detail = str(failures) or None
    entry = Entry(
        run_id,
        "merge_current",
        datetime.now(UTC),
        counts,
        valid_through=target.valid_through,
        detail=detail,
        declared=digest_of(pipeline_content(step.pipeline)),
    )
    write_ledger(paths.warehouse, paths.pipeline, entry)
    failures.refuse()
    note_declared(step.pipeline, paths, known, run_id)
    close_repaired(step.pipeline, paths, target, run_id)
    close_single(step.pipeline, paths, known, several, {*work.rows, *work.documents}, run_id)
    return {"valid_through": target.valid_through, **counts}


def _computed(pipeline: Pipeline, computed: Computed) -> list[str]:
    """Return the current tables, which readers see, that were computed from all of history."""
    mirrors = [each.current for each in pipeline.targets.mirrors if each.table in computed.anew]
    return [*mirrors, *(each.current for each in pipeline.targets.aggregates if each.current in computed.anew)]


def _created(pipeline: Pipeline, paths: TablePaths, failures: Failures, computed: Computed) -> Pipeline:
    """Create current tables that do not exist; return the pipeline without those that cannot be opened.

    A table that is computed anew gets its declared columns with its rows, in one commit.
    """
    tables, aggregates = row_tables(pipeline), pipeline.targets.aggregates
    calls: dict[str, Callable[[], None]] = {}
    for row_table in tables:
        path, name = paths.table(row_table.current), row_table.table.name
        is_anew = name in computed.anew and exists(path)
        calls[name] = (
            partial(prepare_shape, path, shape_of(row_table), partition_columns(row_table))
            if is_anew
            else partial(create, row_table, paths)
        )
    failures.attempt(calls)
    calls = {}
    for each in aggregates:
        path, is_anew = paths.table(each.current), each.current in computed.anew and exists(paths.table(each.current))
        shape = shape_of_documents(pipeline, each)
        calls[each.current] = (
            partial(prepare_shape, path, shape) if is_anew else partial(create_documents, pipeline, each, paths)
        )
    failures.attempt(calls)
    failures.attempt(
        {row_table.table.name: partial(watermark_of, paths.table(row_table.current)) for row_table in tables}
    )
    return without(pipeline, failures)


def _write_all(pipeline: Pipeline, work: Work, failures: Failures) -> int:
    """Write documents, then the row tables that they are composed of; return how many tables were written."""
    done = failures.attempt(_repeated(work.documents))
    remaining = {row_table.table.name for row_table in row_tables(without(pipeline, failures))}
    done |= failures.attempt(_repeated({table: call for table, call in work.rows.items() if table in remaining}))
    return len(done)


def _repeated(calls: Mapping[str, Callable[[], None]]) -> dict[str, Callable[[], None]]:
    """Return calls that repeat a write which conflicts with an OPTIMIZE that somebody started by hand."""
    return {table: partial(retry.repeated, call) for table, call in calls.items()}


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
