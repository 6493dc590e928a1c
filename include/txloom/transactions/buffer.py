"""The buffer's rule: (what is held, new events, clock) -> (what is held now, what was decided).

One call takes all events of one hash bucket. Landings are taken one after the other, each followed by its clock, so
that a replay of many landings at once decides exactly what the runs decided one by one (docs/architecture.md, 7).

A transaction is released when its metadata was seen and every watched table has received as many DISTINCT identities
as the metadata promises: `==`, never `>=` (promise 1 there). It is given up once it waited longer than patience.

Under the rule `progress` no metadata counts events. A transaction is then released when its csn lies at or below the
low watermark in a landing's clock (`txloom.transactions.low_watermark`), and waits for that without a limit. It is
given up at once when its csn lies in an unreadable range, because one of its events may be missing.
"""

from dataclasses import dataclass, field

import numpy as np

from txloom.transactions import events as ev
from txloom.transactions import memory, metadata, producer_runs
from txloom.transactions.alone import alone

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
class Held:
    """The state of one bucket.

    events: of unfinished transactions. finished: the newest finished transactions, sorted by tx. unreadable_ranges:
    those that may hold events of undecided transactions.
    """

    events: np.ndarray = field(default_factory=ev.no_events)
    finished: np.ndarray = field(default_factory=memory.none)
    unreadable_ranges: np.ndarray = field(default_factory=ev.no_events)


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


@dataclass(frozen=True)
class Released:
    """Transactions that are whole, one element of each array per transaction; runs: see `producer_runs`.

    A transaction's events are those from its first landing to its last, without repeated ones. Events before the first
    landing were given up and are redriven now; events after the last landing are late.
    """

    tx: np.ndarray
    csn: np.ndarray
    rows: np.ndarray
    first_at: np.ndarray
    finished_at: np.ndarray
    first_landing: np.ndarray
    last_landing: np.ndarray
    runs: np.ndarray


@dataclass
class Decisions:
    """What one call decided.

    repeated_in: (landing, table hash; 0 for metadata) that hold events of released transactions. repeated: duplicates
    of released events, to be left out. late and late_metadata: events of transactions that were finished before.
    clocks, rows and metadata: how many were taken in; duplicates and repeated_metadata: how many were dropped. now,
    landing and low_watermark: the last clock's.
    """

    released: list[Released] = field(default_factory=list)
    repeated_in: set[tuple[int, int]] = field(default_factory=set)
    repeated: list[np.ndarray] = field(default_factory=list)
    dead: list[Waiting] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    late: list[np.ndarray] = field(default_factory=list)
    late_metadata: list[np.ndarray] = field(default_factory=list)
    now: int | None = None
    landing: int = 0
    low_watermark: int = ev.NOWHERE
    clocks: int = 0
    rows: int = 0
    metadata: int = 0
    duplicates: int = 0
    repeated_metadata: int = 0


def decide(held: Held, arrived: np.ndarray, rules: Rules) -> tuple[Held, Decisions]:
    """Take in new events and clocks and decide what is whole, what waits and what is given up.

    Args:
        held: The bucket's state, as the last call returned it.
        arrived: Events and clocks (`events.EVENT`) of one or more landings, in any order.
        rules: The settings by which transactions are decided.

    Returns:
        The new state, and the decisions. Waiting transactions are listed only when a clock came, as of the last one.

    Raises:
        RuntimeError: Two transactions share a 64-bit hash; nothing was decided.
    """
    decisions = Decisions()
    decided, arrived = memory.without_decided(arrived)
    arrived = arrived[np.argsort(arrived["landing"], kind="stable")]
    starts, _ = ev.groups(arrived["landing"])
    at_once = memory.none()
    if len(starts) > 1 and not rules.progress:
        at_once, arrived = _at_once(held, arrived, rules, decisions)
        starts, _ = ev.groups(arrived["landing"])
    for batch in np.split(arrived, starts[1:]) if len(arrived) else ():
        clocks = batch[batch["kind"] == ev.CLOCK]
        decisions.clocks += len(clocks)
        clock = clocks[0] if len(clocks) else None
        if clock is not None:
            decisions.now, decisions.landing = int(clock["at"]), int(clock["landing"])
            decisions.low_watermark = int(clock["csn"])
        unreadable_ranges = np.concatenate([held.unreadable_ranges, batch[batch["kind"] == ev.UNREADABLE_RANGE]])
        events = batch[(batch["kind"] != ev.CLOCK) & (batch["kind"] != ev.UNREADABLE_RANGE)]
        held = _take(Held(held.events, held.finished, unreadable_ranges), events, clock, rules, decisions)
    finished = memory.joined(held.finished, at_once)
    held = Held(held.events, memory.newest(finished, rules.remembered, decided), held.unreadable_ranges)
    if decisions.now is not None:
        decisions.waiting = _standings(_Ordered(held.events, rules, held.unreadable_ranges))
    return held, decisions


def _at_once(held: Held, arrived: np.ndarray, rules: Rules, decisions: Decisions) -> tuple[np.ndarray, np.ndarray]:
    """Release, for all landings in one pass, the transactions that are whole within one landing.

    Returns these transactions as finished ones, and the remaining events. Deciding landing by landing would give the
    same result, hundreds of times as slowly.
    """
    is_alone = alone(arrived, held.events["tx"], held.finished["tx"])
    if not is_alone.any():
        return memory.none(), arrived
    ordered, at_once = _decided(arrived[is_alone], rules)
    if not ordered.whole.all():
        is_alone &= np.isin(arrived["tx"], ordered.events["tx"][ordered.starts][ordered.whole])
        ordered, at_once = _decided(arrived[is_alone], rules)
    if not len(ordered.events):
        return memory.none(), arrived
    decisions.duplicates += at_once.duplicates
    decisions.repeated_metadata += at_once.repeated_metadata
    _count(arrived[is_alone], decisions)
    clocks = arrived[arrived["kind"] == ev.CLOCK]
    landings = ordered.events["landing"][ordered.starts]
    when = clocks["at"][np.searchsorted(clocks["landing"], landings)]
    _release(ordered, ordered.whole, when, decisions)
    return _remember(memory.none(), ordered, ordered.whole, when, landings), arrived[~is_alone]


def _decided(events: np.ndarray, rules: Rules) -> tuple["_Ordered", Decisions]:
    """Return deduplicated events in order, and decisions that count what was dropped."""
    decisions = Decisions()
    return _Ordered(_deduplicated(events, decisions), rules, ev.no_events()), decisions


def _count(batch: np.ndarray, decisions: Decisions) -> None:
    decisions.rows += int(np.count_nonzero(batch["kind"] == ev.ROW))
    decisions.metadata += int(np.count_nonzero((batch["kind"] == ev.METADATA) & (batch["run"] != ev.BROUGHT)))


def _take(held: Held, batch: np.ndarray, clock: np.void | None, rules: Rules, decisions: Decisions) -> Held:
    """Take in one landing, then judge by its clock."""
    _count(batch, decisions)
    recalled = memory.recalled(held.finished, held.events["tx"], batch)
    remembered = memory.without_reused(_without_reopened(recalled, batch, decisions), batch)
    batch = batch[batch["kind"] != ev.KNOWN]
    batch = _without_late(batch, remembered, decisions)
    batch = _as_they_were_known(batch, held.events)
    if not len(batch) and (clock is None or not _due(held.events, clock, rules)):
        return Held(held.events, remembered, _open(held.unreadable_ranges, clock))
    ordered = _Ordered(
        _deduplicated(np.concatenate([held.events, batch]), decisions), rules, held.unreadable_ranges, clock
    )
    if not len(ordered.events):
        return Held(ordered.events, remembered, _open(held.unreadable_ranges, clock))
    when = int(clock["at"]) if clock is not None else int(batch["at"].max())
    finished_at = np.full(len(ordered.starts), when)
    _release(ordered, ordered.whole, finished_at, decisions)
    if ordered.given_up.any():
        decisions.dead.extend(_standings(ordered.only(ordered.given_up)))
    done = ordered.whole | ordered.given_up
    landing = np.full(len(finished_at), batch["landing"].max(initial=decisions.landing))
    finished = _remember(remembered, ordered, done, finished_at, landing)
    return Held(ordered.events[~done[ordered.number]], finished, _open(held.unreadable_ranges, clock))


def _open(unreadable_ranges: np.ndarray, clock: np.void | None) -> np.ndarray:
    """Return the unreadable ranges that may hold events of transactions which are not decided yet."""
    still: np.ndarray = (
        unreadable_ranges if clock is None else unreadable_ranges[unreadable_ranges["count"] > clock["csn"]]
    )
    return still


def _due(events: np.ndarray, clock: np.void, rules: Rules) -> bool:
    """Return whether a clock decides any of the held transactions without new events."""
    if not len(events):
        return False
    if rules.progress and bool((events["csn"][events["kind"] == ev.ROW] <= clock["csn"]).any()):
        return True
    return bool(clock["at"] - events["at"].min() >= rules.patience) or bool((events["kind"] == ev.REOPEN).any())


def _without_reopened(finished: np.ndarray, batch: np.ndarray, decisions: Decisions) -> np.ndarray:
    """Return the finished transactions without those to be decided again.

    A transaction that this call has already released stays finished.
    """
    reopened = batch["tx"][batch["kind"] == ev.REOPEN]
    if not len(reopened):
        return finished
    for released in decisions.released:
        reopened = reopened[~np.isin(reopened, released.tx)]
    kept: np.ndarray = finished[~np.isin(finished["tx"], reopened)]
    return kept


def _without_late(batch: np.ndarray, finished: np.ndarray, decisions: Decisions) -> np.ndarray:
    if not len(finished) or not len(batch):
        return batch
    position = np.minimum(np.searchsorted(finished["tx"], batch["tx"]), len(finished) - 1)
    late = finished["tx"][position] == batch["tx"]
    if not late.any():
        return batch
    if (finished["check"][position][late] != batch["check"][late]).any():
        raise _collision()
    decisions.late.append(batch[late & (batch["kind"] == ev.ROW)])
    decisions.late_metadata.append(batch[late & (batch["kind"] == ev.METADATA)])
    decisions.repeated_metadata += int(np.count_nonzero(batch["kind"][late] == ev.METADATA))
    in_time: np.ndarray = batch[~late]
    return in_time


def _as_they_were_known(batch: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return the batch with redelivered rows under the identity that the held row has.

    Rows that are held from before equal rows were numbered within their transaction have the identity of that older
    version (`former`); a redelivery must have the same one to count as a duplicate.
    """
    old = held[(held["kind"] == ev.ROW) & (held["high"] == 0)]
    numbered = np.flatnonzero(batch["former"] != 0) if len(old) else np.empty(0, np.int64)
    if not len(numbered):
        return batch
    known = set(zip(*(old[name].tolist() for name in ("tx", "table", "identity")), strict=True))
    former = zip(*(batch[name][numbered].tolist() for name in ("tx", "table", "former")), strict=True)
    again = numbered[[event_key in known for event_key in former]]
    events: np.ndarray = batch.copy()
    events["identity"][again] = events["former"][again]
    return events


def _collision() -> RuntimeError:
    return RuntimeError("two transactions share one 64-bit hash: nothing was decided; report this with both ids")


def _deduplicated(events: np.ndarray, decisions: Decisions) -> np.ndarray:
    """Drop events whose (transaction, kind, table, identity, content) came before; the first arrival stays.

    The position of a dropped row is kept until its transaction is done, so that its payload can be left out then.
    Events of one identity with different contents both stay: `_Ordered` reports them as a conflict. Metadata with other
    counts stays too, each message with the counts that came with it, because the newest counts decide (docs/adr/0031).
    """
    marked, counts = events["kind"] == ev.REPEATED, events["kind"] == ev.EXPECTED
    fresh = events[~marked & ~counts]
    names = ("row", "landing", "high", "payload", "identity", "table", "kind", "tx")
    fresh = fresh[np.lexsort([fresh[name] for name in names])]
    repeated = np.zeros(len(fresh), bool)
    repeated[1:] = _same_content(fresh[:-1], fresh[1:])
    for name in names[3:]:
        repeated[1:] &= fresh[name][1:] == fresh[name][:-1]
    rows = fresh[repeated & (fresh["kind"] == ev.ROW)]
    rows["kind"] = ev.REPEATED
    decisions.duplicates += len(rows)
    decisions.repeated_metadata += int(np.count_nonzero(repeated & (fresh["kind"] == ev.METADATA)))
    fresh = fresh[~repeated]
    counted_metadata = metadata.of_messages(events[counts], fresh[fresh["kind"] == ev.METADATA])
    return np.concatenate([fresh, counted_metadata, events[marked], rows])


def _same_content(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return which neighbours have equal digests; an event that was landed without a digest equals any other."""
    same: np.ndarray = (one["high"] == 0) | (one["high"] == other["high"]) & (one["low"] == other["low"])
    return same


class _Ordered:
    """Deduplicated events sorted by transaction, and the outcome of each transaction.

    counted: it has as many events as its metadata counts. whole: it is released. given_up: it becomes dead letters.
    Without a clock no transaction is given up as overdue, and none is at or below the low watermark.
    """

    def __init__(
        self, events: np.ndarray, rules: Rules, unreadable_ranges: np.ndarray, clock: np.void | None = None
    ) -> None:
        self.rules, self.unreadable_ranges, self.clock = rules, unreadable_ranges, clock
        names = ("identity", "table", "kind", "tx")
        self.events = events[np.lexsort([events[name] for name in names])]
        self.starts, self.number = ev.groups(self.events["tx"])
        size = len(self.starts)
        if size and (self.events["check"] != self.events["check"][self.starts][self.number]).any():
            raise _collision()
        kind = self.events["kind"]
        self.has_metadata = np.bincount(self.number[kind == ev.METADATA], minlength=size) > 0
        self.reopened = np.bincount(self.number[kind == ev.REOPEN], minlength=size) > 0
        self.rows = np.bincount(self.number[kind == ev.ROW], minlength=size)
        self.runs = producer_runs.judged(self.events, self.number, size, rules.keyless)
        self.tables, code = np.unique(self.events["table"], return_inverse=True)
        self.code = code.reshape(-1)
        width = max(len(self.tables), 1)
        cell = self.number * width + self.code
        self.received = np.bincount(cell[kind == ev.ROW], minlength=size * width).reshape(size, width)
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
        same = self.events["kind"][1:] == ev.ROW
        for name in ("tx", "kind", "table", "identity"):
            same &= self.events[name][1:] == self.events[name][:-1]
        conflict: np.ndarray = np.bincount(self.number[1:][same], minlength=size) > 0
        if replaced.any():
            several = np.bincount(self.number[replaced], minlength=size) > 0
            doubtful = metadata.in_doubt(self.events, self.number, size, replaced)
            conflict |= several & (doubtful | (not self.rules.corrected))
        return conflict

    def only(self, chosen: np.ndarray) -> "_Ordered":
        return _Ordered(self.events[chosen[self.number]], self.rules, self.unreadable_ranges, self.clock)


def _release(ordered: _Ordered, whole: np.ndarray, when: np.ndarray, decisions: Decisions) -> None:
    if not whole.any():
        return
    events = ordered.events[whole[ordered.number]]
    decisions.repeated.append(events[events["kind"] == ev.REPEATED])
    places = events["kind"] <= ev.METADATA
    landings, landing = np.unique(events["landing"][places], return_inverse=True)
    cells = np.unique(landing.reshape(-1) * len(ordered.tables) + ordered.code[whole[ordered.number]][places])
    decisions.repeated_in.update(
        (int(landings[cell // len(ordered.tables)]), int(ordered.tables[cell % len(ordered.tables)])) for cell in cells
    )
    decisions.released.append(
        Released(
            tx=ordered.events["tx"][ordered.starts][whole],
            csn=ordered.csn[whole],
            rows=ordered.rows[whole],
            first_at=ordered.first_at[whole],
            finished_at=when[whole],
            first_landing=np.minimum.reduceat(ordered.events["landing"], ordered.starts)[whole],
            last_landing=np.maximum.reduceat(ordered.events["landing"], ordered.starts)[whole],
            runs=ordered.runs[whole],
        )
    )


def _remember(
    finished: np.ndarray, ordered: _Ordered, done: np.ndarray, when: np.ndarray, landing: np.ndarray
) -> np.ndarray:
    if not done.any():
        return finished
    new = np.empty(int(done.sum()), ev.FINISHED)
    new["tx"] = ordered.events["tx"][ordered.starts][done]
    new["check"] = ordered.events["check"][ordered.starts][done]
    new["at"], new["csn"], new["landing"] = when[done], ordered.csn[done], landing[done]
    return memory.joined(finished, new)


def _standings(ordered: _Ordered) -> list[Waiting]:
    ends = np.append(ordered.starts[1:], len(ordered.events))[: len(ordered.starts)]
    return [
        _waiting(ordered, i, int(start), int(end))
        for i, (start, end) in enumerate(zip(ordered.starts, ends, strict=True))
    ]


def _waiting(ordered: _Ordered, i: int, start: int, end: int) -> Waiting:
    tables = ordered.tables.tolist()
    received = {table: int(n) for table, n in zip(tables, ordered.received[i], strict=True) if n}
    expected = {table: int(n) for table, n in zip(tables, ordered.expected[i], strict=True) if n}
    return Waiting(
        tx=int(ordered.events["tx"][start]),
        csn=int(ordered.csn[i]),
        cause=_cause(ordered, i),
        first_at=int(ordered.first_at[i]),
        rows=int(ordered.rows[i]),
        landings=tuple(np.unique(ordered.events["landing"][start:end]).tolist()),
        expected=expected if ordered.has_metadata[i] else None,
        received=received,
        runs=int(ordered.runs[i]),
    )


def _cause(ordered: _Ordered, i: int) -> str:
    if ordered.too_large[i]:
        return TOO_LARGE
    if ordered.conflict[i]:
        return CONFLICT
    if ordered.uncounted[i]:
        return UNREADABLE if ordered.unreadable[i] else SUSPECT if ordered.given_up[i] else BEHIND
    if not ordered.has_metadata[i]:
        return NO_METADATA
    if ordered.counted[i]:
        return SUSPECT
    return EXCESS if ordered.excess[i] else SHORT
