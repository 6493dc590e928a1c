"""What each history holds: whether every change is in it as declared, and since when."""

from collections.abc import Mapping

from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations import records
from txloom.storage.declarations.incomplete import describe_begin, feeding
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
    rows = [
        {
            "history": pair[0],
            "table": pair[1],
            "status": state.newest.status,
            "since_csn": state.newest.since_csn,
            "reason": state.newest.reason,
            "missing": _describe_missing(pair, state, states, fed),
            "at": state.newest.at,
            "is_complete": state.is_complete,
        }
        for pair, state in states.items()
        if pair in declared
    ]
    rows.sort(key=lambda row: (row["is_complete"], row["history"], row["table"]))
    return sliced(rows, number, size, last_step(paths))


def _describe_missing(pair: Pair, state: State, states: Mapping[Pair, State], fed: Mapping[str, Pair]) -> str | None:
    """Describe what a history's member lacks; fed: by source table, the member that its rows are computed from."""
    (history, member), missing = pair, state.newest.missing
    source = fed.get(member, pair)
    if missing is None or state.newest.status != records.INCOMPLETE or source == pair:
        return missing
    if source not in states or not states[source].is_complete:
        return missing
    return f"{missing}. {describe_begin(history, member, state.newest.since_csn, source[0])}"
