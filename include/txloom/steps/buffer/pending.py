"""The transactions that wait after a batch, as rows of pending_transactions: whole columns, however many they are."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from txloom.config import names
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.buffer.newest_batch import Declared, buffer_state
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import int_list
from txloom.storage.system_tables import INSTANT, PENDING_TRANSACTIONS, TRANSACTIONS

ABOUT = ("transaction_id", "xid", "csn", "committed_at")
NAMED = pa.schema([pa.field("tx", pa.int64()), *(TRANSACTIONS.field(name) for name in ABOUT)])
"""The schema of `named`."""


def list_waiting(batch: Batch, waiting: pa.Table, known: pa.Table, clock: Row) -> None:
    """Replace the rows of pending_transactions by the transactions that wait after a landing, longest first.

    The commit has the batch's release number in its metadata: `txloom.storage.buffer.newest_batch` reads it.

    Args:
        batch: the batch.
        waiting: the transactions, in the schema UNFINISHED_ROWS of `txloom.transactions.completeness`.
        known: id, xid, csn and commit time of each, see `named`.
        clock: the decision of kind `counts` of the last landing.
    """
    about = {"release": batch.release, "landing": clock["landing"], "reached": clock["csn"]}
    about |= _newest(batch).to_metadata()
    rows = _pending(waiting, known, batch.table_names(), clock["first_at"])
    small_tables.overwrite(batch.paths.table(names.PENDING_TRANSACTIONS), rows, about)


def _newest(batch: Batch) -> Declared:
    """Return the declaration that a batch works by, with the newest record that this or an earlier batch entered."""
    seen = buffer_state(batch.paths) if batch.declared.number > 1 else None
    number = batch.declared.number if seen is None else max(batch.declared.number, seen.declared.number)
    return replace(batch.declared, number=number)


def named(batch: Batch, unfinished: pa.Table) -> pa.Table:
    """Return id, xid, csn and commit time of unfinished transactions, with their hash as tx; what no event has is null.

    unfinished: the transactions, in the schema UNFINISHED_ROWS of `txloom.transactions.completeness`.
    """
    if not unfinished.num_rows:
        return NAMED.empty_table()
    landings = int_list(cast("list[int]", pc.list_flatten(unfinished.column("landings")).unique().to_pylist()))
    sql = f"select tx, {', '.join(ABOUT)} from t where landing in ({landings}) and tx is not null"
    hashes = unfinished.column("tx").combine_chunks()
    events = arrow_tables.matching(batch.paths.change_events, sql, "tx", hashes)
    groups = events.group_by("tx").aggregate([(name, "max") for name in ABOUT])
    return groups.rename_columns([name.removesuffix("_max") for name in groups.column_names]).select(NAMED.names)


def _pending(waiting: pa.Table, known: pa.Table, watched: Mapping[int, str], at: int) -> pa.Table:
    """Return the rows of pending_transactions, as of a time in microseconds.

    Raises LookupError for a transaction of which no event is landed, which cannot be.
    """
    age = (at - waiting.column("first_at").to_numpy()) // 1_000_000
    place = _places(waiting.column("tx"), known.column("tx"))
    if place.null_count:
        raise LookupError(f"{place.null_count} transactions wait without a landed event")
    about: dict[str, Any] = {name: known.column(name).take(place) for name in ABOUT}
    columns = about | {
        "first_landed_at": waiting.column("first_at").cast(INSTANT),
        "age_seconds": pa.array(age),
        "expected": _by_table(waiting.column("expected"), watched),
        "received": _by_table(waiting.column("received"), watched),
        "cause": waiting.column("cause"),
        "as_of": pa.array(np.full(waiting.num_rows, at)).cast(INSTANT),
    }
    rows = pa.table(columns).select(PENDING_TRANSACTIONS.names).cast(PENDING_TRANSACTIONS)
    return rows.take(np.argsort(-age, kind="stable"))


def _by_table(counts: "pa.ChunkedArray[Any]", watched: Mapping[int, str]) -> "pa.Array[Any]":
    """Return counts with the names of tables in place of their hashes, in one piece."""
    maps = cast("Any", counts.combine_chunks())
    hashes = cast("list[int]", maps.keys.unique().to_pylist())
    table_names = pa.array([watched.get(each, str(each)) for each in hashes], pa.string())
    keys = table_names.take(_places(maps.keys, pa.array(hashes, pa.int64())))
    made: pa.Array[Any] = pa.MapArray.from_arrays(maps.offsets, keys, maps.items, mask=maps.is_null())
    return made


def _places(values: Any, among: Any) -> Any:
    """Return where each of some values is among others."""
    return pc.index_in(values, among)
