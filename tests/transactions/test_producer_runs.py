"""Transactions whose rows come from two producer runs: do the runs leave a hole between them?"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drawn import examples
from transactions.test_buffer_reopened import again
from transactions.test_completeness import COUNTED, ORDER, PATIENCE, Event, Metadata, Row, Seen, numbers
from txloom.transactions import buffer, completeness
from txloom.transactions.producer_runs import CONNECTED, ONE, UNCONNECTED

RELEASE = completeness.Rules(PATIENCE)


def of_runs(landed: np.ndarray, *runs: int) -> np.ndarray:
    landed["run"][: len(runs)] = runs
    return landed


def judged(*landings: np.ndarray, rules: completeness.Rules = RELEASE) -> list[int]:
    """Return what is said of each released transaction."""
    held, released = buffer.Held(), list[int]()
    for arrived in landings:
        held, decisions = buffer.decide(held, arrived, rules)
        released += [int(each) for part in decisions.released for each in part.runs]
    return released


@pytest.mark.parametrize(
    ("runs", "expected"),
    [((7, 7, 7), ONE), ((7, 7, 8), UNCONNECTED), ((0, 7, 7), ONE), ((0, 0, 0), ONE)],
)
def test_rows_of_two_known_runs_make_a_transaction_suspect(runs: tuple[int, ...], expected: int) -> None:
    assert judged(of_runs(numbers(1, [*ORDER, COUNTED], 10), *runs)) == [expected]


def test_a_second_run_that_sends_only_what_the_first_one_sent_makes_nothing_suspect() -> None:
    twice = np.concatenate([numbers(1, [*ORDER, COUNTED], 10), of_runs(numbers(1, list(ORDER), 10), 8, 8, 8)])
    twice["run"][:3] = 7
    assert judged(twice) == [ONE]


def test_runs_that_share_a_row_leave_no_hole() -> None:
    first = of_runs(numbers(1, ORDER[:2], 10), 7, 7)
    assert judged(first, of_runs(numbers(2, [*ORDER[1:], COUNTED], 20), 8, 8)) == [CONNECTED]
    assert judged(first, of_runs(numbers(2, [ORDER[2], COUNTED], 20), 8)) == [UNCONNECTED]


def test_runs_that_share_rows_of_one_table_leave_no_hole_in_another() -> None:
    """So it was in a real load: orders in front of its lines and behind them, and a restart among the lines."""
    one, lines = ORDER[0], ORDER[1:]
    more = Row(1, 101, 9)
    first = of_runs(numbers(1, [one, *lines], 10), 7, 7, 7)
    second = of_runs(numbers(2, [lines[1], more, Metadata(1, ((101, 2), (103, 2)))], 20), 8, 8)
    assert judged(first, second) == [CONNECTED]


def test_equal_rows_of_a_table_without_a_key_prove_nothing() -> None:
    landings = of_runs(numbers(1, ORDER[:2], 10), 7, 7), of_runs(numbers(2, [*ORDER[1:], COUNTED], 20), 8, 8)
    assert judged(*landings, rules=completeness.Rules(PATIENCE, keyless=frozenset((103,)))) == [UNCONNECTED]


def test_a_suspect_that_is_held_is_given_up_after_patience_and_released_by_a_redrive() -> None:
    seen, held = Seen(), buffer.Held()
    landings = [of_runs(numbers(1, [*ORDER, COUNTED], 10), 7, 7, 8), *(numbers(n, [], n * 10) for n in (2, 3, 4))]
    for arrived in [*landings, of_runs(again(5, *ORDER, COUNTED), 0, 7, 7, 8)]:
        held, decisions = buffer.decide(held, arrived, completeness.Rules(PATIENCE, hold=True))
        seen.add(decisions)
    assert (seen.dead, seen.released) == ({1: completeness.SUSPECT}, {1: 50})


def test_what_lacks_nothing_is_not_held() -> None:
    first, second = numbers(1, ORDER[:2], 10), numbers(2, [*ORDER[1:], COUNTED], 20)
    assert judged(of_runs(first, 7, 7), of_runs(second, 8, 8), rules=completeness.Rules(PATIENCE, hold=True)) == [
        CONNECTED
    ]


@dataclass(frozen=True)
class Delivery:
    """A transaction as its source wrote it, and what each run of the producer sent of it, as positions in the log."""

    rows: list[Row]
    runs: list[range]

    @property
    def sent(self) -> set[int]:
        return {position for run in self.runs for position in run}


@st.composite
def restarts(draw: st.DrawFn) -> Delivery:
    """Draw a producer that restarts inside a transaction, as Debezium does.

    It notes a row that it sent, and goes on behind that row, or, inside a COPY, behind all rows of that row's position.
    """
    statements = draw(st.lists(st.tuples(st.sampled_from((101, 103, 105)), st.integers(1, 6)), min_size=1, max_size=5))
    rows, ends = list[Row](), list[int]()
    for table, size in statements:
        rows += [Row(1, table, 100 * len(rows) + n) for n in range(size)]
        ends += [len(rows)] * size
    runs, start = list[range](), 0
    for _ in range(draw(st.integers(1, 2))):
        if start >= len(rows):
            break
        stop = draw(st.integers(start + 1, len(rows)))
        runs.append(range(start, stop))
        noted = draw(st.integers(start, stop - 1))
        start = ends[noted] if draw(st.booleans()) else draw(st.sampled_from((noted + 1, 0)))
    return Delivery(rows, [*runs, range(start, len(rows))])


def landings_of(delivery: Delivery, cuts: list[int]) -> list[np.ndarray]:
    """Write what the runs sent, in landings of any size; the metadata counts what was sent, and comes last."""
    numbered: list[tuple[Event, int]] = [
        (delivery.rows[at], run) for run, sent in enumerate(delivery.runs, 7) for at in sent
    ]
    tables = [delivery.rows[at].table for at in delivery.sent]
    numbered.append((Metadata(1, tuple((table, tables.count(table)) for table in sorted(set(tables)))), 0))
    bounds = sorted({0, len(numbered), *(cut % len(numbered) for cut in cuts)})
    parts = [numbered[start:stop] for start, stop in pairwise(bounds)]
    return [
        of_runs(numbers(n, [event for event, _ in part], 1), *[run for _, run in part])
        for n, part in enumerate(parts, 1)
    ]


@settings(max_examples=examples(400), deadline=None)
@given(restarts(), st.lists(st.integers(0, 99), max_size=4), st.booleans())
def test_a_transaction_that_lacks_rows_is_never_released_as_whole(
    delivery: Delivery, cuts: list[int], hold: bool
) -> None:
    """The oracle knows what the source wrote; counts agree with what was sent, as real ones did.

    Where the last run sent no row nothing tells of it, so that nobody could know.
    """
    lacks = len(delivery.sent) < len(delivery.rows)
    if lacks and not delivery.runs[-1]:
        return
    released = judged(*landings_of(delivery, cuts), rules=completeness.Rules(PATIENCE, hold=hold))
    event(f"lacks rows: {lacks}, said: {released}")
    if lacks:
        assert released == ([] if hold else [UNCONNECTED])
    if len(delivery.runs) == 2 and delivery.runs[1].start == 0:
        assert released == [CONNECTED] or delivery.runs[0].stop == len(delivery.rows)
