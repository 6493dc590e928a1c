"""When a transaction is whole, why it waits, and when it is given up.

A transaction is whole when its metadata was seen and every watched table has received as many DISTINCT identities as
the metadata promises: `==`, never `>=` (docs/architecture.md, promise 1). It is given up once it waited longer than
patience.

Under the rule `progress` no metadata counts events. A transaction is then whole when its csn lies at or below the low
watermark in a landing's clock (`txloom.transactions.low_watermark`), and waits for that without a limit. It is given up
at once when its csn lies in an unreadable range, because one of its events may be missing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from txloom.transactions import events as ev
from txloom.transactions import memory, metadata, producer_runs

RELEASED = "released"
NO_METADATA = "metadata never came"
SHORT = "table short"
EXCESS = "excess"
CONFLICT = "conflicting"
SUSPECT = "two producer runs"
BEHIND = "partition behind"
UNREADABLE = "may lack an unreadable event"
TOO_LARGE = "too large"
"""Causes are a closed list; `txloom.transactions.causes` has an operator's hint for each."""


@dataclass(frozen=True)
class Rules:
    """The settings by which transactions are decided.

    patience: how long a transaction may wait for its events, in microseconds. hold: a transaction whose rows come from
    several producer runs, and may lack rows between them, is released only when it is redriven. progress: a transaction
    without metadata is whole once its csn is at or below the low watermark, and is never overdue. corrected: metadata
    with other counts replaces earlier metadata; if False, the two are a conflict. keyless: hashes of tables in which
    equal rows of one statement have one identity. largest: the most rows of a transaction; one with more rows, counted
    or received, is given up at once and never released. remembered: how many finished transactions a bucket keeps from
    call to call.
    """

    patience: int
    hold: bool = False
    progress: bool = False
    largest: int | None = None
    corrected: bool = True
    keyless: frozenset[int] = frozenset()
    remembered: int = memory.REMEMBERED


COUNTS: Any = pa.map_(pa.int64(), pa.int64())
UNFINISHED_ROWS = pa.schema(
    [
        ("tx", pa.int64()),
        ("csn", pa.int64()),
        ("cause", pa.string()),
        ("first_at", pa.int64()),
        ("rows", pa.int64()),
        ("landings", pa.list_(pa.int64())),
        ("expected", COUNTS),
        ("received", COUNTS),
        ("runs", pa.int64()),
    ]
)
"""A row for each transaction that waits or was given up: why, since when (microseconds), and the landings that have its
events. expected, received: rows by hash of a table; expected is null while no metadata has come. runs: the verdict of
`producer_runs` on the producer's runs that sent it."""


class Outcomes:
    """Deduplicated events sorted by transaction, and the outcome of each transaction.

    counted: it has as many events as its metadata counts. whole: it is released. given_up: it becomes dead letters.
    Without a clock no transaction is given up as overdue, and none is at or below the low watermark.
    """

    def __init__(
        self, events: np.ndarray, rules: Rules, unreadable_ranges: np.ndarray, clock: np.void | None = None
    ) -> None:
        """Judge events (`events.EVENT`) without repeated ones; clock: that of the newest landing, None without one."""
        self.rules, self.unreadable_ranges, self.clock = rules, unreadable_ranges, clock
        self.events = ev.ordered(events, ev.IDENTITY)
        self.starts, self.number = ev.groups(self.events["tx"])
        size = len(self.starts)
        if size and (self.events["check"] != self.events["check"][self.starts][self.number]).any():
            raise collision()
        kind = self.events["kind"]
        self.has_metadata = np.bincount(self.number[kind == ev.METADATA], minlength=size) > 0
        self.reopened = np.bincount(self.number[kind == ev.REOPEN], minlength=size) > 0
        rows = ev.row_counts(self.events)
        self.rows = _sums(self.number, rows, size)
        self.runs = producer_runs.judged(self.events, self.number, size, rules.keyless)
        self.tables, code = np.unique(self.events["table"], return_inverse=True)
        self.code = code.reshape(-1)
        width = max(len(self.tables), 1)
        cell = self.number * width + self.code
        self.received = _sums(cell, rows, size * width).reshape(size, width)
        replaced = metadata.replaced(self.events, self.number, size)
        is_expected = (kind == ev.EXPECTED) & ~replaced
        expected = np.zeros(size * width, np.int64)
        np.maximum.at(expected, cell[is_expected], self.events["count"][is_expected])
        self.expected = expected.reshape(size, width)
        self.conflict = self._conflicts(size, replaced)
        self.excess = self.has_metadata & (self.received > self.expected).any(axis=1)
        self.counted = self.has_metadata & ~self.conflict & (self.received == self.expected).all(axis=1)
        self.first_at = np.minimum.reduceat(self.events["at"], self.starts) if size else np.empty(0, np.int64)
        self.csn = np.maximum.reduceat(self.events["csn"], self.starts) if size else np.empty(0, np.int64)
        self.uncounted = ~self.has_metadata & (self.rows > 0) if rules.progress else np.zeros(size, bool)
        self.unreadable = self.uncounted & self._in_holes()
        passed = self.uncounted & (self.csn <= (ev.NOWHERE if clock is None else clock["csn"]))
        self.whole = self.counted | passed & ~self.conflict & (~self.unreadable | self.reopened)
        if rules.hold:
            self.whole &= (self.runs < producer_runs.UNCONNECTED) | self.reopened
        self.too_large = self._too_large()
        self.whole &= ~self.too_large
        self.given_up = ~self.whole & (passed | self._overdue() | self.too_large)

    def _overdue(self) -> np.ndarray:
        """Find transactions that waited longer than patience or are decided again, none without a clock.

        A transaction without metadata under the rule `progress` waits for the low watermark and is never overdue.
        """
        if self.clock is None:
            return np.zeros_like(self.whole)
        overdue = (self.clock["at"] - self.first_at >= self.rules.patience) | self.reopened
        given_up: np.ndarray = overdue & ~self.uncounted
        return given_up

    def _too_large(self) -> np.ndarray:
        """Find transactions with more rows, received or counted, than `Rules.largest` allows."""
        if self.rules.largest is None:
            return np.zeros_like(self.whole)
        too_large: np.ndarray = np.maximum(self.rows, self.expected.sum(axis=1)) > self.rules.largest
        return too_large

    def _in_holes(self) -> np.ndarray:
        """Find transactions whose csn lies in an unreadable range, so that an event of theirs may be missing."""
        inside = np.zeros(len(self.csn), bool)
        for unreadable_range in self.unreadable_ranges:
            inside |= (unreadable_range["csn"] <= self.csn) & (self.csn <= unreadable_range["count"])
        return inside

    def _conflicts(self, size: int, replaced: np.ndarray) -> np.ndarray:
        """Find transactions that have one identity with two payloads, or metadata that cannot be relied on."""
        same = ev.repeats(self.events, ev.IDENTITY) & (self.events["kind"] == ev.ROW)
        conflict: np.ndarray = np.bincount(self.number[same], minlength=size) > 0
        if replaced.any():
            several = np.bincount(self.number[replaced], minlength=size) > 0
            doubtful = metadata.in_doubt(self.events, self.number, size, replaced)
            conflict |= several & (doubtful | (not self.rules.corrected))
        return conflict

    def only(self, chosen: np.ndarray) -> "Outcomes":
        """Return the outcomes of some of the transactions, each with its own."""
        return Outcomes(ev.chosen(self.events, chosen[self.number]), self.rules, self.unreadable_ranges, self.clock)


def _sums(number: np.ndarray, counts: np.ndarray, size: int) -> np.ndarray:
    """Return the sum of some counts for each number below a size; exact up to 2 to the power of 53."""
    sums: np.ndarray = np.bincount(number, weights=counts, minlength=size).astype(np.int64)
    return sums


def unfinished(outcomes: Outcomes) -> pa.Table:
    """Return the state of each transaction (UNFINISHED_ROWS), with why it waits or was given up."""
    columns = {
        "tx": outcomes.events["tx"][outcomes.starts],
        "csn": outcomes.csn,
        "cause": _causes(outcomes),
        "first_at": outcomes.first_at,
        "rows": outcomes.rows,
        "landings": _landings(outcomes),
        "expected": _counts(outcomes.expected, outcomes.tables, ~outcomes.has_metadata),
        "received": _counts(outcomes.received, outcomes.tables),
        "runs": outcomes.runs,
    }
    return pa.Table.from_arrays([pa.array(columns[name]) for name in UNFINISHED_ROWS.names], schema=UNFINISHED_ROWS)


def _causes(outcomes: Outcomes) -> pa.StringArray:
    """Return why each transaction waits or was given up; where several causes hold, the first of them."""
    by_cause = (
        (TOO_LARGE, outcomes.too_large),
        (CONFLICT, outcomes.conflict),
        (UNREADABLE, outcomes.uncounted & outcomes.unreadable),
        (SUSPECT, outcomes.uncounted & outcomes.given_up),
        (BEHIND, outcomes.uncounted),
        (NO_METADATA, ~outcomes.has_metadata),
        (SUSPECT, outcomes.counted),
        (EXCESS, outcomes.excess),
        (SHORT, np.ones_like(outcomes.whole)),
    )
    number = np.select([holds for _, holds in by_cause], range(len(by_cause)))
    return pa.array([cause for cause, _ in by_cause], pa.string()).take(pa.array(number))


def _landings(outcomes: Outcomes) -> "pa.ListArray[Any]":
    """Return the landings that have events of each transaction, in order."""
    landing = outcomes.events["landing"]
    order = np.lexsort((landing, outcomes.number))
    number, landing = outcomes.number[order], landing[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (number[1:] != number[:-1]) | (landing[1:] != landing[:-1])
    return pa.ListArray.from_arrays(_offsets(number[is_new], len(outcomes.starts)), pa.array(landing[is_new]))


def _counts(matrix: np.ndarray, tables: np.ndarray, is_null: np.ndarray | None = None) -> "pa.Array[Any]":
    """Return counts by hash of a table for each transaction, without those that are 0.

    Args:
        matrix: a row for each transaction, a column for each table.
        tables: the hashes of the tables.
        is_null: transactions that have no counts at all.
    """
    number, table = np.nonzero(matrix)
    offsets: Any = _offsets(number, len(matrix))
    mask = None if is_null is None else pa.array(is_null)
    keys, counts = pa.array(tables[table]), pa.array(matrix[number, table])
    made: pa.Array[Any] = pa.MapArray.from_arrays(offsets, keys, counts, type=COUNTS, mask=mask)
    return made


def _offsets(number: np.ndarray, size: int) -> Any:
    """Return where the elements of each of so many lists begin; number: the list of each element, in order."""
    return pa.array(np.searchsorted(number, np.arange(size + 1)).astype(np.int32))


def collision() -> RuntimeError:
    """Return the error for two transactions whose ids have one hash."""
    return RuntimeError("two transactions share one 64-bit hash: nothing was decided; report this with both ids")
