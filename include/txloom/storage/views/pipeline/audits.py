"""What the newest audits found in each table."""

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality import masking
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import SIZE, Page, Row, open_tables, sliced

ORDER = ("different", "unsettled", "behind", "equal")
NEWEST = """
    select * from (select *, row_number() over (partition by "table" order by at desc) as n from t) where n = 1
"""
SHOWN = 200
"""Differences of one table that are shown; `differing` counts the rows that have any."""


@open_tables
def audits(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the newest result of each table, those that differ first; as of the newest audit.

    rows: table, verdict, rows, differing, unsettled, at, run_id, source_position, cut_id, valid_through,
    source_seconds, differences (key, kind, column, lake, source, csn; secrets masked, but for keys), and has_more:
    whether there are more than these.
    """
    rows = small_tables.query(TablePaths(warehouse, pipeline.name).table(names.AUDIT_RESULTS), NEWEST)
    secret = masking.secret_names(pipeline)
    for row in rows:
        differences = row["differences"] or []
        row["differences"] = [_shown(each, secret) for each in differences[:SHOWN]]
        row["has_more"] = len(differences) > SHOWN or len({str(each["key"]) for each in differences}) < row["differing"]
    rows.sort(key=lambda row: (ORDER.index(row["verdict"]), row["table"]))
    return sliced(rows, number, size, max((row["at"] for row in rows), default=None))


def _shown(difference: Row, secret: frozenset[str]) -> Row:
    shown = {**difference, "key": dict(difference["key"])}
    if difference["column"] is not None and (difference["column"] in secret or masking.is_secret(difference["column"])):
        shown |= {side: masking.MASK for side in ("lake", "source") if difference[side] is not None}
    return shown
