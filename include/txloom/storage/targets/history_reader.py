"""Read history tables into this process: the changes of a table, and the csn as of a time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.errors import BeforeHistory, BeyondValidThrough
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import instant_literal, sql_name, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.valid_through import valid_through
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable

CLEANED = f"{names.SYSTEM_PREFIX}cleaned"
"""The txnAppId whose txnVersion in a history is the csn up to which superseded rows were removed."""
SHARED = ("_txloom_xid", "_txloom_csn", "_txloom_committed_at", "_txloom_release")
"""The columns of an aggregate's history that all changes in a row share."""


def known(paths: TablePaths) -> Watermark:
    """Return the watermark up to which history is complete: valid-through and the newest release; zeros before any."""
    seen = buffer_state(paths)
    return Watermark() if seen is None else Watermark(valid_through(paths, seen), seen.release)


def cleaned(paths: TablePaths, row_table: RowTable) -> int:
    """Return the csn below which history no longer has every state of a table; 0: it has all of them."""
    return (
        0
        if row_table.mirror is None
        else max(small_tables.last_written(paths.table(row_table.mirror.history), CLEANED), 0)
    )


def refuse_cleaned(paths: TablePaths, row_table: RowTable, watermark: Watermark) -> None:
    """Raise BeforeHistory where rows of the state at a watermark were removed from history."""
    if watermark.valid_through < (since := cleaned(paths, row_table)):
        raise BeforeHistory(
            f"as of csn {watermark.valid_through}: the history of {row_table.table.name} was cleaned up to {since} "
            "(maintenance.history.keep); from there on every state can be read"
        )


def changes(paths: TablePaths, row_table: RowTable, watermark: Watermark) -> pa.Table:
    """Return every change of a table up to a watermark, in the schema of a mirror's history."""
    return chosen(paths, row_table, upto(watermark))


def upto(watermark: Watermark) -> str:
    """Return the SQL condition of changes up to a watermark."""
    return f"_txloom_csn <= {watermark.valid_through} and _txloom_release <= {watermark.release}"


def between(merged: Watermark, until: Watermark) -> str:
    """Return the SQL condition of changes between two watermarks of a table, with late ones below the first.

    DataFusion and Spark read it, and so they do that of `upto` and of `late`.
    """
    in_order = f"(_txloom_csn > {merged.valid_through} and _txloom_csn <= {until.valid_through})"
    return f"_txloom_release <= {until.release} and ({in_order} or ({late(merged)}))"


def late(merged: Watermark) -> str:
    """Return the SQL condition of late changes: at or below a watermark's csn, and released after the watermark."""
    return f"_txloom_csn <= {merged.valid_through} and _txloom_release > {merged.release}"


def chosen(paths: TablePaths, row_table: RowTable, where: str) -> pa.Table:
    """Return some changes of a table.

    Args:
        paths: where the tables are.
        row_table: the table.
        where: a SQL condition on the rows of its history.

    Returns:
        the changes in the schema of a mirror's history. A column that was declared after the history was written is
        null; without a history table there is no row.
    """
    nothing = schemas.changes_schema(row_table.table).empty_table()
    return pa.concat_tables([nothing, *parts(paths, row_table, where)])


def parts(
    paths: TablePaths, row_table: RowTable, where: str, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Return the rows of `chosen` part by part, as they are read.

    columns: the only ones of a mirror that are read, others are null then; None: all.
    """
    schema = schemas.changes_schema(row_table.table)
    if row_table.mirror is None:
        read = ", ".join(map(sql_name, [*SHARED, row_table.field]))
    else:
        read = "*" if columns is None else ", ".join(map(sql_name, dict.fromkeys(columns)))
    try:
        table = opened(paths.table(row_table.history))
    except TableNotFoundError:
        return iter(())
    batches = arrow_tables.batches({"t": table}, f"select {read} from t where {where}")
    return (arrow_tables.conform(changes_of(rows, row_table), schema) for rows in batches)


def edges(paths: TablePaths, row_table: RowTable, column: str, where: str) -> list[tuple[Any, Any]]:
    """Return the distinct pairs of values that a key column has before and after changes of it.

    where: a SQL condition on rows of its history.
    """
    before, after = f"get_field(_txloom_before, {text_literal(column)})", sql_name(column)
    if column in names.POSITION:
        return []
    if row_table.mirror is None:
        return _nested_edges(paths, row_table, column, where)
    sql = f"select distinct {before} as old, {after} as new from t where _txloom_op = 'U' and {before} <> {after}"
    rows = arrow_tables.select(paths.table(row_table.history), f"{sql} and {where}").to_pylist()
    return [(row["old"], row["new"]) for row in rows]


def _nested_edges(paths: TablePaths, row_table: RowTable, column: str, where: str) -> list[tuple[Any, Any]]:
    """Return the same for a table whose changes lie in an aggregate's history."""
    return edges_of(parts(paths, row_table, where), column)


def edges_of(parts: Iterable[pa.Table], column: str) -> list[tuple[Any, Any]]:
    """Return the pairs of `edges` in changes that are read already; some come more than once."""
    pairs = list[pa.Table]()
    for changes in parts:
        old = pc.struct_field(changes.column("_txloom_before").combine_chunks(), [column])
        images = changes.select(["_txloom_op", column]).rename_columns(["op", "new"]).append_column("old", old)
        is_edge = pc.and_(
            pc.equal(images.column("op"), pa.scalar("U")), pc.not_equal(images.column("old"), images.column("new"))
        )
        pairs.append(images.filter(is_edge).group_by(["old", "new"]).aggregate([]))
    return [(row["old"], row["new"]) for part in pairs for row in part.to_pylist()]


def changes_of(rows: pa.Table, row_table: RowTable) -> pa.Table:
    """Return the changes of a table in rows of the history that holds them, in the schema of a mirror's history.

    The order of the rows is kept, and within a row that of its changes.
    """
    schema = schemas.changes_schema(row_table.table)
    if row_table.mirror is not None:
        return rows
    if not rows.num_rows:
        return schema.empty_table()
    nested = rows.column(row_table.field).combine_chunks()
    parents, members = pc.list_parent_indices(nested), pc.list_flatten(nested)
    columns = {members.type.field(i).name: pc.struct_field(members, [i]) for i in range(members.type.num_fields)}
    changes_read = pa.table(columns | {name: rows.column(name).take(parents) for name in SHARED})
    return (
        changes_read
        if set(schema.names) <= set(changes_read.column_names)
        else arrow_tables.conform(changes_read, schema)
    )


def count(paths: TablePaths, row_table: RowTable, where: str, is_late: str) -> tuple[int, int, int]:
    """Return how many changes of a table there are: all, those of late transactions, and truncates.

    where, is_late: SQL conditions on rows of its history.
    """
    op = "_txloom_op"
    changes = "t"
    if row_table.mirror is None:
        changes = f'(select unnest("{row_table.field}") as change, _txloom_csn, _txloom_release from t) u'
        op = "get_field(change, '_txloom_op')"
    path = paths.table(row_table.history)
    sums = (
        f"sum(case when {is_late} then 1 else 0 end) as late, sum(case when {op} = 'T' then 1 else 0 end) as truncates"
    )
    counted = arrow_tables.select(path, f"select count(*) as changes, {sums} from {changes} where {where}").to_pylist()
    row = counted[0] if counted else {}
    return row.get("changes") or 0, row.get("late") or 0, row.get("truncates") or 0


def absent(paths: TablePaths, row_table: RowTable, where: str) -> set[str]:
    """Return the declared columns that some insert lacks, of the rows of history for which a SQL condition holds."""
    condition = where if row_table.mirror is None else f"({where}) and _txloom_absent is not null"
    return absent_in(parts(paths, row_table, condition, ["_txloom_absent"]))


def absent_in(parts: Iterable[pa.Table]) -> set[str]:
    """Return the declared columns that some insert lacks, of changes that are read already."""
    names_ = set[str]()
    for rows in parts:
        names_ |= set(cast("list[str]", pc.list_flatten(rows.column("_txloom_absent")).unique().to_pylist()))
    return names_


def csn_at(paths: TablePaths, time: datetime) -> int:
    """Return the highest csn of a transaction that was committed at or before a time; 0: none was."""
    sql = f"select max(csn) as csn from t where committed_at <= {instant_literal(time)}"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    return int((rows[0]["csn"] if rows else 0) or 0)


def watermark_at(paths: TablePaths, csn: int | None, time: datetime | None) -> Watermark:
    """Return the watermark as of a csn, or as of a time, with the newest release.

    Raises:
        ValueError: both or none are given.
        BeyondValidThrough: the csn lies above valid-through. For a time valid-through is the limit, without an error.
    """
    if (csn is None) == (time is None):
        raise ValueError("as of what? give either csn or time")
    reached = known(paths)
    if csn is None:
        assert time is not None
        csn = min(csn_at(paths, time), reached.valid_through)
    if csn > reached.valid_through:
        raise BeyondValidThrough(f"as of csn {csn}: history is complete up to {reached.valid_through} only")
    return Watermark(csn, reached.release)
