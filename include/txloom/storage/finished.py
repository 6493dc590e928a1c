"""Transactions that were finished before: what the buffer has forgotten of them, the table `transactions` has not."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.config.identity import GTID
from txloom.storage import local
from txloom.storage.opened import opened
from txloom.storage.place import Place
from txloom.transactions import memory

CONCERNED = ("row", "metadata")


def finished_before(place: Place, events: pa.Table) -> np.ndarray:
    """Return transactions of some events, rows of change_events, that were finished before those came (`PLACED`).

    While fewer transactions were finished than one bucket of the buffer remembers, it has forgotten none, and nothing
    is asked. Else those are looked for between the lowest and the highest csn that the events tell: what is new lies
    above everything that was finished, where no file has to be read. Id and csn must be the same, because an id may
    come back. A GTID never does, and its rows say where they lie themselves, at or before their transaction's csn: such
    a transaction is looked for by its id, from there on. One of which no event tells a csn is known by its id, as the
    buffer's own memory knows it.
    """
    table, heard = _table(place), _heard(events)
    if table is None or not heard.num_rows:
        return np.empty(0, memory.PLACED)
    (size,) = local.ask({"t": table}, "select count(*) as n from t").column("n").to_pylist()
    if size <= memory.REMEMBERED:
        return np.empty(0, memory.PLACED)
    is_placed = pc.is_valid(heard.column("csn"))
    never_back = pc.match_substring_regex(heard.column("transaction_id"), f"^(?:{GTID.pattern})$")
    by_both = heard.filter(pc.and_not(is_placed, never_back))
    by_id = heard.filter(pc.and_(is_placed, never_back)), heard.filter(pc.invert(is_placed))
    found = np.concatenate([_with_id_and_csn(table, by_both), *(_with_id(table, own) for own in by_id)])
    found = found[np.lexsort((-found["csn"], found["tx"]))]
    return found[np.unique(found["tx"], return_index=True)[1]]


def _with_id_and_csn(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    if not heard.num_rows:
        return np.empty(0, memory.PLACED)
    bounds = pc.min_max(heard.column("csn")).as_py()
    wanted = heard.column("csn").combine_chunks()
    sql = f"select transaction_id, csn from t where csn between {bounds['min']} and {bounds['max']}"
    found = [rows.filter(pc.is_in(rows.column("csn"), wanted)) for rows in local.batches({"t": table}, sql)]
    known = (
        heard.join(pa.concat_tables(found), ["transaction_id", "csn"], join_type="left semi") if found else heard[:0]
    )
    return _placed(known)


def _with_id(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    if not heard.num_rows:
        return np.empty(0, memory.PLACED)
    lowest = pc.min(heard.column("csn")).as_py()
    sql = "select transaction_id, csn from t" + (f" where csn >= {lowest}" if lowest is not None else "")
    ids = heard.column("transaction_id").combine_chunks()
    found = [rows.filter(pc.is_in(rows.column("transaction_id"), ids)) for rows in local.batches({"t": table}, sql)]
    known = pa.concat_tables(found) if found else heard.select(["transaction_id", "csn"])[:0]
    return _placed(known.join(heard.select(["transaction_id", "tx"]), "transaction_id", join_type="inner"))


def _placed(known: pa.Table) -> np.ndarray:
    found = np.empty(known.num_rows, memory.PLACED)
    found["tx"], found["csn"] = known.column("tx").to_numpy(), pc.fill_null(known.column("csn"), -1).to_numpy()
    return found


def _table(place: Place) -> DeltaTable | None:
    try:
        return opened(place.table(names.TRANSACTIONS))
    except TableNotFoundError:
        return None


def _heard(events: pa.Table) -> pa.Table:
    """Return transaction_id, tx and csn of each transaction, a row for each csn that events tell; null if none does."""
    concerned = pc.and_(pc.is_in(events.column("kind"), pa.array(CONCERNED)), pc.is_valid(events.column("tx")))
    own = events.filter(concerned).select(["transaction_id", "tx", "csn"])
    told = own.group_by(["transaction_id", "tx", "csn"]).aggregate([])
    placed = told.filter(pc.is_valid(told.column("csn")))
    untold = told.filter(pc.is_null(told.column("csn")))
    is_alone = pc.invert(pc.is_in(untold.column("tx"), placed.column("tx").combine_chunks()))
    return pa.concat_tables([placed, untold.filter(is_alone)])
