"""Runs of a pipeline: the ledger by run, backfills, rebuilds after edits, and the source's partitions."""

from datetime import UTC, datetime

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.landing import partition_watermarks
from txloom.storage.paths import TablePaths
from txloom.storage.targets import shadow_tables
from txloom.storage.views.paging import SIZE, Page, Row, last_step, limits, open_tables, sliced

CARRIED = "carried forward"
"""The run id of rows in which maintenance added up older runs (`storage.maintenance.expiry`)."""


@open_tables
def runs(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return what each run wrote into the ledger, the newest run first.

    rows: run_id, began, ended, balanced (None: it checked no balance), steps: step, at, counts, valid_through,
    balanced, detail, batch, generation, in the order in which they ended.
    """
    paths, bounds = TablePaths(warehouse, pipeline.name), limits(number, size)
    path, others = paths.table(names.LEDGER), f"run_id <> '{CARRIED}'"
    total = small_tables.query(path, f"select count(distinct run_id) as n from t where {others}")
    sums = "run_id, min(at) as began, max(at) as ended"
    newest = f"select {sums} from t where {others} group by run_id order by ended desc, run_id desc {bounds}"
    newest_rows = small_tables.query(path, newest)
    if not newest_rows:
        return Page([], total[0]["n"] if total else 0, number, size, last_step(paths))
    ids = text_list(row["run_id"] for row in newest_rows)
    columns = "run_id, step, at, counts, valid_through, balanced, detail, batch, generation"
    steps: dict[str, list[Row]] = {}
    for step in small_tables.query(path, f"select {columns} from t where run_id in ({ids}) order by at, step"):
        steps.setdefault(step.pop("run_id"), []).append(step)
    rows = [{**row, "balanced": _balanced(steps[row["run_id"]]), "steps": steps[row["run_id"]]} for row in newest_rows]
    return Page(rows, total[0]["n"], number, size, last_step(paths))


def _balanced(steps: list[Row]) -> bool | None:
    balances = [step["balanced"] for step in steps if step["balanced"] is not None]
    return all(balances) if balances else None


@open_tables
def backfills(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return backfills, the newest first: run_id, status, at, from_csn, to_csn, counts, detail, and tables.

    to_csn: None: to the end. tables: of each rebuilt table: table, status, counts, detail, at. What a merge rebuilds
    after an edit is not a backfill: see `edits`.
    """
    paths = TablePaths(warehouse, pipeline.name)
    of_backfills = f"detail is distinct from {text_literal(shadow_tables.EDITED)}"
    bounded = f"nullif(to_csn, {shadow_tables.TO_THE_END}) as to_csn"
    newest = 'row_number() over (partition by run_id, "table" order by at desc) as n'
    columns = f'run_id, "table", status, from_csn, {bounded}, counts, detail, at'
    sql = f'select {columns} from (select *, {newest} from t where {of_backfills}) where n = 1 order by "table"'
    by_run: dict[str, Row] = {}
    for row in small_tables.query(paths.table(names.BACKFILLS), sql):
        each = by_run.setdefault(row["run_id"], {"run_id": row["run_id"], "at": row["at"], "tables": []})
        each["at"] = max(each["at"], row["at"])
        if row["table"] is None:
            each |= {name: row[name] for name in ("status", "from_csn", "to_csn", "counts", "detail")}
        else:
            each["tables"].append({name: row[name] for name in ("table", "status", "counts", "detail", "at")})
    empty: Row = dict.fromkeys(("status", "from_csn", "to_csn", "counts", "detail"))
    rows = [{**empty, **each} for each in sorted(by_run.values(), key=lambda each: each["at"], reverse=True)]
    return sliced(rows, number, size, last_step(paths))


@open_tables
def edits(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return what merges rebuilt, copied or computed again after edits of the declaration, the newest first.

    rows: run_id; what (in words: whether it still runs, and the tables); tables (source tables that were rebuilt or
    copied, and current tables that were computed; none if an older version rebuilt them); at.
    """
    paths = TablePaths(warehouse, pipeline.name)
    of_edits = [each for each in reversed(shadow_tables.read_rebuilds(paths)) if each.is_edit]
    rows: list[Row] = [
        {"run_id": each.run_id, "what": str(each), "tables": each.all_tables, "at": each.at} for each in of_edits
    ]
    return sliced(rows, number, size, last_step(paths))


@open_tables
def partitions(pipeline: Pipeline, warehouse: str, *, number: int = 1, size: int = SIZE) -> Page:
    """Return the watermark of each partition, the furthest behind first; none where transactions do not wait for all.

    rows: topic, partition, csn (None: it has shown none), at, unreadable_since (a message behind this csn could not be
    read; None: all could).
    """
    paths = TablePaths(warehouse, pipeline.name)
    known = partition_watermarks.as_rows(paths, pipeline)
    rows = [{**row, "at": datetime.fromtimestamp(row["at"] / 1e6, UTC)} for row in known]
    return sliced(rows, number, size, last_step(paths))
