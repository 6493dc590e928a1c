"""Run the buffer as a stateful stream of Spark: one group for each bucket, with its state in RocksDB.

The rules are those of `txloom.transactions.buffer`; its decisions are returned as rows, the outcomes.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from txloom.transactions import buffer, completeness, producer_runs
from txloom.transactions import events as ev

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

OUTCOMES = """
    what string, bucket int, tx bigint, csn bigint, rows bigint, first_at bigint, landing bigint, row bigint,
    `table` bigint, received string, packed binary"""
"""The schema of outcomes, as DDL. what: the kind of a row.

released: in `packed`, the transactions that a bucket releases (RELEASED_ROWS). place: a landing and a table that have
events of released transactions. repeated: in `packed`, the duplicates among them (REPEATED_ROWS). dead, waiting: in
`packed`, transactions (`completeness.UNFINISHED_ROWS`). late: landing and row of a row (rows is 1) or metadata (rows is
0) whose transaction was finished before. counts: of the bucket, as JSON in `received`; first_at, landing and csn are
time, landing and low watermark of its last clock. Times are in microseconds."""

OUTCOME_NAMES = [part.split()[0].strip("`") for part in OUTCOMES.split(",")]
INTEGERS = ("tx", "csn", "rows", "first_at", "landing", "row", "table")
RELEASED = ("tx", "csn", "rows", "first_at", "finished_at", "first_landing", "last_landing", "runs")
RELEASED_ROWS = pa.schema([(name, pa.int64()) for name in RELEASED])
"""Released transactions, with times in microseconds. first_landing and last_landing: between these their events were
landed. runs: the verdict of `producer_runs`."""
REPEATED_ROWS = pa.schema([(name, pa.int64()) for name in ("tx", "landing", "row")])
"""Duplicates: the hash of their transaction, and where they lie in change_events."""
NO_CLOCK = -2
"""`reached` of a row that is no clock; a null would turn the whole column into floats in pandas."""
NO_STATE = "held binary, finished binary"


def transaction_hash(column: str = "transaction_id") -> Column:
    """Return the 64-bit hash of a column of transaction ids, by which the buffer identifies transactions."""
    return F.xxhash64(F.col(column))


def outcomes(arrived: DataFrame, rules: completeness.Rules) -> DataFrame:
    """Return the streaming frame of outcomes (OUTCOMES) of the buffer.

    Args:
        arrived: a streaming frame in the schema ARRIVALS (`txloom.storage.landing.landing_stream`).
        rules: when a transaction is whole, and how long one may wait.
    """
    return arrived.groupBy("bucket").applyInPandasWithState(_decider(rules), OUTCOMES, NO_STATE, "append", "NoTimeout")


def _decider(
    rules: completeness.Rules,
) -> Callable[[tuple[int], Iterator[pd.DataFrame], "GroupState"], Iterator[pd.DataFrame]]:
    def decide(key: tuple[int], frames: Iterator[pd.DataFrame], state: "GroupState") -> Iterator[pd.DataFrame]:
        arrived = unpacked(frames)
        held = unpack(state.get) if state.exists else buffer.Held()
        before = int(ev.row_counts(held.events).sum())
        held, decisions = buffer.decide(held, arrived, rules)
        state.update(pack(held))
        yield from _rows(int(key[0]), before, held, decisions)

    return decide


def unpacked(frames: Iterable[pd.DataFrame]) -> np.ndarray:
    """Return the compact events and the clocks of frames of arrivals, as one array of `events.EVENT`."""
    packed, clocks = list[bytes](), list[np.ndarray]()
    for frame in frames:
        packed += frame.loc[frame["numbers"].notna(), "numbers"].tolist()
        of_clocks = frame.loc[frame["reached"] != NO_CLOCK]
        clocks.append(ev.clocks(*(of_clocks[name].to_numpy() for name in ("landing", "at", "reached"))))
    return ev.unpacked(packed, ev.concatenate(clocks))


def pack(held: buffer.Held) -> tuple[bytes, bytes]:
    """Return a bucket's state as (events with unreadable ranges, finished transactions), each as bytes."""
    return ev.to_bytes(ev.concatenate([held.events, held.unreadable_ranges])), ev.to_bytes(held.finished)


def unpack(state: tuple[bytes, bytes]) -> buffer.Held:
    """Return a bucket's state of the bytes that `pack` made."""
    events = ev.from_bytes(state[0], ev.EVENT)
    unreadable_range = events["kind"] == ev.UNREADABLE_RANGE
    finished = ev.from_bytes(state[1], ev.FINISHED)
    return buffer.Held(ev.chosen(events, ~unreadable_range), finished, events[unreadable_range])


def _rows(bucket: int, before: int, held: buffer.Held, decisions: buffer.Decisions) -> Iterator[pd.DataFrame]:
    unfinished = (("dead", decisions.dead), ("waiting", decisions.waiting))
    for what, rows in (("released", released(decisions)), ("repeated", repeated(decisions)), *unfinished):
        if rows.num_rows:
            yield _frame(what, bucket, {"packed": [ev.pack_rows(rows)]})
    pairs = sorted(decisions.repeated_in)
    yield _frame("place", bucket, {"landing": [pair[0] for pair in pairs], "table": [pair[1] for pair in pairs]})
    late = ev.concatenate([*decisions.late, *decisions.late_metadata])
    is_row = (late["kind"] != ev.METADATA).astype(np.int64)
    yield _frame("late", bucket, {**{name: late[name] for name in ("tx", "landing", "row")}, "rows": is_row})
    counts = {
        "rows": decisions.rows,
        "metadata": decisions.metadata,
        "duplicates": decisions.duplicates,
        **({"redecoded": decisions.redecoded} if decisions.redecoded else {}),
        "repeated_metadata": decisions.repeated_metadata,
        "late": sum(len(part) for part in decisions.late),
        "released": sum(int(part.rows.sum()) for part in decisions.released),
        "transactions": sum(len(part.tx) for part in decisions.released),
        "suspects": sum(int((part.runs == producer_runs.UNCONNECTED).sum()) for part in decisions.released),
        "several_runs": sum(int((part.runs != producer_runs.ONE).sum()) for part in decisions.released),
        "dead": pc.sum(decisions.dead.column("rows"), min_count=0).as_py(),
        "dead_transactions": decisions.dead.num_rows,
        "buffered": int(ev.row_counts(held.events).sum()),
        "buffered_before": before,
        "clocks": decisions.clocks,
    }
    yield _frame(
        "counts",
        bucket,
        {
            "received": [json.dumps(counts)],
            "first_at": [decisions.now or 0],
            "landing": [decisions.landing],
            "csn": [decisions.low_watermark],
        },
    )


def released(decisions: buffer.Decisions) -> pa.Table:
    """Return the transactions that a bucket releases, in the schema RELEASED_ROWS."""
    parts = [pa.table({name: getattr(each, name) for name in RELEASED}, RELEASED_ROWS) for each in decisions.released]
    return pa.concat_tables([RELEASED_ROWS.empty_table(), *parts]).combine_chunks()


def repeated(decisions: buffer.Decisions) -> pa.Table:
    """Return the duplicates among the events of these transactions, in the schema REPEATED_ROWS."""
    events = ev.concatenate(decisions.repeated)
    columns = [pa.array(np.ascontiguousarray(events[name])) for name in REPEATED_ROWS.names]
    return pa.Table.from_arrays(columns, schema=REPEATED_ROWS)


def packed_rows(outcomes: Iterable[Row], what: str, schema: pa.Schema) -> pa.Table:
    """Return the rows that outcomes of a kind have packed, in one piece; schema: that of the kind, see OUTCOMES."""
    parts = [ev.unpack_rows(row["packed"]) for row in outcomes if row["what"] == what]
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()


def _frame(what: str, bucket: int, columns: dict[str, Any]) -> pd.DataFrame:
    size = len(next(iter(columns.values())))
    frame = {
        name: columns.get(name, np.zeros(size, np.int64) if name in INTEGERS else [None] * size)
        for name in OUTCOME_NAMES
    }
    frame["what"] = [what] * size
    frame["bucket"] = np.full(size, bucket, np.int32)
    return pd.DataFrame(frame, columns=OUTCOME_NAMES)
