"""What each history holds: whether every change is in it as declared, and since when."""

from collections.abc import Mapping

from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations import records
from txloom.storage.declarations.incomplete import (
    awaited,
    completing_loads,
    describe_begin,
    feeding,
    incomplete_tables,
)
from txloom.storage.declarations.records import Pair, State
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, last_step, open_tables, sliced


@open_tables
def histories(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the declared histories and their members, those that are not complete first.

    rows: history, table, status, since_csn (0: it has every change), reason, missing (in words, also whether there is
    something to do) and at.
    """
    paths, declared = TablePaths(warehouse, pipeline.name), records.declared_pairs(pipeline)
    states, fed = records.states(records.read(paths)), feeding(pipeline)
    waiting = completing_loads(pipeline, paths, states, incomplete_tables(pipeline, states))
    rows = [
        {
            "history": pair[0],
            "table": pair[1],
            "status": state.newest.status,
            "since_csn": state.newest.since_csn,
            "reason": state.newest.reason,
            "missing": _describe_missing(pair, states, fed, waiting),
            "at": state.newest.at,
            "is_complete": state.is_complete,
        }
        for pair, state in states.items()
        if pair in declared
    ]
    rows.sort(key=lambda row: (row["is_complete"], row["history"], row["table"]))
    return sliced(rows, number, size, last_step(paths))


def _describe_missing(
    pair: Pair, states: Mapping[Pair, State], fed: Mapping[str, Pair], waiting: Mapping[str, int]
) -> str | None:
    """Describe what a history's member lacks, and what completes that member.

    Args:
        pair: the history and the member.
        states: by history and member.
        fed: by source table, the history and member that the table's rows are computed from.
        waiting: by incomplete table, the csn of the loaded snapshot that will complete the table, if there is one.
    """
    (history, member), newest = pair, states[pair].newest
    source = fed.get(member, pair)
    if newest.missing is None or newest.status != records.INCOMPLETE:
        return newest.missing
    if member in waiting:
        return f"{newest.missing}. The table is not complete until {awaited(waiting[member])}"
    if source == pair or source not in states or not states[source].is_complete:
        return newest.missing
    return f"{newest.missing}. {describe_begin(history, member, newest.since_csn, source[0])}"
