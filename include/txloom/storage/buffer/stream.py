"""The Spark side of the buffer: one group per hash bucket, state in RocksDB.

It holds no rule of its own: `txloom.transactions.buffer` decides. What it decides comes out as rows ("outcomes").
"""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txloom.transactions import buffer, producer_runs
from txloom.transactions import events as ev

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

OUTCOMES = """
    what string, bucket int, tx bigint, csn bigint, rows bigint, first_at bigint, finished_at bigint,
    first_landing bigint, last_landing bigint, landing bigint, row bigint, `table` bigint,
    cause string, expected string, received string, landings array<bigint>, runs bigint"""
"""released: one transaction, whose events lie between two landings. place: (landing, table)
that holds events of released ones. repeated: (landing, row) of a duplicate among them. dead, waiting: one transaction
with its counts. late: (landing, row) of a row (then rows is 1) or metadata whose transaction was finished before.
runs: of released, dead and waiting ones, what `producer_runs` says.
counts: `received` holds the bucket's counts as JSON, first_at, landing and csn its last clock and how far that was."""

OUTCOME_NAMES = [part.split()[0].strip("`") for part in OUTCOMES.split(",")]
RELEASED = ("tx", "csn", "rows", "first_at", "finished_at", "first_landing", "last_landing")
INTEGERS = (*RELEASED, "landing", "row", "table", "runs")
NO_CLOCK = -2
"""`reached` of what is no clock: pandas would turn a null among numbers, and all of them, into floats."""
NO_STATE = "held binary, finished binary"


def transaction_hash(column: str = "transaction_id") -> Column:
    """Return the 64-bit hash under which the buffer knows a transaction."""
    return F.xxhash64(F.col(column))


def outcomes(arrived: DataFrame, rules: buffer.Rules) -> DataFrame:
    """Run the buffer over a stream of arrivals (`txloom.storage.landing.stream`)."""
    return arrived.groupBy("bucket").applyInPandasWithState(_decider(rules), OUTCOMES, NO_STATE, "append", "NoTimeout")


def _decider(
    rules: buffer.Rules,
) -> Callable[[tuple[int], Iterator[pd.DataFrame], "GroupState"], Iterator[pd.DataFrame]]:
    def decide(key: tuple[int], frames: Iterator[pd.DataFrame], state: "GroupState") -> Iterator[pd.DataFrame]:
        arrived = ev.concatenate([part for frame in frames for part in unpacked(frame)])
        held = unpack(state.get) if state.exists else buffer.Held()
        before = int(np.count_nonzero(held.events["kind"] == ev.ROW))
        held, decisions = buffer.decide(held, arrived, rules)
        state.update(pack(held))
        yield from _rows(int(key[0]), before, held, decisions)

    return decide


def unpacked(frame: pd.DataFrame) -> Iterator[np.ndarray]:
    """Yield the events of a frame of arrivals."""
    yield from (ev.from_bytes(numbers, ev.EVENT) for numbers in frame.loc[frame["numbers"].notna(), "numbers"])
    clocks = frame.loc[frame["reached"] != NO_CLOCK]
    if len(clocks):
        yield ev.clocks(*(clocks[name].to_numpy() for name in ("landing", "at", "reached")))


def pack(held: buffer.Held) -> tuple[bytes, bytes]:
    """Write one bucket's state; holes lie beside the events."""
    return ev.to_bytes(np.concatenate([held.events, held.unreadable_ranges])), ev.to_bytes(held.finished)


def unpack(state: tuple[bytes, bytes]) -> buffer.Held:
    """Read one bucket's state."""
    events = ev.from_bytes(state[0], ev.EVENT)
    unreadable_range = events["kind"] == ev.UNREADABLE_RANGE
    return buffer.Held(events[~unreadable_range], ev.from_bytes(state[1], ev.FINISHED), events[unreadable_range])


def _rows(bucket: int, before: int, held: buffer.Held, decisions: buffer.Decisions) -> Iterator[pd.DataFrame]:
    for released in decisions.released:
        yield _frame(
            "released",
            bucket,
            {name: getattr(released, name) for name in (*RELEASED, "runs")},
        )
    places = sorted(decisions.repeated_in)
    yield _frame("place", bucket, {"landing": [p[0] for p in places], "table": [p[1] for p in places]})
    for what, groups in (("repeated", decisions.repeated), ("late", [*decisions.late, *decisions.late_metadata])):
        events = ev.concatenate(groups)
        is_row = (events["kind"] != ev.METADATA).astype(np.int64)
        about = {name: events[name] for name in ("tx", "landing", "row")}
        yield _frame(what, bucket, {**about, "rows": is_row})
    for what, standings in (("dead", decisions.dead), ("waiting", decisions.waiting)):
        yield _frame(what, bucket, _waiting_columns(standings))
    counts = {
        "rows": decisions.rows,
        "metadata": decisions.metadata,
        "duplicates": decisions.duplicates,
        "repeated_metadata": decisions.repeated_metadata,
        "late": sum(len(part) for part in decisions.late),
        "released": sum(int(part.rows.sum()) for part in decisions.released),
        "transactions": sum(len(part.tx) for part in decisions.released),
        "suspects": sum(int((part.runs == producer_runs.UNCONNECTED).sum()) for part in decisions.released),
        "several_runs": sum(int((part.runs != producer_runs.ONE).sum()) for part in decisions.released),
        "dead": sum(waiting.rows for waiting in decisions.dead),
        "dead_transactions": len(decisions.dead),
        "buffered": int(np.count_nonzero(held.events["kind"] == ev.ROW)),
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


def _waiting_columns(standings: list[buffer.Waiting]) -> dict[str, Any]:
    return {
        "tx": [s.tx for s in standings],
        "csn": [s.csn for s in standings],
        "rows": [s.rows for s in standings],
        "first_at": [s.first_at for s in standings],
        "cause": [s.cause for s in standings],
        "expected": [None if s.expected is None else json.dumps(s.expected) for s in standings],
        "received": [json.dumps(s.received) for s in standings],
        "landings": [list(s.landings) for s in standings],
        "runs": [s.runs for s in standings],
    }


def _frame(what: str, bucket: int, columns: dict[str, Any]) -> pd.DataFrame:
    size = len(next(iter(columns.values())))
    frame = {
        name: columns.get(name, np.zeros(size, np.int64) if name in INTEGERS else [None] * size)
        for name in OUTCOME_NAMES
    }
    frame["what"] = [what] * size
    frame["bucket"] = np.full(size, bucket, np.int32)
    return pd.DataFrame(frame, columns=OUTCOME_NAMES)
