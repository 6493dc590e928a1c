"""Look up which transactions of a landing were finished before, in the table `transactions`.

The buffer remembers the newest finished transactions only (`txloom.transactions.memory`).
"""

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.config.identity import GTID
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.sql import text_list
from txloom.storage.paths import TablePaths
from txloom.transactions import memory
from txloom.transactions.compact_events import positions_of

CONCERNED = ("row", "metadata")
"""The kinds of events whose transactions are looked up."""


def finished_before(paths: TablePaths, events: pa.Table) -> np.ndarray:
    """Return the transactions of some events that were finished before these came.

    While fewer transactions were finished than one bucket of the buffer remembers, it has forgotten none, and nothing
    is read. Else a transaction is looked up by id and csn, because an id may be used again, between the lowest and the
    highest csn of the events: new transactions lie above all finished ones, so that few files are read. These are
    looked up by id alone, as in the buffer's memory:

    - one with a GTID, which is not used again. Its rows have csns of their events, at or below that of the transaction,
      so that it is looked up from the lowest of them on;
    - one of which no event has a csn, unless the finished one lies before its rows in the log;
    - one that was given up before any event had its csn.

    Args:
        paths: where the tables are.
        events: rows of change_events.

    Returns:
        an array of `memory.AT_POSITION`, each transaction once, with its highest csn.
    """
    table = _table(paths)
    if table is None or not events.num_rows:
        return np.empty(0, memory.AT_POSITION)
    size: int = arrow_tables.ask({"t": table}, "select count(*) as n from t").column("n")[0].as_py()
    if size <= memory.REMEMBERED:
        return np.empty(0, memory.AT_POSITION)
    heard = _heard(events)
    if not heard.num_rows:
        return np.empty(0, memory.AT_POSITION)
    is_placed = pc.is_valid(heard.column("csn"))
    never_back = pc.match_substring_regex(heard.column("transaction_id"), f"^(?:{GTID.pattern})$")
    by_both = heard.filter(pc.and_not(is_placed, never_back))
    by_id = heard.filter(pc.and_(is_placed, never_back)), heard.filter(pc.invert(is_placed))
    parts = [_with_id_and_csn(table, by_both), *(_with_id(table, id_only) for id_only in by_id)]
    placed = np.concatenate([*parts, _given_up(paths, table, heard)])
    placed = placed[np.lexsort((-placed["csn"], placed["tx"]))]
    return placed[np.unique(placed["tx"], return_index=True)[1]]


def _with_id_and_csn(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    """Return the transactions of which the table has the id with the same csn."""
    if not heard.num_rows:
        return np.empty(0, memory.AT_POSITION)
    lowest, highest = pc.min(heard.column("csn")).as_py(), pc.max(heard.column("csn")).as_py()
    csns = heard.column("csn").combine_chunks()
    sql = f"select transaction_id, csn from t where csn between {lowest} and {highest}"
    matches = [rows.filter(pc.is_in(rows.column("csn"), csns)) for rows in arrow_tables.batches({"t": table}, sql)]
    known = (
        heard.join(pa.concat_tables(matches), ["transaction_id", "csn"], join_type="left semi")
        if matches
        else heard[:0]
    )
    return _in_memory_layout(known)


def _with_id(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    """Return the transactions of which the table has the id, with a csn that is not before their rows."""
    if not heard.num_rows:
        return np.empty(0, memory.AT_POSITION)
    lowest = pc.min(pc.coalesce(heard.column("csn"), heard.column("log_position"))).as_py()
    sql = "select transaction_id, csn from t" + (f" where csn >= {lowest}" if lowest > 0 else "")
    ids = heard.column("transaction_id").combine_chunks()
    matches = [
        rows.filter(pc.is_in(rows.column("transaction_id"), ids)) for rows in arrow_tables.batches({"t": table}, sql)
    ]
    known = pa.concat_tables(matches) if matches else heard.select(["transaction_id", "csn"])[:0]
    known = known.join(heard.select(["transaction_id", "tx", "log_position"]), "transaction_id", join_type="inner")
    has_position = pc.greater(known.column("log_position"), pa.scalar(0))
    behind = pc.and_(has_position, pc.less(known.column("csn"), known.column("log_position"))).fill_null(False)
    return _in_memory_layout(known.filter(pc.invert(cast("pa.BooleanArray", behind))))


def _given_up(paths: TablePaths, table: DeltaTable, heard: pa.Table) -> np.ndarray:
    """Return transactions that were given up without a csn and not decided again since.

    They are looked up in the dead letters, which are fewer than the transactions.
    """
    if not exists(paths.dead_letters):
        return np.empty(0, memory.AT_POSITION)
    ids = heard.column("transaction_id").combine_chunks()
    sql = "select transaction_id from t where csn is null and kind in ('row', 'metadata')"
    dead_letters = arrow_tables.batches({"t": opened(paths.dead_letters)}, sql)
    all_dead = {each for rows in dead_letters for each in rows.column("transaction_id").unique().to_pylist()}
    dead = cast("set[str]", all_dead & set(ids.to_pylist()))
    if not dead:
        return np.empty(0, memory.AT_POSITION)
    sql = f"select transaction_id, csn, release from t where transaction_id in ({text_list(sorted(dead))})"
    given_up_rows = arrow_tables.ask({"t": table}, f"{sql} order by release").to_pylist()
    newest = {row["transaction_id"]: row["csn"] for row in given_up_rows}
    open_ones = pa.array([name for name, csn in newest.items() if csn is None], pa.string())
    known = heard.filter(pc.is_in(heard.column("transaction_id"), open_ones)).select(["transaction_id", "tx"])
    return _in_memory_layout(known.append_column("csn", pa.nulls(known.num_rows, pa.int64())))


def _in_memory_layout(known: pa.Table) -> np.ndarray:
    """Return transactions, with the columns tx and csn, as `memory.AT_POSITION`."""
    placed = np.empty(known.num_rows, memory.AT_POSITION)
    placed["tx"] = known.column("tx").to_numpy()
    placed["csn"] = known.column("csn").combine_chunks().fill_null(-1).to_numpy()
    return placed


def _table(paths: TablePaths) -> DeltaTable | None:
    try:
        return opened(paths.table(names.TRANSACTIONS))
    except TableNotFoundError:
        return None


def _heard(events: pa.Table) -> pa.Table:
    """Return transaction_id, tx, csn and log_position of each transaction of some events.

    There is a row for each csn that its events have, and one with null where none has one. log_position: the lowest
    position in the source's log of its rows without a csn; 0 where there is none.
    """
    concerned = pc.and_(pc.is_in(events.column("kind"), pa.array(CONCERNED)), pc.is_valid(events.column("tx")))
    concerned_events = events.filter(concerned)
    concerned_events = concerned_events.select(["transaction_id", "tx", "csn"]).append_column(
        "log_position", pa.array(positions_of(concerned_events))
    )
    transactions = (
        concerned_events.group_by(["transaction_id", "tx", "csn"])
        .aggregate([("log_position", "min")])
        .rename_columns(concerned_events.column_names)
    )
    placed = transactions.filter(pc.is_valid(transactions.column("csn")))
    unknown = transactions.filter(pc.is_null(transactions.column("csn")))
    is_alone = pc.invert(pc.is_in(unknown.column("tx"), placed.column("tx").combine_chunks()))
    return pa.concat_tables([placed, unknown.filter(is_alone)])
