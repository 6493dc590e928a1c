"""What the newest audits found in each table."""

from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import masking
from txloom.storage.checks.audited_rows import DOCUMENTS, NULL_KEY, REPEATED, ROWS, masked, newest_results
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, open_tables, sliced

ORDER = ("different", "unsettled", "behind", "not compared", "equal")
SHOWN = 200
"""Differences of one table that are shown; `differing` counts the rows that have any."""


@open_tables
def audits(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE, run_id: str | None = None) -> Page:
    """Return the newest result of each table, those that differ first; as of the newest audit.

    run_id: of the only audit whose results are meant; None: of all.

    rows: table, verdict, rows, differing, unsettled, at, run_id, source_position, cut_id, valid_through,
    source_seconds, folder, kind, reason, not_compared, row_table (whose rows' stories the keys lead to), differences
    (key, kind, column, lake, source, csn, what; secrets masked), and has_more: whether there are more than these.
    """
    where = "true" if run_id is None else f"run_id = {text_literal(run_id)}"
    rows = newest_results(TablePaths(warehouse, pipeline.name), where)
    secret = masking.secret_names(pipeline)
    roots = {aggregate.current: aggregate.root for aggregate in pipeline.targets.aggregates}
    for row in rows:
        row["kind"] = row["kind"] or ROWS
        row["not_compared"] = row["not_compared"] or []
        row["row_table"] = roots.get(row["table"], row["table"]) if row["kind"] == DOCUMENTS else row["table"]
        differences = row["differences"] or []
        row["differences"] = [
            {**masked(each, secret), "what": _what(each, row["kind"])} for each in differences[:SHOWN]
        ]
        row["has_more"] = len(differences) > SHOWN or len({str(each["key"]) for each in differences}) < row["differing"]
    rows.sort(key=lambda row: (ORDER.index(row["verdict"]), row["table"]))
    return sliced(rows, number, size, max((row["at"] for row in rows), default=None))


def _what(difference: dict[str, Any], kind: str) -> str:
    """Return what is wrong with a row, or the name of its column that differs.

    >>> _what({"kind": "null key", "column": "b"}, ROWS)
    'b of its key is null: the lake cannot hold it'
    """
    source = "the rows" if kind == DOCUMENTS else "the source"
    known: dict[str, str] = {
        "missing": "missing in the lake",
        "extra": f"not in {source}",
        NULL_KEY: f"{difference['column']} of its key is null: the lake cannot hold it",
        REPEATED: "several have this key",
    }
    return known.get(difference["kind"], str(difference["column"]))
