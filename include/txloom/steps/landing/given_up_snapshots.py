"""Rows of a snapshot that a connector abandoned: they are removed before those of its next snapshot (ADR 24)."""

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.envelope import BEHIND
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import change_events, connector_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.targets.undeclared_columns import effective_pipeline


def clear_given_up(pipeline: Pipeline, paths: TablePaths, planned: LandingPlan) -> None:
    """Truncate the tables of which an abandoned snapshot had rows, before the rows of the snapshot that replaced it.

    The truncates are appended to change_events when a landing closes the second snapshot. No message says which rows
    were deleted between the two. Nothing of either was shown yet, and the stream has no changes below them. A repeated
    call appends nothing more.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        planned: the landing.
    """
    given_up = connector_snapshots.given_up(pipeline, paths, planned.number)
    if given_up is None or not given_up[1]:
        return
    csn, tables = given_up
    xid = f"{names.SYSTEM_PREFIX}snapshot:{planned.number}"
    transaction = InternalTransaction(effective_pipeline(pipeline, paths), planned, xid, csn - 1, None)
    events = change_events.with_compact_events(transaction.truncates(tables, BEHIND, {}), planned)
    write_id = names.write_id(paths.pipeline, f"{names.CHANGE_EVENTS}.given_up", 0)
    arrow_tables.append_once(events, paths.change_events, write_id, planned.number)
