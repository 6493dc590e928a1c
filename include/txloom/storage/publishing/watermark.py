"""How far a pipeline is: valid-through, and what each current table holds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.delta import small_tables
from txloom.storage.delta.commit_metadata import newest_metadata
from txloom.storage.delta.read_session import answer, exists, opened
from txloom.storage.delta.sql import text_literal
from txloom.storage.landing import connector_snapshots, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut


@dataclass(frozen=True, order=True)
class Watermark:
    """How far a table is: everything up to the csn `valid_through` that was released up to `release`."""

    valid_through: int = 0
    release: int = 0

    def to_json(self) -> str:
        """Return the watermark as a commit's userMetadata.

        >>> Watermark(7, 3).to_json()
        '{"valid_through": 7, "release": 3}'
        """
        return json.dumps(vars(self))


def watermark_of(path: str) -> Watermark:
    """Return how far a current table is."""
    about = newest_metadata(path)
    return Watermark(about.get("valid_through", 0), about.get("release", 0))


def merged(paths: TablePaths, tables: Sequence[str]) -> Watermark | None:
    """Return the mark up to which the last merge brought all tables; tables that had no change stay at an older one."""
    merges = "step = 'merge_current' and detail is null"
    row = small_tables.newest(paths.table(names.LEDGER), "valid_through, counts", merges)
    if row is None:
        return None
    reached = Watermark(row["valid_through"], dict(row["counts"])["release"])
    return None if any(watermark_of(paths.table(name)) > reached for name in tables) else reached


def valid_through(paths: TablePaths, seen: BufferState) -> int:
    """Return the largest csn at or below which every transaction heard of is finished (docs/architecture.md, 4).

    One partition of metadata is in commit order: what it has not shown yet lies above; several are together as far as
    the last of them. What a snapshot of all tables contains need not be waited for; one of some tables says nothing of
    the others, so that the stream has to reach its csn first. So it has to reach what a connector sends of a snapshot,
    unless the stream begins with it, and a truncate outside of any transaction (MySQL), which may come before the
    metadata of earlier ones.
    """
    below = loaded_snapshots.floor(paths, seen.release)
    sql = f"select min(csn) as lowest from t where csn > {below}"
    waiting = small_tables.query(paths.table(names.PENDING_TRANSACTIONS), sql)
    lowest = waiting[0]["lowest"] if waiting else None
    initial = connector_snapshots.initial(paths, seen.landing)
    condition = f"release <= {seen.release} and (csn <= {initial} or not starts_with(coalesce(xid, ''), 'r:'))"
    condition += " and not starts_with(coalesce(xid, ''), 't:')"
    if loaded_snapshots.landed(paths):
        condition += f" and not starts_with(xid, '{loaded_snapshots.PARTIAL}')"
    if lowest is not None:
        condition += f" and csn < {lowest}"
    if seen.reached is not None:
        condition += f" and csn <= {max(below, seen.reached)}"
    behind = _behind_unplaced(paths)
    if behind is not None:
        condition += f" and csn < {behind}"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), f"select max(csn) as newest from t where {condition}")
    return int((rows[0]["newest"] if rows else 0) or 0)


def _behind_unplaced(paths: TablePaths) -> int | None:
    """Return the lowest csn of what was finished although its metadata came behind that of one that still waits.

    Oracle's metadata, and MySQL's with GTIDs, does not say where its transaction was committed: before a row of it
    came, only its place among the others' in their topic does: what txloom counts itself has one of its own. None where
    nothing waits so, or nothing behind it is finished.
    """
    waiting = "select transaction_id from p where csn is null and expected is not null"
    first = f"select landing, \"row\", topic from e where kind = 'metadata' and transaction_id in ({waiting})"
    try:
        tables = {"p": opened(paths.table(names.PENDING_TRANSACTIONS)), "t": opened(paths.table(names.TRANSACTIONS))}
        if not answer(tables, f"{waiting} limit 1").num_rows:
            return None
        tables["e"] = opened(paths.change_events)
    except TableNotFoundError:
        return None
    where = answer(tables, f'{first} order by landing, "row" limit 1').to_pylist()[0]
    later = f'landing > {where["landing"]} or landing = {where["landing"]} and "row" > {where["row"]}'
    of_topic = f"kind = 'metadata' and topic = {text_literal(where['topic'])}"
    behind = f"select transaction_id from e where {of_topic} and ({later})"
    sql = f"select min(csn) as lowest from t where transaction_id in ({behind})"
    lowest: int | None = answer(tables, sql).column("lowest")[0].as_py()
    return lowest


def gone(paths: TablePaths, tables: Sequence[str]) -> list[str]:
    """Return which of some tables the newest cut names although they are not there any more."""
    cut = newest_cut(paths, "versions")
    shown = dict(cut["versions"] or ()) if cut else {}
    return [name for name in tables if name in shown and not exists(paths.table(name))]
