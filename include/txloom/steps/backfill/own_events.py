"""Find the events of released transactions whose ids were used again (`txloom.transactions.reused_ids`)."""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.steps.backfill.scope import Scope
from txloom.storage.delta import arrow_tables
from txloom.storage.system_tables import TRANSACTIONS
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hashed
from txloom.transactions.reused_ids import positions

REUSED, BEFORE = "is_reused", "csn_before"
"""Columns of transactions: whether another one has the id, and the csn of the one before it; NOWHERE: there is none."""


def with_reuse(scope: Scope, chosen: pa.Table) -> pa.Table:
    """Return transactions with the columns REUSED and BEFORE.

    Args:
        scope: the backfill.
        chosen: released transactions, with tx and csn.
    """
    known = [chosen.select(["tx", "csn"])]
    if scope.redeclared is not None:
        # Rows that nobody watched may have been landed at any time, also those of transactions that are not chosen.
        known += _released(scope, chosen)
    pairs = pa.concat_tables(known).group_by(["tx", "csn"]).aggregate([])
    by_id = pairs.group_by("tx").aggregate([("csn", "list")])
    several = by_id.filter(pc.greater(pc.list_value_length(by_id.column("csn_list")), pa.scalar(1)))
    csns = {row["tx"]: sorted(row["csn_list"]) for row in several.to_pylist()}
    reused = pc.is_in(chosen.column("tx"), value_set=several.column("tx").combine_chunks()).to_numpy()
    before = np.full(chosen.num_rows, NOWHERE, np.int64)
    places = np.flatnonzero(reused)
    for place, row in zip(places, chosen.select(["tx", "csn"]).take(places).to_pylist(), strict=True):
        of_id = csns[row["tx"]]
        if number := bisect_left(of_id, row["csn"]):
            before[place] = of_id[number - 1]
    return chosen.append_column(REUSED, pa.array(reused)).append_column(BEFORE, pa.array(before))


def _released(scope: Scope, chosen: pa.Table) -> Iterator[pa.Table]:
    """Yield tx and csn of all released transactions that have an id of the chosen ones."""
    schema = pa.schema([TRANSACTIONS.field(name) for name in ("transaction_id", "csn")])
    ids = chosen.column("tx").combine_chunks()
    for part in arrow_tables.parts_of(scope.paths.table(names.TRANSACTIONS), schema, "status = 'released'"):
        rows = part.append_column("tx", hashed(part.column("transaction_id")))
        yield rows.filter(pc.is_in(rows.column("tx"), value_set=ids)).select(["tx", "csn"])


def in_turn(chosen: pa.Table) -> Iterator[pa.Table]:
    """Yield transactions so that no two of them have one id; chosen: the transactions, ordered by tx."""
    tx = chosen.column("tx").to_numpy()
    _, first, at = np.unique(tx, return_index=True, return_inverse=True)
    turn = np.arange(len(tx)) - first[at.reshape(-1)]
    for number in range(turn.max(initial=-1) + 1):
        yield chosen.filter(pa.array(turn == number))


def own_events(chosen: pa.Table, events: pa.Table) -> pa.Table:
    """Return events without those of other transactions that have the ids.

    Of an id that was used again, an event that has neither a csn nor a position is left out.

    Args:
        chosen: the transactions, with REUSED and BEFORE, ordered by tx; no two have one id.
        events: events of their ids.
    """
    if not pc.any(chosen.column(REUSED)).as_py():
        return events
    at = np.searchsorted(chosen.column("tx").to_numpy(), events.column("tx").to_numpy())
    reused, before, csn = (chosen.column(name).to_numpy()[at] for name in (REUSED, BEFORE, "csn"))
    position = positions(events)
    return events.filter(pa.array(~reused | ((position > np.maximum(before, 0)) & (position <= csn))))
