"""The rows of history that a transaction was released as, and the first cut that shows it."""

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations import records
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import sql_name, text_literal
from txloom.storage.edits.pending_edits import refuse_pending
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import RowTable, row_tables
from txloom.storage.views.paging import Row

KEYS = 20
"""Rows of each history whose keys are listed; counts count all of them."""


def written(pipeline: Pipeline, paths: TablePaths, csn: int, xid: str | None) -> list[Row]:
    """Return the history rows of a transaction by table.

    Each: table, history, rows (their number), and keys: op and key of the first rows, by position.

    Raises:
        BeforeHistory: the next cycle has yet to bring a history to the declared key of its table.
    """
    refuse_pending(pipeline, paths, records.states(records.read(paths)), row_tables(pipeline), keys_only=True)
    named = "null" if xid is None else text_literal(xid)
    whose = f"_txloom_csn = {csn} and _txloom_xid is not distinct from {named}"
    counted = [_of(row_table, paths, whose) for row_table in row_tables(pipeline)]
    return [row for row in counted if row["rows"]]


def _of(row_table: RowTable, paths: TablePaths, whose: str) -> Row:
    path = paths.table(row_table.history)
    key = {name: name for name in row_table.table.key}
    if row_table.mirror is not None:
        changes = f"(select * from t where {whose}) as c"
        columns = {**{name: sql_name(name) for name in key}, "op": "_txloom_op", "pos": "_txloom_pos"}
    else:
        changes = f'(select unnest("{row_table.field}") as change from t where {whose}) as c'
        coordinates = {**key, "op": "_txloom_op", "pos": "_txloom_pos"}
        columns = {name: f"get_field(change, '{column}')" for name, column in coordinates.items()}
    total = small_tables.query(path, f"select count(*) as n from {changes}")
    shown = ", ".join(f'{sql} as "{name}"' for name, sql in columns.items())
    rows = small_tables.query(path, f"select {shown} from {changes} order by {columns['pos']} limit {KEYS}")
    keys = [{"op": row["op"], "pos": row["pos"], "key": {name: row[name] for name in key}} for row in rows]
    return {
        "table": row_table.table.name,
        "history": row_table.history,
        "rows": total[0]["n"] if total else 0,
        "keys": keys,
    }


def first_cut(paths: TablePaths, csn: int | None, release: int) -> Row | None:
    """Return the first cut that shows a release up to a csn: cut_id, published_at, valid_through, run_id."""
    if csn is None:
        return None
    columns = "cut_id, run_id, published_at, valid_through"
    where = f"valid_through >= {csn} and release >= {release}"
    sql = f"select {columns} from t where {where} order by cut_id limit 1"
    return next(iter(small_tables.query(paths.table(names.CUTS), sql)), None)
