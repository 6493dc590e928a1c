"""An event belongs to one transaction of its id: event by event, and for many events at once."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from txloom.transactions import reused_ids

CSNS = st.integers(1, 9)
EVENTS = st.one_of(
    CSNS.map(lambda csn: {"csn": csn, "identity": "t:c:1"}),
    CSNS.map(lambda position: {"csn": None, "identity": f"{position}:t:c:1"}),
    st.sampled_from([{"csn": None, "identity": "t:c:1"}, {"csn": None, "identity": None}]),
)
ENDS = st.dictionaries(CSNS, st.booleans(), min_size=1, max_size=4)
"""The transactions of an id: by csn, whether it was released."""


def table_of(rows: list[tuple[dict[str, Any], dict[int, bool]]]) -> pa.Table:
    events = pa.Table.from_pylist(
        [{"transaction_id": "7", "kind": "row", **event} for event, _ in rows],
        pa.schema({"transaction_id": "string", "kind": "string", "csn": "int64", "identity": "string"}),
    )
    lists = [[{"csn": csn, "is_released": done} for csn, done in sorted(ends.items())] for _, ends in rows]
    return events.append_column("ends", pa.array(lists, reused_ids.ENDS))


@given(st.lists(st.tuples(EVENTS, ENDS), min_size=1, max_size=8))
def test_an_event_is_released_if_the_transaction_that_is_named_was(
    rows: list[tuple[dict[str, Any], dict[int, bool]]],
) -> None:
    expected = []
    for event, ends in rows:
        row = {"transaction_id": "7", "kind": "row", **event}
        _, csn = reused_ids.named(row, {"7": sorted(ends)})
        has_position = reused_ids.at(row) > 0
        expected.append((csn is not None and ends[csn]) if has_position else all(ends.values()))
    assert reused_ids.are_released(table_of(rows)).tolist() == expected


def test_a_row_behind_every_known_transaction_of_its_id_is_not_released() -> None:
    behind = {"csn": None, "identity": "101:t:c:1"}
    inside = {"csn": None, "identity": "100:t:c:1"}
    assert reused_ids.are_released(table_of([(behind, {100: True}), (inside, {100: True})])).tolist() == [False, True]
