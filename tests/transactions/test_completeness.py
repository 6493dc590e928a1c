"""The buffer's rule against a plain interpreter of promises 1, 2 and 7: any order, split, duplicate and restart."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.transactions import buffer, completeness, memory
from txloom.transactions import events as ev
from workloads import unfinished

TABLES = (101, 103, 105)
"""Numbers that differ beyond their lowest bit, as hashes do."""
PATIENCE = 30


@dataclass(frozen=True)
class Row:
    tx: int
    table: int
    identity: int
    payload: int = 0
    digest: int = 0


@dataclass(frozen=True)
class Metadata:
    tx: int
    expected: tuple[tuple[int, int], ...]


Event = Row | Metadata
Landing = list[Event]


def numbers(landing: int, events: Landing, at: int, *, digests: bool = True) -> np.ndarray:
    """Write one landing, and its clock, as the buffer gets it; digests: it knows those of its rows."""
    collected = []
    for row, event in enumerate(events):
        base = {"tx": event.tx, "check": -event.tx, "csn": event.tx * 10, "landing": landing, "row": row, "at": at}
        if isinstance(event, Row):
            collected.append(
                {**base, "kind": ev.ROW, "table": event.table, "identity": event.identity, "payload": event.payload}
                | ({"high": 1 + event.payload, "low": event.digest} if digests else {})
            )
        else:
            counts = np.array(event.expected, np.int64).reshape(-1, 2)
            payload = int(ev.mixed(counts[:, 0], counts[:, 1]).sum(dtype=np.uint64).astype(np.int64))
            collected.append({**base, "kind": ev.METADATA, "payload": payload})
            collected += [
                {**base, "kind": ev.EXPECTED, "table": t, "identity": t, "payload": n, "count": n}
                for t, n in event.expected
            ]
    collected.append({"kind": ev.CLOCK, "landing": landing, "row": -1, "at": at})
    return np.array([tuple(event.get(name, 0) for name in ev.FIELDS) for event in collected], ev.EVENT)


@dataclass
class Seen:
    """What came out of the buffer, in plain Python."""

    released: dict[int, int] = field(default_factory=dict)
    dead: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    held: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is known of each waiting transaction."""
    late: int = 0
    duplicates: int = 0
    rows: int = 0
    released_rows: int = 0
    dead_rows: int = 0

    def add(self, decisions: buffer.Decisions) -> None:
        for part in decisions.released:
            self.released |= dict(zip(part.tx.tolist(), part.finished_at.tolist(), strict=True))
            self.released_rows += int(part.rows.sum())
        self.dead |= {standing.tx: standing.cause for standing in unfinished.each(decisions.dead)}
        self.dead_rows += sum(standing.rows for standing in unfinished.each(decisions.dead))
        self.waiting = {standing.tx: standing.cause for standing in unfinished.each(decisions.waiting)}
        details = ("first_at", "rows", "expected", "received", "landings")
        self.held = {
            each.tx: {name: getattr(each, name) for name in details} for each in unfinished.each(decisions.waiting)
        }
        self.late += sum(len(part) for part in decisions.late)
        self.duplicates += decisions.duplicates
        self.rows += decisions.rows


def run(
    landings: list[Landing],
    *,
    batches: list[int] | None = None,
    step: int = 10,
    digests: int = 1,
    largest: int | None = None,
) -> tuple[Seen, buffer.Held]:
    """Feed landings, grouped into micro-batches of the given sizes, through the buffer, restarting before each.

    digests: the first landing that knows the digests of its rows.
    """
    held, seen, rest = buffer.Held(), Seen(), list(enumerate(landings, 1))
    for size in batches or [1] * len(landings):
        taken, rest = rest[:size], rest[size:]
        if not taken:
            continue
        held = buffer.Held(
            ev.from_bytes(ev.to_bytes(held.events), ev.EVENT), ev.from_bytes(ev.to_bytes(held.finished), ev.FINISHED)
        )
        arrived = ev.concatenate(
            [numbers(number, events, number * step, digests=number >= digests) for number, events in taken]
        )
        held, decisions = buffer.decide(held, arrived, completeness.Rules(PATIENCE, largest=largest))
        seen.add(decisions)
    return seen, held


def interpret(landings: list[Landing], *, step: int = 10) -> Seen:
    """Do the same with dictionaries, one event after the other."""
    seen = Seen()
    rows: dict[int, dict[tuple[int, int], set[int]]] = defaultdict(lambda: defaultdict(set))
    metadata: dict[int, list[tuple[tuple[int, int], ...]]] = defaultdict(list)
    first: dict[int, int] = {}
    came_in: dict[int, set[int]] = defaultdict(set)
    for number, events in enumerate(landings, 1):
        now = number * step
        for event in events:
            if isinstance(event, Row):
                seen.rows += 1
            if event.tx in seen.released or event.tx in seen.dead:
                seen.late += isinstance(event, Row)
                continue
            first.setdefault(event.tx, now)
            if isinstance(event, Row) or event.expected not in metadata[event.tx]:
                came_in[event.tx].add(number)
            if isinstance(event, Metadata):
                metadata[event.tx] += [event.expected] if event.expected not in metadata[event.tx] else []
            elif event.payload in rows[event.tx][event.table, event.identity]:
                seen.duplicates += 1
            else:
                rows[event.tx][event.table, event.identity].add(event.payload)
        seen.waiting, seen.held = {}, {}
        for tx in list(first):
            received = {t: sum(1 for table, _ in rows[tx] if table == t) for t in TABLES}
            kept = sum(len(payloads) for payloads in rows[tx].values())
            conflict = any(len(payloads) > 1 for payloads in rows[tx].values())
            expected = {t: dict(metadata[tx][-1]).get(t, 0) for t in TABLES} if metadata[tx] else None
            if expected == received and not conflict:
                seen.released[tx] = now
                seen.released_rows += kept
                del first[tx]
                continue
            if conflict:
                cause = completeness.CONFLICT
            elif expected is None:
                cause = completeness.NO_METADATA
            else:
                cause = completeness.EXCESS if any(received[t] > expected[t] for t in TABLES) else completeness.SHORT
            if now - first[tx] >= PATIENCE:
                seen.dead[tx] = cause
                seen.dead_rows += kept
                del first[tx]
            else:
                seen.waiting[tx] = cause
                each = {t: sum(len(of) for (table, _), of in rows[tx].items() if table == t) for t in TABLES}
                counts = [None if of is None else {t: n for t, n in of.items() if n} for of in (expected, each)]
                seen.held[tx] = {"first_at": first[tx], "rows": kept, "landings": sorted(came_in[tx])}
                seen.held[tx] |= dict(zip(("expected", "received"), counts, strict=True))
    return seen


@st.composite
def deliveries(draw: st.DrawFn) -> list[Landing]:
    """Draw transactions and the landings that deliver them: in any order, doubled, lost, contradicted, corrected."""
    delivered: list[tuple[int, Event]] = []
    size = draw(st.integers(1, 8))
    for tx in range(1, draw(st.integers(1, 6)) + 1):
        counts = {table: draw(st.integers(0, 3)) for table in TABLES}
        events: list[Event] = [Row(tx, table, n, payload=7) for table, count in counts.items() for n in range(count)]
        counted = {table: max(0, count + draw(st.sampled_from((0, 0, 0, 0, 1, -1)))) for table, count in counts.items()}
        events.append(Metadata(tx, tuple((table, count) for table, count in counted.items() if count)))
        if draw(st.integers(0, 3)) == 0:
            corrected = {table: draw(st.sampled_from((count, count, 1))) for table, count in counts.items()}
            events.append(Metadata(tx, tuple((table, count) for table, count in corrected.items() if count)))
        for event in events:
            times = draw(st.sampled_from((1, 1, 1, 1, 2, 3, 0)))
            delivered += [(draw(st.integers(1, size)), event) for _ in range(times)]
            if isinstance(event, Row) and draw(st.integers(0, 30)) == 0:
                delivered.append((draw(st.integers(1, size)), Row(event.tx, event.table, event.identity, payload=8)))
        if draw(st.integers(0, 3)) == 0:
            again = draw(st.integers(1, size))
            delivered += [(again, event) for event in events]
    order = draw(st.permutations(delivered))
    return [[event for number, event in order if number == landing] for landing in range(1, size + 1)]


@settings(max_examples=examples(400), deadline=None)
@given(deliveries(), st.data())
def test_any_delivery_is_decided_as_the_plain_interpreter_decides(landings: list[Landing], data: st.DataObject) -> None:
    batches = data.draw(st.lists(st.integers(1, 4), min_size=len(landings), max_size=len(landings)))
    seen, _ = run(landings, batches=batches, digests=data.draw(st.integers(1, len(landings) + 1)))
    assert seen == interpret(landings)


@settings(max_examples=examples(200), deadline=None)
@given(deliveries())
def test_every_row_is_accounted_for(landings: list[Landing]) -> None:
    seen, held = run(landings)
    buffered = int(np.count_nonzero(held.events["kind"] == ev.ROW))
    assert seen.rows == seen.released_rows + seen.dead_rows + seen.duplicates + seen.late + buffered


@settings(max_examples=examples(200), deadline=None)
@given(deliveries())
def test_a_replay_in_one_batch_decides_what_single_runs_decided(landings: list[Landing]) -> None:
    assert run(landings)[0] == run(landings, batches=[len(landings)])[0]


ORDER = [Row(1, 101, 1), Row(1, 103, 1), Row(1, 103, 2)]
COUNTED = Metadata(1, ((101, 1), (103, 2)))


@pytest.mark.parametrize("before", [[Row(1, 101, 1)], [Row(1, 101, 1), Row(1, 103, 1), Row(1, 103, 2), COUNTED]])
def test_what_comes_again_whole_among_many_landings_is_not_decided_by_itself(before: Landing) -> None:
    landings = [before, [*ORDER, COUNTED], []]
    assert run(landings, batches=[1, 2])[0] == interpret(landings)


def test_a_transaction_is_released_when_its_last_row_comes() -> None:
    assert run([[COUNTED, *ORDER[:2]], [ORDER[2]]])[0].released == {1: 20}


def test_a_transaction_is_released_when_its_metadata_comes_last() -> None:
    assert run([ORDER, [], [COUNTED]])[0].released == {1: 30}


def test_a_transaction_without_events_is_closed_at_once() -> None:
    assert run([[Metadata(1, ())]])[0].released == {1: 10}


def test_more_rows_than_counted_is_excess_and_nothing_is_released() -> None:
    seen, _ = run([[*ORDER, Metadata(1, ((101, 1), (103, 1)))]])
    assert (seen.released, seen.waiting) == ({}, {1: completeness.EXCESS})


def test_duplicates_do_not_count_towards_completeness() -> None:
    seen, _ = run([[COUNTED, *ORDER[:2], ORDER[1]]])
    assert (seen.released, seen.waiting, seen.duplicates) == ({}, {1: completeness.SHORT}, 1)


def test_two_payloads_under_one_identity_are_a_conflict_not_a_duplicate() -> None:
    seen, _ = run([[COUNTED, *ORDER, Row(1, 101, 1, payload=9)]])
    assert (seen.released, seen.waiting, seen.duplicates) == ({}, {1: completeness.CONFLICT}, 0)


def test_two_contents_with_one_checksum_are_a_conflict_not_a_duplicate() -> None:
    seen, _ = run([[COUNTED, *ORDER], [Row(1, 101, 1, digest=9)]][::-1])
    assert (seen.released, seen.waiting, seen.duplicates) == ({}, {1: completeness.CONFLICT}, 0)


def test_a_redelivery_of_a_row_that_was_landed_before_digests_is_a_duplicate() -> None:
    seen, _ = run([[ORDER[0]], [ORDER[0]], [COUNTED, *ORDER]], digests=2)
    assert (seen.released, seen.duplicates) == ({1: 30}, 2)


def test_another_row_than_the_one_landed_before_digests_is_a_conflict() -> None:
    seen, _ = run([[ORDER[0]], [COUNTED, *ORDER[1:], Row(1, 101, 1, payload=9)]], digests=2)
    assert (seen.released, seen.waiting) == ({}, {1: completeness.CONFLICT})


def test_a_transaction_with_more_rows_than_one_may_have_is_given_up_at_once_and_the_others_go_on() -> None:
    other = [Row(2, 101, 9), Metadata(2, ((101, 1),))]
    seen, held = run([[COUNTED, *ORDER, *other]], largest=len(ORDER) - 1)
    assert (seen.released, seen.dead, seen.waiting) == ({2: 10}, {1: completeness.TOO_LARGE}, {})
    assert not len(held.events)
    assert run([[COUNTED, *ORDER, *other]], largest=len(ORDER))[0].released == {1: 10, 2: 10}


def test_rows_that_are_counted_and_rows_that_have_come_are_too_many_before_the_rest_comes() -> None:
    assert run([[COUNTED]], largest=len(ORDER) - 1)[0].dead == {1: completeness.TOO_LARGE}
    assert run([ORDER], largest=len(ORDER) - 1)[0].dead == {1: completeness.TOO_LARGE}
    assert run([[*ORDER[:2], ORDER[0]]], largest=2)[0].dead == {}, "a duplicate is no row more"


def test_patience_runs_out_with_no_new_data() -> None:
    seen, _ = run([[COUNTED], [], [], []])
    assert seen.dead == {1: completeness.SHORT}


def test_patience_counts_from_the_first_arrival() -> None:
    seen, _ = run([[COUNTED], [], [ORDER[0]]])
    assert (seen.dead, seen.waiting) == ({}, {1: completeness.SHORT})


def test_an_event_of_a_finished_transaction_is_late() -> None:
    seen, _ = run([[COUNTED, *ORDER], [ORDER[0], Row(1, 103, 5)]])
    assert (seen.late, seen.waiting) == (2, {})


def test_the_places_of_duplicates_are_kept_until_release() -> None:
    held, first = buffer.decide(buffer.Held(), numbers(1, [ORDER[0]], 10), completeness.Rules(PATIENCE))
    held, second = buffer.decide(held, numbers(2, [ORDER[0]], 20), completeness.Rules(PATIENCE))
    _, third = buffer.decide(held, numbers(3, [*ORDER[1:], COUNTED], 30), completeness.Rules(PATIENCE))
    assert not first.repeated and not second.repeated
    assert [(e["landing"], e["row"]) for part in third.repeated for e in part] == [(2, 0)]
    assert third.repeated_in == {(1, 101), (3, 103), (3, 0)}


def test_finished_transactions_are_forgotten_oldest_first() -> None:
    held = buffer.Held()
    old = np.zeros(memory.REMEMBERED, ev.FINISHED)
    old["tx"] = np.arange(10, 10 + memory.REMEMBERED)
    old["at"] = np.arange(memory.REMEMBERED)
    first = np.concatenate([numbers(1, [Metadata(1, ())], 10**9), ev.decided(1, 0)])
    held, _ = buffer.decide(buffer.Held(held.events, old), first, completeness.Rules(PATIENCE))
    assert len(held.finished) == memory.REMEMBERED
    assert 10 not in held.finished["tx"] and 1 in held.finished["tx"]


def test_none_is_forgotten_before_every_landing_to_come_knows_it() -> None:
    rules, held, remembered = completeness.Rules(PATIENCE, remembered=1), buffer.Held(), []
    for landing, known in ((1, 0), (2, 0), (3, None), (4, 2), (5, 4)):
        decided_rows = [ev.decided(landing, known)] if known is not None else []
        arrived = np.concatenate([numbers(landing, [Metadata(landing, ())], landing), *decided_rows])
        held, _ = buffer.decide(held, arrived, rules)
        remembered.append(held.finished["tx"].tolist())
    assert remembered == [[1], [1, 2], [1, 2, 3], [3, 4], [5]]


def test_two_transactions_under_one_hash_are_refused() -> None:
    clash = numbers(1, [Row(1, 101, 1), Row(1, 101, 2)], 10)
    clash["check"][0] = 99
    try:
        buffer.decide(buffer.Held(), clash, completeness.Rules(PATIENCE))
    except RuntimeError as error:
        assert "share one 64-bit hash" in str(error)
    else:
        raise AssertionError("a collision went unseen")


def test_two_transactions_under_one_hash_are_refused_also_when_the_first_was_released_long_ago() -> None:
    held, first = buffer.decide(buffer.Held(), numbers(1, [*ORDER, COUNTED], 10), completeness.Rules(PATIENCE))
    assert first.released
    clash = numbers(2, [ORDER[0]], 20)
    clash["check"][clash["kind"] == ev.ROW] = 99
    with pytest.raises(RuntimeError, match="share one 64-bit hash"):
        buffer.decide(held, clash, completeness.Rules(PATIENCE))


def test_a_row_that_came_before_rows_were_numbered_is_known_again_by_its_former_identity() -> None:
    earlier = numbers(1, [Row(1, 101, 7)], 10, digests=False)
    held, _ = buffer.decide(buffer.Held(), earlier, completeness.Rules(PATIENCE))
    again = numbers(2, [Row(1, 101, 1), Row(1, 101, 2)], 20)
    again["former"][: len(again) - 1] = [7, 8]
    held, _ = buffer.decide(held, again, completeness.Rules(PATIENCE))
    assert sorted(held.events["identity"][held.events["kind"] == ev.ROW].tolist()) == [2, 7]
