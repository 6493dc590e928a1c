"""Valid-through: the largest csn at or below which every transaction heard of is finished."""

from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import answer, opened
from txloom.storage.delta.sql import text_literal
from txloom.storage.landing import connector_snapshots, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import unread_snapshots
from txloom.transactions.events import NOWHERE


def valid_through(paths: TablePaths, seen: BufferState) -> int:
    """Return valid-through: the largest csn at or below which every transaction heard of is finished.

    docs/architecture.md, promise 4, says why; 0: none is finished. These bound it:

    - pending transactions, other than those that a loaded snapshot of all tables contains;
    - the low watermark over several partitions; a single one is in commit order, so that what it has not shown lies
      above;
    - the highest csn of a finished transaction. Not counted are a loaded snapshot of some tables, a connector's
      snapshot unless the stream begins, or begins anew, with it, and a truncate outside of any transaction (MySQL),
      because metadata of earlier transactions may come after them;
    - rows of a connector's snapshot that cannot be read, until they are, or are dismissed (`unread_snapshots`);
    - a finished transaction whose metadata came behind that of a pending one without a csn (`_behind_unplaced`).

    Args:
        paths: where the tables are.
        seen: the buffer's state, up to whose release transactions count.
    """
    below = loaded_snapshots.floor(paths, seen.release)
    sql = f"select min(csn) as lowest from t where csn > {below}"
    waiting = small_tables.query(paths.table(names.PENDING_TRANSACTIONS), sql)
    lowest = waiting[0]["lowest"] if waiting else None
    snapshots = connector_snapshots.progress(paths, seen.landing + 1)
    initial = NOWHERE if snapshots.initial is None else snapshots.initial
    condition = f"release <= {seen.release} and (csn = {initial} or not starts_with(coalesce(xid, ''), 'r:'))"
    condition += " and not starts_with(coalesce(xid, ''), 't:')"
    if loaded_snapshots.landed(paths):
        condition += f" and not starts_with(xid, '{loaded_snapshots.PARTIAL}')"
    if lowest is not None:
        condition += f" and csn < {lowest}"
    if seen.reached is not None:
        condition += f" and csn <= {max(below, seen.reached)}"
    if (unread := unread_snapshots.lowest(paths, snapshots.newest, seen)) is not None:
        condition += f" and csn < {unread}"
    behind = _behind_unplaced(paths)
    if behind is not None:
        condition += f" and csn < {behind}"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), f"select max(csn) as newest from t where {condition}")
    return int((rows[0]["newest"] if rows else 0) or 0)


def _behind_unplaced(paths: TablePaths) -> int | None:
    """Return the lowest csn of a finished transaction whose metadata came behind that of a pending one without a csn.

    Metadata of Oracle, and of MySQL with GTIDs, has no csn: before a row of its transaction comes, only its position in
    the topic shows the commit order, so the two are of one topic. None where no such transaction is pending, or nothing
    behind it is finished. A finished transaction of which no row is watched has no csn either (NOWHERE): it bounds
    nothing.
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
    sql = f"select min(csn) as lowest from t where csn <> {NOWHERE} and transaction_id in ({behind})"
    lowest: int | None = answer(tables, sql).column("lowest")[0].as_py()
    return lowest
