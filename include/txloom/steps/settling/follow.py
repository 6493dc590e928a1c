"""Follow a declaration that changed: settle the histories, then say which current tables are computed anew."""

from collections.abc import Collection
from dataclasses import dataclass, field

from txloom.config.models.pipeline import Pipeline
from txloom.steps.settling.computed import Computed, are_compared, compare, computed_as_before
from txloom.steps.settling.computed_tables import record_computed
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations.earlier_steps import is_buffered
from txloom.storage.declarations.incomplete import incomplete_tables
from txloom.storage.delta.read_session import reading

RECORDED = "recorded:"
"""How the stamp of a table begins that has a record in `computed_tables`; one of earlier versions is compared again."""


@dataclass(frozen=True)
class Followed:
    """What a merge has to know of the declaration.

    Args:
        computed: what current tables are computed from.
        incomplete: source tables whose changes are not all there.
        opened: how many findings were opened.
        is_settled: whether histories were compared with the records, because the declaration or a table changed.
    """

    computed: Computed = field(default_factory=Computed)
    incomplete: Collection[str] = ()
    opened: int = 0
    is_settled: bool = False


def follow_declaration(step: Step, pipeline: Pipeline) -> Followed | None:
    """Compare the tables with the declaration, and make histories again that it asks for.

    Nothing is read of the records while every current table was compared with the newest of them. A repeated call makes
    nothing again.

    Args:
        step: the declaration, the tables and the run.
        pipeline: the declaration with columns that tables took up.

    Returns:
        what the merge has to know; None where the declaration was edited since the buffer ran, so that no merge can
        follow it yet.
    """
    paths, seen = step.paths, buffer_state(step.paths)
    if seen is None or not seen.declared.stamp:
        return Followed()
    if not is_buffered(step.pipeline, seen):
        return None
    stamp = f"{RECORDED}{_taken_up(step.pipeline, pipeline)}{seen.declared.stamp}"
    with reading():
        if are_compared(pipeline, paths, stamp):
            return Followed(computed_as_before(pipeline, paths, stamp))
    from txloom.steps.settling.settle import settle  # a cycle that has nothing to settle loads neither pandas nor Spark

    states, opened = settle(step, pipeline, seen)
    incomplete = incomplete_tables(pipeline, states)
    computed = compare(pipeline, paths, states, "" if incomplete else stamp)
    record_computed(pipeline, paths, states, computed, step.run_id)
    return Followed(computed, incomplete, opened, is_settled=True)


def _taken_up(declared: Pipeline, pipeline: Pipeline) -> str:
    """Return what a stamp says of columns that tables took up; pipeline: the declaration with them."""
    added = sum(len(pipeline.table(each.name).columns) - len(each.columns) for each in declared.tables)
    return f"{added}+" if added else ""
