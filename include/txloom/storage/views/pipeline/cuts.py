"""Published cuts, and the readers that hold them."""

from datetime import UTC, datetime

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import reader_holds
from txloom.storage.views.paging import SIZE, Page, last_step, limits, open_tables, sliced

SHOWN = 20
"""Gaps and amended cuts of one cut that are listed; counts count all of them."""


@open_tables
def cuts(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return published cuts, the newest first.

    rows: cut_id, run_id, valid_through, committed_at, published_at, versions (table to Delta version), gap_count and
    gaps (xid, csn, cause), amend_count and amends (cut_id, xid, csn), left_out (current tables of the declaration that
    the newest cut lacks; of older cuts none are named).
    """
    paths, bounds = TablePaths(warehouse, pipeline.name), limits(number, size)
    path = paths.table(names.CUTS)
    total = small_tables.query(path, "select count(*) as n from t")
    columns = "cut_id, run_id, valid_through, release, committed_at, published_at, versions"
    for name in ("gaps", "amends"):
        columns += f", array_slice({name}, 1, {SHOWN}) as {name}"
        columns += f", coalesce(array_length({name}), 0) as {name.removesuffix('s')}_count"
    rows = small_tables.query(path, f"select {columns} from t order by cut_id desc {bounds}")
    for row in rows:
        row |= {"left_out": [], **{name: row[name] or [] for name in ("gaps", "amends")}}
    if rows and number == 1:
        shown = dict(rows[0]["versions"] or ())
        rows[0]["left_out"] = [name for name in pipeline.current_tables if name not in shown]
    return Page(rows, total[0]["n"] if total else 0, number, size, last_step(paths))


@open_tables
def holds(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the holds that last now, because of which vacuum keeps files: reader, cut_id, since, until."""
    paths, now = TablePaths(warehouse, pipeline.name), datetime.now(UTC)
    rows = [row for row in reader_holds.holding(paths) if row["until"] > now]
    return sliced(rows, number, size, last_step(paths))
