"""The end of a landing: what follows from its events once they are written."""

from txloom.steps.landing.producer_checks import after_snapshot
from txloom.steps.landing.replaced_tables import note_read_beside, replace_redeclared, replace_tables
from txloom.steps.step import Counts, Step
from txloom.storage.landing import connector_snapshots, landing_tables, partition_watermarks
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.snapshots import rows_ahead
from txloom.storage.sources.splits import LandingPlan
from txloom.transactions.events import NOWHERE
from txloom.transactions.low_watermark import bounded


def close(step: Step, planned: LandingPlan) -> Counts:
    """End a landing whose events are written: dead letters for its poison, its clock row, its row in the ledger.

    A repeated call writes nothing twice.

    Args:
        step: the pipeline, its tables and the run.
        planned: the landing.

    Returns:
        landing: its number; counts of its events by kind.
    """
    pipeline, paths = step.pipeline, step.paths
    landing_tables.write_poison(planned, paths)

    def shown_through() -> int:
        cut = newest_cut(paths, "valid_through")
        return NOWHERE if cut is None else int(cut["valid_through"])

    advance = connector_snapshots.advance(pipeline, paths, planned, shown_through)
    if planned.reads_source:
        replace_tables(pipeline, paths, planned, advance, step.run_id)
        after_snapshot(pipeline, paths, planned.number, step.run_id)
    if advance.ahead:
        rows_ahead.note_held(paths, planned)
    if advance.read_beside and (planned.reads_source or planned.lands_ahead):
        note_read_beside(pipeline, paths, planned.number, step.run_id)
    if planned.redecodes:
        replace_redeclared(pipeline, paths, planned, step.run_id)
    reached = partition_watermarks.advance(pipeline, paths, planned)
    landing_tables.write_clock(planned, paths, bounded(reached, advance.bound))
    counts = landing_tables.count(planned, paths)
    entry = Entry(step.run_id, "land_events", planned.at, counts, batch=planned.number)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    return {"landing": planned.number, **counts}
