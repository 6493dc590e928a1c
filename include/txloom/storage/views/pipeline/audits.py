"""What the newest audits found in each table."""

from txloom.config.models.pipeline import Pipeline
from txloom.quality import masking
from txloom.storage.checks.audited_rows import masked, newest_results
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, open_tables, sliced

ORDER = ("different", "unsettled", "behind", "equal")
SHOWN = 200
"""Differences of one table that are shown; `differing` counts the rows that have any."""


@open_tables
def audits(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the newest result of each table, those that differ first; as of the newest audit.

    rows: table, verdict, rows, differing, unsettled, at, run_id, source_position, cut_id, valid_through,
    source_seconds, folder, differences (key, kind, column, lake, source, csn; secrets masked), and has_more:
    whether there are more than these.
    """
    rows = newest_results(TablePaths(warehouse, pipeline.name))
    secret = masking.secret_names(pipeline)
    for row in rows:
        differences = row["differences"] or []
        row["differences"] = [masked(each, secret) for each in differences[:SHOWN]]
        row["has_more"] = len(differences) > SHOWN or len({str(each["key"]) for each in differences}) < row["differing"]
    rows.sort(key=lambda row: (ORDER.index(row["verdict"]), row["table"]))
    return sliced(rows, number, size, max((row["at"] for row in rows), default=None))
