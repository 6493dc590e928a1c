"""When a transaction is whole, why it waits, and when it is given up.

A transaction is whole when its metadata was seen and every watched table has received as many DISTINCT identities as
the metadata promises: `==`, never `>=` (docs/architecture.md, promise 1). It is given up once it waited longer than
patience.

Under the rule `progress` no metadata counts events. A transaction is then whole when its csn lies at or below the low
watermark in a landing's clock (`txloom.transactions.low_watermark`), and waits for that without a limit. It is given up
at once when its csn lies in an unreadable range, because one of its events may be missing.
"""

from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class Waiting:
    """The state of one transaction that waits or was given up.

    `expected` is None while no metadata has come; `expected` and `received` map a table hash to a number of rows.
    runs: the verdict of `producer_runs` on the producer's runs that sent it.
    """

    tx: int
    csn: int
    cause: str
    first_at: int
    rows: int
    landings: tuple[int, ...]
    expected: dict[int, int] | None
    received: dict[int, int]
    runs: int = 0


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


def waiting(outcomes: Outcomes) -> list[Waiting]:
    """Return the state of each transaction, with why it waits or was given up."""
    ends = np.append(outcomes.starts[1:], len(outcomes.events))[: len(outcomes.starts)]
    return [
        _waiting(outcomes, i, int(start), int(end))
        for i, (start, end) in enumerate(zip(outcomes.starts, ends, strict=True))
    ]


def _waiting(outcomes: Outcomes, i: int, start: int, end: int) -> Waiting:
    tables = outcomes.tables.tolist()
    received = {table: int(n) for table, n in zip(tables, outcomes.received[i], strict=True) if n}
    expected = {table: int(n) for table, n in zip(tables, outcomes.expected[i], strict=True) if n}
    return Waiting(
        tx=int(outcomes.events["tx"][start]),
        csn=int(outcomes.csn[i]),
        cause=_cause(outcomes, i),
        first_at=int(outcomes.first_at[i]),
        rows=int(outcomes.rows[i]),
        landings=tuple(np.unique(outcomes.events["landing"][start:end]).tolist()),
        expected=expected if outcomes.has_metadata[i] else None,
        received=received,
        runs=int(outcomes.runs[i]),
    )


def _cause(outcomes: Outcomes, i: int) -> str:
    if outcomes.too_large[i]:
        return TOO_LARGE
    if outcomes.conflict[i]:
        return CONFLICT
    if outcomes.uncounted[i]:
        return UNREADABLE if outcomes.unreadable[i] else SUSPECT if outcomes.given_up[i] else BEHIND
    if not outcomes.has_metadata[i]:
        return NO_METADATA
    if outcomes.counted[i]:
        return SUSPECT
    return EXCESS if outcomes.excess[i] else SHORT


def collision() -> RuntimeError:
    """Return the error for two transactions whose ids have one hash."""
    return RuntimeError("two transactions share one 64-bit hash: nothing was decided; report this with both ids")
