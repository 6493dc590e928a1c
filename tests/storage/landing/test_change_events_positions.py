"""Rows that say nothing of their order stand where they were landed: each at a position of its own, in order."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from txloom.errors import SourceUnavailable
from txloom.events.envelope import ENVELOPE
from txloom.storage.landing.change_events import with_position
from txloom.storage.sources.splits import LandingPlan, Task, fitting, line_bits

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROW = pa.Table.from_pylist([{"ordinal": 0, "kind": "row", "transaction_id": "1", "identity": "1"}], ENVELOPE)


def position(landing: int, tasks: int, number: int, line: int) -> int:
    """Return where a row stands that was landed so."""
    every = tuple(Task(n, "t", f"t/{n}.jsonl", 0) for n in range(1, tasks + 1))
    return int(
        with_position(ROW, Task(number, "t", "t/a.jsonl", 0), [line], LandingPlan(landing, AT, every))["pos"][0].as_py()
    )


PLACES = st.integers(1, 20_000).flatmap(
    lambda tasks: st.tuples(
        st.just(tasks),
        st.integers(1, tasks),
        st.integers(1, min(2**32, 2 ** line_bits(tasks)) - 1),
    )
)


@given(st.integers(1, 3), PLACES, st.integers(1, 3), PLACES)
@example(1, (8_193, 8_193, 5), 2, (1, 1, 5))
@example(1, (9_000, 8_192, 1), 2, (1, 1, 1))
def test_rows_of_any_two_places_stand_in_the_order_of_landing_file_and_line(
    one: int, first: tuple[int, int, int], other: int, second: tuple[int, int, int]
) -> None:
    if one == other:
        second = (first[0], min(second[1], first[0]), min(second[2], 2 ** line_bits(first[0]) - 1))
    before, after = (one, *first[1:]), (other, *second[1:])
    stand = position(one, *first), position(other, *second)
    assert (before < after, before == after) == (stand[0] < stand[1], stand[0] == stand[1])
    assert max(stand) < 2**63


def test_a_row_that_would_stand_where_another_does_is_refused_by_its_file() -> None:
    limit = 2 ** line_bits(8_192)
    with pytest.raises(SourceUnavailable, match=f"t/a.jsonl: message {limit} has no position left"):
        position(1, 8_192, 1, limit)


def test_a_landing_takes_no_more_files_than_have_positions() -> None:
    large = [Task(n, "t", f"t/{n}.jsonl", 1 << 30) for n in range(1, 10_000)]
    assert len(fitting(large)) == 255
    assert len(fitting([Task(1, "t", "t/1.csv.gz", 1 << 40), *large])) == 1
