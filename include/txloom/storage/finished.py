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
from txloom.transactions.numbers import places

ID_AND_CSN = pa.schema([("transaction_id", pa.string()), ("csn", pa.int64())])
CONCERNED = ("row", "metadata")


def finished_before(place: Place, events: pa.Table) -> np.ndarray:
    """Return transactions of some events, rows of change_events, that were finished before those came (`PLACED`).

    While fewer transactions were finished than one bucket of the buffer remembers, it has forgotten none, and nothing
    is asked. Else those are looked for between the lowest and the highest csn that the events tell: what is new lies
    above everything that was finished, where no file has to be read. Id and csn must be the same, because an id may
    come back. A GTID never does, and its rows say where they lie themselves, at or before their transaction's csn: such
    a transaction is looked for by its id, from there on; and so is one whose rows tell no csn, but a place in the log.
    One of which no event tells either, or which was given up before one told its csn, is known by its id, as the
    buffer's own memory knows it.
    """
    table, heard = _table(place), _heard(events)
    if table is None or not heard.num_rows:
        return np.empty(0, memory.PLACED)
    (size,) = local.ask({"t": table}, "select count(*) as n from t").column("n").to_pylist()
    if size <= memory.REMEMBERED:
        return np.empty(0, memory.PLACED)
    by_both = pc.and_(pc.is_valid(heard.column("csn")), pc.invert(_never_back(heard)))
    by_id = heard.filter(pc.invert(by_both))
    is_placed = pc.greater(by_id.column("place"), 0)
    parts = by_id.filter(is_placed), by_id.filter(pc.invert(is_placed))
    found = [_with_id_and_csn(table, heard.filter(by_both)), *(_with_id(table, own) for own in parts)]
    return np.unique(np.concatenate([*found, _given_up(table, heard)]))


def _with_id_and_csn(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    if not heard.num_rows:
        return np.empty(0, memory.PLACED)
    bounds, csn = pc.min_max(heard.column("csn")).as_py(), heard.column("csn").combine_chunks()
    told = _asked(table, f"csn between {bounds['min']} and {bounds['max']}", "csn", csn)
    return _placed(heard.join(told, ["transaction_id", "csn"], join_type="left semi"))


def _with_id(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    if not heard.num_rows:
        return np.empty(0, memory.PLACED)
    lowest = pc.min(heard.column("place")).as_py()
    told = _asked(table, f"csn >= {lowest}" if lowest else "true", "transaction_id", _ids(heard))
    known = told.join(heard.select(["transaction_id", "tx", "place"]), "transaction_id", join_type="inner")
    behind = pc.fill_null(pc.greater_equal(known.column("csn"), known.column("place")), True)
    return _placed(known.filter(behind))


def _given_up(table: DeltaTable, heard: pa.Table) -> np.ndarray:
    """Return what was given up before anything told its csn, and not decided again since."""
    told = _asked(table, "csn is null", "transaction_id", _ids(heard))
    if not told.num_rows:
        return np.empty(0, memory.PLACED)
    since = _asked(table, "csn is not null", "transaction_id", _ids(told))
    open_ones = told.join(since, "transaction_id", join_type="left anti")
    return _placed(open_ones.join(heard.select(["transaction_id", "tx"]), "transaction_id", join_type="inner"))


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("transaction_id").combine_chunks()


def _asked(table: DeltaTable, where: str, column: str, values: pa.Array) -> pa.Table:
    """Return id and csn of the transactions in a range that have one of some values; a batch at a time."""
    asked = local.batches({"t": table}, f"select transaction_id, csn from t where {where}")
    return pa.concat_tables(
        [ID_AND_CSN.empty_table(), *(rows.filter(pc.is_in(rows.column(column), values)) for rows in asked)]
    )


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
    """Return transaction_id, tx, csn and place of each transaction: a row for each csn that events tell; null if none.

    place: where the first of its rows lies that knows no more; 0 if none tells one.
    """
    concerned = pc.and_(pc.is_in(events.column("kind"), pa.array(CONCERNED)), pc.is_valid(events.column("tx")))
    own = events.filter(concerned)
    csn = own.column("csn")
    place = pc.if_else(_never_back(own), pc.fill_null(csn, 0), pa.array(places(own)))
    own = own.select(["transaction_id", "tx", "csn"]).append_column("place", place)
    told = own.group_by(["transaction_id", "tx", "csn"]).aggregate([("place", "min")])
    told = told.rename_columns([*own.column_names])
    placed = pc.is_valid(told.column("csn"))
    is_told = pc.is_in(told.column("tx"), told.filter(placed).column("tx").combine_chunks())
    return told.filter(pc.or_(pc.or_(placed, pc.greater(told.column("place"), 0)), pc.invert(is_told)))


def _never_back(events: pa.Table) -> pa.ChunkedArray:
    return pc.match_substring_regex(events.column("transaction_id"), f"^(?:{GTID.pattern})$")
