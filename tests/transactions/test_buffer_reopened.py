"""A transaction that was given up is decided again when it is reopened, from the events that come with it."""

import numpy as np

from transactions.test_completeness import COUNTED, ORDER, PATIENCE, Event, Seen, numbers
from txloom.transactions import buffer, completeness
from txloom.transactions import events as ev


def again(landing: int, *events: Event) -> np.ndarray:
    """Write the landing of a redrive."""
    written = numbers(landing, list(events), landing * 10)
    reopening = written[:1].copy()
    reopening["kind"] = ev.REOPEN
    for name in ("table", "identity", "payload", "count"):
        reopening[name] = 0
    return np.concatenate([reopening, written])


def decided(*landings: np.ndarray) -> Seen:
    """Let transaction 1 die for want of its metadata, then feed landings together."""
    seen, held = Seen(), buffer.Held()
    first = [numbers(1, list(ORDER), 10), *(numbers(n, [], n * 10) for n in (2, 3, 4))]
    for arrived in (ev.concatenate(first), ev.concatenate(landings)):
        held, decisions = buffer.decide(held, arrived, completeness.Rules(PATIENCE))
        seen.add(decisions)
    return seen


def test_a_reopened_transaction_that_is_whole_now_is_released() -> None:
    seen = decided(again(5, *ORDER, COUNTED))
    assert (seen.dead, seen.released, seen.late) == ({1: completeness.NO_METADATA}, {1: 50}, 0)


def test_a_reopened_transaction_that_still_lacks_a_row_is_given_up_at_once() -> None:
    seen = decided(again(5, *ORDER[:2], COUNTED))
    assert (seen.dead, seen.released, seen.waiting) == ({1: completeness.SHORT}, {}, {})


def test_what_comes_for_a_dead_transaction_without_reopening_it_is_late() -> None:
    seen = decided(numbers(5, [*ORDER, COUNTED], 50))
    assert (seen.dead, seen.released, seen.late) == ({1: completeness.NO_METADATA}, {}, 3)


def test_a_transaction_reopened_twice_is_released_once() -> None:
    seen = decided(again(5, *ORDER, COUNTED), again(6, *ORDER, COUNTED))
    assert (seen.released, seen.released_rows, seen.late) == ({1: 50}, 3, 3)
