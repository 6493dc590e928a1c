"""Rows of snapshots that a connector gave up: the one that it then took from the beginning replaces them (ADR 24)."""

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.steps.landing.internal_transaction import BEHIND, InternalTransaction
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import change_events, connector_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.targets.undeclared_columns import effective_pipeline


def clear_given_up(pipeline: Pipeline, paths: TablePaths, planned: LandingPlan) -> None:
    """Empty, in front of the snapshot that a landing closed, the tables of which one that was given up had rows.

    What went between the two is in no message. Nothing of either was shown yet, and the stream has nothing below.
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
