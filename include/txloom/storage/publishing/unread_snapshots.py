"""Rows of a connector's snapshot that cannot be read: nothing of the snapshot is shown while there are any (ADR 52).

Each row of a snapshot is a transaction by itself. Without this a table lacked the rows that are dead letters, and what
belongs to them stood beside it. It holds until a redrive releases them, or somebody dismisses them.

A file that ends inside a message is landed once it has not changed for `patience`. The csn of that message is not
known, so the message counts as a row of the lowest snapshot that no cut shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import answer, exists, opened
from txloom.storage.landing.retaken_snapshots import OF_WHOLE_TABLES
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.transactions.events import NOWHERE

_PLACE = ("topic", "partition", '"offset"', "file", "line")
"""What a message that is landed again keeps."""


@dataclass(frozen=True)
class Unread:
    """Rows of one table in one snapshot that cannot be read; since: when the first was given up."""

    csn: int
    table: str | None
    rows: int
    since: datetime


def lowest(paths: TablePaths, newest: int | None, seen: BufferState | None) -> int | None:
    """Return the lowest csn of a row that cannot be read, of a snapshot that no cut shows yet; None without any."""
    return min((each.csn for each in unread(paths, newest, seen)), default=None)


def unread(paths: TablePaths, newest: int | None, seen: BufferState | None) -> list[Unread]:
    """Return the rows that cannot be read of snapshots that no cut shows yet, in commit order.

    Args:
        paths: where the tables are.
        newest: the highest csn of a snapshot; where a cut shows it, nothing more is read.
        seen: the buffer's state: a redrive counts once the buffer has taken it.
    """
    if newest is None or seen is None or not exists(paths.dead_letters):
        return []
    cut = newest_cut(paths, "valid_through")
    shown = NOWHERE if cut is None else cut["valid_through"]
    if newest <= shown:
        return []
    within = f"csn > {shown} and csn <= {newest}"
    rows = _not_released(paths, within, seen) + _cut_off(paths, within)
    again = _read_again(paths, rows, seen) if any(row["kind"] == "poison" for row in rows) else set()
    counted: dict[tuple[int, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] != "poison" or (row["landing"], row["row"]) not in again:
            counted.setdefault((row["csn"], row["table"]), []).append(row)
    ordered = sorted(counted.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    return [
        Unread(csn, table, len(rows_of), min(row["dead_at"] for row in rows_of)) for (csn, table), rows_of in ordered
    ]


def _not_released(paths: TablePaths, within: str, seen: BufferState) -> list[dict[str, Any]]:
    """Return dead letters of snapshots, of each message the newest, that were neither released nor dismissed.

    within: a condition on their csn.
    """
    of_snapshot = f"op = 'r' and pos = 0 and {within} and not starts_with(coalesce(xid, ''), '{names.SYSTEM_PREFIX}')"
    if not exists(paths.table(names.TRANSACTIONS)):
        return _newest(paths, of_snapshot)
    released = f"select * from t where status = 'released' and release <= {seen.release} and {within}"
    same = "r.transaction_id = d.transaction_id and r.csn = d.csn"
    return _newest(paths, of_snapshot, f"not exists (select 1 from ({released}) as r where {same})")


def _cut_off(paths: TablePaths, within: str) -> list[dict[str, Any]]:
    """Return open dead letters of messages in which a file ends, while the rest of the file has not come.

    within: a condition on the csn of snapshots that no cut shows.
    """
    if not exists(paths.table(names.FILE_POSITIONS)):
        return []
    newest = "select *, row_number() over (partition by topic, file order by landing desc) as n from t"
    ends = f"select topic, file, lines + 1 as line from ({newest}) as p where n = 1 and tail > 0 and lost is null"
    places = {tuple(row.values()) for row in small_tables.query(paths.table(names.FILE_POSITIONS), ends)}
    letters = _newest(paths, "kind = 'poison' and csn is null and file is not null") if places else []
    cut_off = [row for row in letters if (row["topic"], row["file"], row["line"]) in places]
    of_snapshot = f"select min(csn) as csn from t where {OF_WHOLE_TABLES} and {within}"
    (lowest,) = small_tables.query(paths.change_events, of_snapshot) if cut_off else [{"csn": None}]
    return [{**row, "csn": lowest["csn"]} for row in cut_off if lowest["csn"] is not None]


def _newest(paths: TablePaths, where: str, *more: str) -> list[dict[str, Any]]:
    """Return the newest dead letter of each message, unless it was dismissed.

    Args:
        paths: where the tables are.
        where: a condition on dead letters.
        more: conditions on the newest dead letters, as `d`; they may read the transactions, as `t`.
    """
    order = (
        f"row_number() over (partition by {', '.join(_PLACE)} order by landing desc, coalesce(release, 0) desc) as n"
    )
    tables, conditions = {"l": opened(paths.dead_letters)}, ["d.n = 1", *more]
    if exists(paths.table(names.DISMISSALS)):
        tables["x"] = opened(paths.table(names.DISMISSALS))
        conditions.append('not exists (select 1 from x where x.landing = d.landing and x."row" = d."row")')
    if more:
        tables["t"] = opened(paths.table(names.TRANSACTIONS))
    dead = f"(select *, {order} from l where {where}) as d"
    columns = 'd.csn, d."table", d.kind, d.landing, d."row", d.dead_at, d.topic, d.file, d.line'
    sql = f"select {columns} from {dead} where {' and '.join(conditions)}"
    rows: list[dict[str, Any]] = answer(tables, sql).to_pylist()
    return rows


def _read_again(paths: TablePaths, rows: Sequence[dict[str, Any]], seen: BufferState) -> set[tuple[int, int]]:
    """Return landing and row of messages that could not be taken as events, and that a later landing took as such."""
    since = min(row["landing"] for row in rows)
    same = " and ".join(f"(c.{name} is not distinct from d.{name})" for name in _PLACE)
    later = f"select * from e where landing > {since} and landing <= {seen.landing} and kind = 'row' and op = 'r'"
    poison = f"select * from l where kind = 'poison' and landing >= {since}"
    sql = f'select d.landing, d."row" from ({poison}) as d where exists (select 1 from ({later}) as c where {same})'
    tables = {"l": opened(paths.dead_letters), "e": opened(paths.change_events)}
    return {(row["landing"], row["row"]) for row in answer(tables, sql).to_pylist()}
