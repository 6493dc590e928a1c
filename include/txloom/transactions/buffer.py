"""The buffer's rule: (what is held, new events, clock) -> (what is held now, what was decided).

One call takes all events of one hash bucket. Landings are taken one after the other, each followed by its clock, so
that a replay of many landings at once decides exactly what the runs decided one by one (docs/architecture.md, 7).

When a transaction is whole, and when it is given up, `txloom.transactions.completeness` says. Here is what one call
remembers for the next: held events, finished transactions, and what repeats or comes too late for them.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from txloom.transactions import events as ev
from txloom.transactions import memory, metadata
from txloom.transactions.alone import alone
from txloom.transactions.completeness import UNFINISHED_ROWS, Outcomes, Rules, collision, unfinished


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
    of released events, to be left out. dead and waiting: transactions, in the schema UNFINISHED_ROWS of `completeness`.
    late and late_metadata: events of transactions that were finished before.
    clocks, rows and metadata: how many were taken in; duplicates and repeated_metadata: how many were dropped.
    redecoded: rows that were dropped because a landing decoded messages again that had been landed before. now, landing
    and low_watermark: the last clock's.
    """

    released: list[Released] = field(default_factory=list)
    repeated_in: set[tuple[int, int]] = field(default_factory=set)
    repeated: list[np.ndarray] = field(default_factory=list)
    dead: pa.Table = field(default_factory=UNFINISHED_ROWS.empty_table)
    waiting: pa.Table = field(default_factory=UNFINISHED_ROWS.empty_table)
    late: list[np.ndarray] = field(default_factory=list)
    late_metadata: list[np.ndarray] = field(default_factory=list)
    now: int | None = None
    landing: int = 0
    low_watermark: int = ev.NOWHERE
    clocks: int = 0
    rows: int = 0
    metadata: int = 0
    duplicates: int = 0
    redecoded: int = 0
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
    arrived = ev.ordered(arrived, ["landing"])
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
        events = ev.chosen(batch, (batch["kind"] != ev.CLOCK) & (batch["kind"] != ev.UNREADABLE_RANGE))
        held = _take(Held(held.events, held.finished, unreadable_ranges), events, clock, rules, decisions)
    finished = memory.joined(held.finished, at_once)
    held = Held(held.events, memory.newest(finished, rules.remembered, decided), held.unreadable_ranges)
    if decisions.now is not None:
        decisions.waiting = unfinished(Outcomes(held.events, rules, held.unreadable_ranges))
    return held, decisions


def _at_once(held: Held, arrived: np.ndarray, rules: Rules, decisions: Decisions) -> tuple[np.ndarray, np.ndarray]:
    """Release, for all landings in one pass, the transactions that are whole within one landing.

    Returns these transactions as finished ones, and the remaining events. Deciding landing by landing would give the
    same result, hundreds of times as slowly.
    """
    is_alone = alone(arrived, held.events["tx"], held.finished["tx"])
    if not is_alone.any():
        return memory.none(), arrived
    outcomes, at_once = _decided(ev.chosen(arrived, is_alone), rules)
    if not outcomes.whole.all():
        is_alone &= np.isin(arrived["tx"], outcomes.events["tx"][outcomes.starts][outcomes.whole])
        outcomes, at_once = _decided(ev.chosen(arrived, is_alone), rules)
    if not len(outcomes.events):
        return memory.none(), arrived
    decisions.duplicates += at_once.duplicates
    decisions.repeated_metadata += at_once.repeated_metadata
    _count(ev.chosen(arrived, is_alone), decisions)
    clocks = arrived[arrived["kind"] == ev.CLOCK]
    landings = outcomes.events["landing"][outcomes.starts]
    when = clocks["at"][np.searchsorted(clocks["landing"], landings)]
    _release(outcomes, outcomes.whole, when, decisions)
    return _remember(memory.none(), outcomes, outcomes.whole, when, landings), ev.chosen(arrived, ~is_alone)


def _decided(events: np.ndarray, rules: Rules) -> tuple["Outcomes", Decisions]:
    """Return deduplicated events in order, and decisions that count what was dropped."""
    decisions = Decisions()
    return Outcomes(_deduplicated(events, decisions), rules, ev.no_events()), decisions


def _count(batch: np.ndarray, decisions: Decisions) -> None:
    decisions.rows += int(ev.row_counts(batch).sum())
    decisions.metadata += int(np.count_nonzero(_is_message(batch)))


def _take(held: Held, batch: np.ndarray, clock: np.void | None, rules: Rules, decisions: Decisions) -> Held:
    """Take in one landing, then judge by its clock."""
    _count(batch, decisions)
    recalled = memory.recalled(held.finished, held.events["tx"], batch)
    remembered = memory.without_reused(_without_reopened(recalled, batch, decisions), batch)
    batch = ev.chosen(batch, batch["kind"] != ev.KNOWN)
    held, batch = _with_redecoded(held, remembered, batch, decisions)
    batch = _without_late(batch, remembered, decisions)
    batch = _as_they_were_known(batch, held.events)
    if not len(batch) and (clock is None or not _due(held.events, clock, rules)):
        return Held(held.events, remembered, _open(held.unreadable_ranges, clock))
    outcomes = Outcomes(
        _deduplicated(ev.concatenate([held.events, batch]), decisions), rules, held.unreadable_ranges, clock
    )
    when = int(clock["at"]) if clock is not None else int(batch["at"].max())
    finished_at = np.full(len(outcomes.starts), when)
    _release(outcomes, outcomes.whole, finished_at, decisions)
    if outcomes.given_up.any():
        decisions.dead = pa.concat_tables([decisions.dead, unfinished(outcomes.only(outcomes.given_up))])
    done = outcomes.whole | outcomes.given_up
    landing = np.full(len(finished_at), batch["landing"].max(initial=decisions.landing))
    finished = _remember(remembered, outcomes, done, finished_at, landing)
    return Held(ev.chosen(outcomes.events, ~done[outcomes.number]), finished, _open(held.unreadable_ranges, clock))


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


def _with_redecoded(
    held: Held, finished: np.ndarray, batch: np.ndarray, decisions: Decisions
) -> tuple[Held, np.ndarray]:
    """Replace what is held of transactions by what this landing decoded again; return what is held, and the rest.

    A transaction that was finished meanwhile stays as it was decided: its events of this landing are left out. Each row
    that is left out counts as decoded again: it was landed twice, but its source sent it once.
    """
    marks = batch["kind"] == ev.REDECODED
    if not marks.any():
        return held, batch
    redecoded = np.unique(batch["tx"][marks])
    batch = ev.chosen(batch, ~marks)
    again = np.isin(batch["tx"], redecoded[np.isin(redecoded, finished["tx"])])
    replaced = np.isin(held.events["tx"], redecoded)
    for left_out in (batch[again], held.events[replaced]):
        decisions.redecoded += int(ev.row_counts(left_out).sum())
        decisions.repeated_metadata += int(np.count_nonzero(_is_message(left_out)))
    return Held(ev.chosen(held.events, ~replaced), held.finished, held.unreadable_ranges), ev.chosen(batch, ~again)


def _is_message(events: np.ndarray) -> np.ndarray:
    """Return which events are metadata that came as a message of its own."""
    is_message: np.ndarray = (events["kind"] == ev.METADATA) & (events["run"] != ev.BROUGHT)
    return is_message


def _without_late(batch: np.ndarray, finished: np.ndarray, decisions: Decisions) -> np.ndarray:
    if not len(finished) or not len(batch):
        return batch
    position = np.minimum(np.searchsorted(finished["tx"], batch["tx"]), len(finished) - 1)
    late = finished["tx"][position] == batch["tx"]
    if not late.any():
        return batch
    if (finished["check"][position][late] != batch["check"][late]).any():
        raise collision()
    decisions.late.append(batch[late & (batch["kind"] == ev.ROW)])
    decisions.late_metadata.append(batch[late & (batch["kind"] == ev.METADATA)])
    decisions.repeated_metadata += int(np.count_nonzero(batch["kind"][late] == ev.METADATA))
    return ev.chosen(batch, ~late)


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


def _deduplicated(events: np.ndarray, decisions: Decisions) -> np.ndarray:
    """Drop events whose (transaction, kind, table, identity, content) came before; the first arrival stays.

    The position of a dropped row is kept until its transaction is done, so that its payload can be left out then.
    Events of one identity with different contents both stay: `Outcomes` reports them as a conflict. Metadata with other
    counts stays too, each message with the counts that came with it, because the newest counts decide (docs/adr/0031).
    """
    marked, counts = events["kind"] == ev.REPEATED, events["kind"] == ev.EXPECTED
    fresh = ev.ordered(ev.chosen(events, ~marked & ~counts), ev.IDENTITY)
    fresh, repeated = _first_of_each(fresh)
    rows = ev.chosen(repeated, repeated["kind"] == ev.ROW).copy()
    rows["kind"] = ev.REPEATED
    decisions.duplicates += len(rows)
    decisions.repeated_metadata += int(np.count_nonzero(repeated["kind"] == ev.METADATA))
    expected = metadata.of_messages(ev.chosen(events, counts), _metadata(fresh))
    return ev.merged(fresh, ev.concatenate([expected, events[marked], rows]))


def _first_of_each(events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return events without those that came before, and these; events: in the order of `events.IDENTITY`."""
    again = ev.repeats(events, ev.IDENTITY)
    if not again.any():
        return events, ev.no_events()
    among = again.copy()
    among[:-1] |= again[1:]
    some = ev.ordered(ev.chosen(events, among), [*ev.IDENTITY, "payload", "high", "landing", "row"])
    repeated = ev.repeats(some, (*ev.IDENTITY, "payload"))
    repeated[1:] &= _same_content(some[:-1], some[1:])
    stays = np.ones(len(events), bool)
    stays[among] = ~repeated
    first: np.ndarray = events.take(np.flatnonzero(stays))
    first[among[stays]] = ev.chosen(some, ~repeated)
    return first, ev.chosen(some, repeated)


def _metadata(events: np.ndarray) -> np.ndarray:
    return ev.chosen(events, events["kind"] == ev.METADATA)


def _same_content(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return which neighbours have equal digests; an event that was landed without a digest equals any other."""
    same: np.ndarray = (one["high"] == 0) | (one["high"] == other["high"]) & (one["low"] == other["low"])
    return same


def _release(outcomes: Outcomes, whole: np.ndarray, when: np.ndarray, decisions: Decisions) -> None:
    if not whole.any():
        return
    events = ev.chosen(outcomes.events, whole[outcomes.number])
    decisions.repeated.append(events[events["kind"] == ev.REPEATED])
    places = np.isin(events["kind"], (ev.ROW, ev.ROWS, ev.METADATA))
    landings, landing = np.unique(events["landing"][places], return_inverse=True)
    cells = np.unique(landing.reshape(-1) * len(outcomes.tables) + outcomes.code[whole[outcomes.number]][places])
    width = len(outcomes.tables)
    decisions.repeated_in.update((int(landings[cell // width]), int(outcomes.tables[cell % width])) for cell in cells)
    decisions.released.append(
        Released(
            tx=outcomes.events["tx"][outcomes.starts][whole],
            csn=outcomes.csn[whole],
            rows=outcomes.rows[whole],
            first_at=outcomes.first_at[whole],
            finished_at=when[whole],
            first_landing=np.minimum.reduceat(outcomes.events["landing"], outcomes.starts)[whole],
            last_landing=np.maximum.reduceat(outcomes.events["landing"], outcomes.starts)[whole],
            runs=outcomes.runs[whole],
        )
    )


def _remember(
    finished: np.ndarray, outcomes: Outcomes, done: np.ndarray, when: np.ndarray, landing: np.ndarray
) -> np.ndarray:
    if not done.any():
        return finished
    new = np.empty(int(done.sum()), ev.FINISHED)
    new["tx"] = outcomes.events["tx"][outcomes.starts][done]
    new["check"] = outcomes.events["check"][outcomes.starts][done]
    new["at"], new["csn"], new["landing"] = when[done], outcomes.csn[done], landing[done]
    return memory.joined(finished, new)
