"""What each history holds: whether every change is in it as declared, and since when."""

from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations import records
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, last_step, open_tables, sliced


@open_tables
def histories(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the declared histories and their members, those that are not complete first.

    rows: history, table, status, since_csn (0: it has every change), reason, missing and at.
    """
    paths, declared = TablePaths(warehouse, pipeline.name), records.declared_pairs(pipeline)
    states = records.states(records.read(paths))
    rows = [
        {
            "history": pair[0],
            "table": pair[1],
            "status": state.newest.status,
            "since_csn": state.newest.since_csn,
            "reason": state.newest.reason,
            "missing": state.newest.missing,
            "at": state.newest.at,
            "is_complete": state.is_complete,
        }
        for pair, state in states.items()
        if pair in declared
    ]
    rows.sort(key=lambda row: (row["is_complete"], row["history"], row["table"]))
    return sliced(rows, number, size, last_step(paths))
