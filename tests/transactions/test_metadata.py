"""Metadata that comes twice: the same counts are a duplicate, others correct them, whatever comes again after that."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from txloom.storage.system_tables import CHANGE_EVENTS
from txloom.transactions import buffer, completeness
from txloom.transactions import events as ev
from txloom.transactions.compact_events import compact_events_of

PATIENT = completeness.Rules(10**15)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Counts = Sequence[tuple[str, int]]
ONE, TWO = [("orders", 1)], [("orders", 2)]
LINES = [("orders", 2), ("lines", 1)]


def landing(number: int, *events: Counts | str) -> np.ndarray:
    """Write a landing with its clock: metadata by its counts, a row of orders by its identity."""
    columns = {"transaction_id": "x:7", "tx": 1, "csn": 7, "landing": number, "landed_at": NOW}
    messages = [
        {**columns, "row": row, "kind": "row", "table": "orders", "identity": event, "payload": 5}
        if isinstance(event, str)
        else {**columns, "row": row, "kind": "metadata", "expected": event}
        for row, event in enumerate(events, 1)
    ]
    clock = ev.clocks(np.array([number]), np.array([number]))
    return np.concatenate([compact_events_of(pa.Table.from_pylist(messages, CHANGE_EVENTS)), clock])


def outcome(*landings: np.ndarray, together: bool = False, rules: completeness.Rules = PATIENT) -> str:
    """Return what became of the transaction: released, or why it waits."""
    held = buffer.Held()
    for arrived in [np.concatenate(landings)] if together else landings:
        held, decisions = buffer.decide(held, arrived, rules)
        if decisions.released:
            return completeness.RELEASED
    (cause,) = decisions.waiting.column("cause").to_pylist()
    return str(cause)


@pytest.mark.parametrize("together", [False, True], ids=["run by run", "rebuilt"])
class TestMetadata:
    def test_the_same_counts_in_another_order_are_a_duplicate(self, together: bool) -> None:
        assert outcome(landing(1, LINES, "1"), landing(2, LINES[::-1]), together=together) == completeness.SHORT

    @pytest.mark.parametrize("wrong", [[("orders", 3)], LINES, [], [("lines", 2)]])
    def test_corrected_metadata_replaces_what_waits(self, wrong: Counts, together: bool) -> None:
        assert outcome(landing(1, wrong, "1", "2"), together=together) != completeness.RELEASED
        assert outcome(landing(1, wrong, "1", "2"), landing(2, TWO), together=together) == completeness.RELEASED

    def test_of_two_in_one_landing_the_later_row_counts(self, together: bool) -> None:
        assert outcome(landing(1, ONE, TWO, "1", "2"), together=together) == completeness.RELEASED
        assert outcome(landing(1, TWO, ONE, "1", "2"), together=together) == completeness.EXCESS

    def test_what_was_corrected_does_not_count_again_when_it_is_delivered_again(self, together: bool) -> None:
        result = outcome(landing(1, ONE), landing(2, TWO), landing(3, ONE), landing(4, "1"), together=together)
        assert result == completeness.SHORT
        more = landing(5, ONE, TWO, "2")
        assert outcome(landing(1, ONE), landing(2, TWO), landing(3, ONE, "1"), more, together=together) == (
            completeness.RELEASED
        )

    def test_where_nobody_corrects_metadata_other_counts_are_a_conflict(self, together: bool) -> None:
        rules = completeness.Rules(10**15, corrected=False)
        assert (
            outcome(landing(1, ONE, "1", "2"), landing(2, TWO), together=together, rules=rules) == completeness.CONFLICT
        )

    def test_redelivered_metadata_is_counted_as_a_duplicate_corrected_metadata_is_not(self, together: bool) -> None:
        landings = [landing(1, ONE), landing(2, TWO), landing(3, ONE), landing(4, TWO)]
        held, repeated = buffer.Held(), 0
        for arrived in [np.concatenate(landings)] if together else landings:
            held, decisions = buffer.decide(held, arrived, PATIENT)
            repeated += decisions.repeated_metadata
        assert repeated == 2


def test_state_that_kept_one_count_of_two_metadata_is_a_conflict_as_it_was_when_it_was_written() -> None:
    """A buffer that knew of no corrections kept a count that both had once, where it came first."""
    both = np.concatenate([landing(1, LINES), landing(2, TWO)])
    repeated = (both["kind"] == ev.EXPECTED) & (both["landing"] == 2)
    state = buffer.Held(both[~repeated & (both["kind"] != ev.CLOCK)])
    _, decisions = buffer.decide(state, landing(3, "1"), PATIENT)
    assert decisions.waiting.column("cause").to_pylist() == [completeness.CONFLICT]
