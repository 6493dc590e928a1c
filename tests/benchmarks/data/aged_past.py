"""Years of cycles of a pipeline of `data.goldengate`: their landings, block by block, and how columns are made.

Each landing brings PER transactions, each a metadata message and an update of an order; the last landing of a block is
a redrive of DEAD transactions of the block, which were given up because of a value and have been repaired since. The
first POISON landings of a block also bring a line that cannot be read and was dismissed. The first transactions of
KEPT_DEAD blocks are dead for good: open dead letters, and gaps of all cuts that follow.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.storage.system_tables import (
    INSTANT,
)
from txloom.transactions.hashes import hashed

Ints = npt.NDArray[np.int64]
Columns = Mapping[str, Any]
SCALE = float(os.environ.get("TXLOOM_BENCH_AGE", "1"))
"""Of all counts below: 0.01 makes tables of a hundredth of their rows."""
BLOCK, PER = 500, 16
BLOCKS = max(round(1000 * SCALE), 2)
LANDINGS = BLOCKS * BLOCK
NEW = (BLOCK - 1) * PER
"""Transactions of a block: 7,984,000 in all at full size."""
DEAD, POISON, KEPT_DEAD = 350, 300, 5
"""Of each block; two dead letters for each dead transaction and one for each line that cannot be read: 1,000,000."""
DAY = 288
"""Cycles of a day: one every five minutes."""
APART = timedelta(minutes=5)
LEDGER_CYCLES = max(round(400 * DAY * SCALE), 10)
"""Cycles whose rows the ledger and the results of expectations still have: of 400 days."""
MESSAGE_CYCLES = LOG_CYCLES = max(round(30 * DAY * SCALE), 10)
"""Cycles whose messages are kept, and cycles whose commits the tables' logs have: of 30 days."""
TODAY = max(round(DAY / 2 * SCALE), 3)
"""Cycles since the last OPTIMIZE, each with small files of its own: of half a day."""
ORDERS = 20_000
FIRST_RELEASE = 500_000_000
"""Releases of old landings lie below those of the first checkpoint, with which the real cycles begin."""
POOL = 4_000


def release_of(landing: Any) -> Any:
    """Return the number of the release that took a landing."""
    return FIRST_RELEASE + landing


@dataclass(frozen=True)
class Past:
    """The years before a moment.

    Args:
        until: the time of the last landing.
        compact: packed compact events of buckets, which the landings' rows of kind `numbers` take in turn.
        clocks: the same of clock rows.
        table_ids: by current table, Delta's id.
    """

    until: datetime
    compact: "pa.Array[Any]"
    clocks: "pa.Array[Any]"
    table_ids: Mapping[str, str]

    def at(self, landings: Ints) -> Ints:
        """Return the times of landings, in microseconds since 1970."""
        apart = int(APART.total_seconds()) * 1_000_000
        times: Ints = int(self.until.timestamp() * 1_000_000) - (LANDINGS - landings) * apart
        return times

    def block(self, number: int) -> "Block":
        """Return a block of landings."""
        return Block(self, number)


@dataclass(frozen=True)
class Block:
    """The landings `number * BLOCK + 1` to `(number + 1) * BLOCK`."""

    past: Past
    number: int

    @property
    def first(self) -> int:
        """Return the first landing."""
        return self.number * BLOCK + 1

    @property
    def redrive(self) -> int:
        """Return the last landing, which lands dead transactions once more."""
        return self.first + BLOCK - 1

    @cached_property
    def landings(self) -> Ints:
        """Return all landings but the redrive."""
        return np.arange(self.first, self.redrive, dtype=np.int64)

    @cached_property
    def csn(self) -> Ints:
        """Return the csn of each new transaction, which counts them from 1."""
        return self.number * NEW + np.arange(1, NEW + 1, dtype=np.int64)

    @cached_property
    def landing(self) -> Ints:
        """Return the landing of each new transaction."""
        return np.repeat(self.landings, PER)

    @cached_property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Return which new transactions were given up at first."""
        places = np.arange(NEW)
        return (places % 22 == 0) & (places < 22 * DEAD)

    @cached_property
    def redriven(self) -> Ints:
        """Return the places of those that were redriven: all dead ones, but for some blocks the first one."""
        places: Ints = np.flatnonzero(self.dead)
        kept = self.number % max(BLOCKS // KEPT_DEAD, 1) == 0
        return places[1:] if kept else places

    @cached_property
    def xid(self) -> "pa.StringArray":
        """Return the ids of the transactions, as `goldengate.xid_of` does."""
        csn = pa.array(self.csn)
        return joined("7.", pa.array(self.csn % 101), ".", csn)

    @cached_property
    def transaction_id(self) -> "pa.StringArray":
        """Return the ids under which transactions are known."""
        return joined(self.xid, ":", pa.array(self.csn))

    @cached_property
    def tx(self) -> "pa.Array[Any]":
        """Return the hashes of the transactions' ids."""
        return hashed(self.transaction_id)

    @cached_property
    def committed(self) -> "pa.Array[Any]":
        """Return when the source committed the transactions: a second before they were landed."""
        return instants(self.past.at(self.landing) - 1_000_000)

    def names(self, topic: str) -> "pa.StringArray":
        """Return the file of each transaction's message in a topic."""
        return joined(f"{topic}/", zero_filled(self.landing), ".jsonl")


def joined(*parts: Any) -> Any:
    """Join texts and numbers, row by row."""
    texts = [each if isinstance(each, str) else each.cast(pa.string()) for each in parts]
    return pc.binary_join_element_wise(*texts, "")


def zero_filled(numbers: Ints) -> Any:
    """Return numbers as text of seven digits."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 7, "0")


def instants(micros: Any) -> "pa.Array[Any]":
    """Return times."""
    return pa.array(micros, pa.int64()).cast(INSTANT)


def maps(keys: list[str], *values: Ints) -> "pa.Array[Any]":
    """Return a map for each row, with the same keys; values: those of each key."""
    size = len(values[0])
    items = np.stack(values, axis=1).reshape(-1)
    names = pa.array(keys).take(pa.array(np.tile(np.arange(len(keys)), size)))
    offsets = pa.array(np.arange(size + 1, dtype=np.int32) * len(keys))
    return pa.MapArray.from_arrays(offsets, names, pa.array(items))


def of_schema(schema: pa.Schema, size: int, columns: Columns) -> pa.Table:
    """Return rows in a schema; a value that is no array is that of each row, and columns without a value are null."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            value = pa.nulls(size, field.type)
        elif not isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray):
            value = pa.repeat(pa.scalar(value, field.type), size)
        array = pa.array(value) if isinstance(value, np.ndarray) else value
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.table(arrays, schema=schema)


def sorted_by(rows: pa.Table, column: str) -> pa.Table:
    """Return rows ordered by a column of integers; of equal ones the order stays."""
    return rows.take(pa.array(np.argsort(rows.column(column).to_numpy(), kind="stable")))
