"""Transactions that were finished before: what the buffer has forgotten of them, the table `transactions` has not."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.storage import local
from txloom.storage.opened import opened
from txloom.storage.place import Place
from txloom.transactions import memory

CONCERNED = ("row", "metadata")


def finished_before(place: Place, events: pa.Table) -> np.ndarray:
    """Return the hashes of transactions of some events, rows of change_events, that were finished before those came.

    While fewer transactions were finished than one bucket of the buffer remembers, it has forgotten none, and nothing
    is asked. Else those are looked for between the lowest and the highest csn that the events tell: what is new lies
    above everything that was finished, where no file has to be read.
    """
    table, heard = _table(place), _heard(events)
    if table is None or not heard.num_rows:
        return np.empty(0, np.int64)
    (size,) = local.ask({"t": table}, "select count(*) as n from t").column("n").to_pylist()
    if size <= memory.REMEMBERED:
        return np.empty(0, np.int64)
    ids, found = heard.column("transaction_id").combine_chunks(), set[str]()
    for rows in local.batches({"t": table}, f"select transaction_id from t where {_near(heard.column('csn_max'))}"):
        told = rows.column("transaction_id")
        found.update(told.filter(pc.is_in(told, ids)).to_pylist())
    known = pc.is_in(ids, pa.array(sorted(found), pa.string()))
    hashes: np.ndarray = heard.column("tx").combine_chunks().filter(known).to_numpy()
    return hashes


def _table(place: Place) -> DeltaTable | None:
    try:
        return opened(place.table(names.TRANSACTIONS))
    except TableNotFoundError:
        return None


def _heard(events: pa.Table) -> pa.Table:
    """Return transaction_id, tx and csn_max of each transaction that the events are of."""
    concerned = pc.and_(pc.is_in(events.column("kind"), pa.array(CONCERNED)), pc.is_valid(events.column("tx")))
    own = events.filter(concerned).select(["transaction_id", "tx", "csn"])
    return own.group_by(["transaction_id", "tx"]).aggregate([("csn", "max")])


def _near(csn: pa.ChunkedArray) -> str:
    """Return the condition that finds transactions by the csns of events; one that tells none may lie anywhere."""
    if csn.null_count:
        return "true"
    bounds = pc.min_max(csn).as_py()
    return f"csn is null or csn between {bounds['min']} and {bounds['max']}"
