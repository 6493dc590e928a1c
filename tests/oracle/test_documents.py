"""Documents follow flat relational semantics, and hold exactly what the tables hold."""

from __future__ import annotations

from typing import Any

import pytest

from oracle.capture import Capture, arrivals, read, truth
from oracle.declarations import ORDER, TABLES
from oracle.delivery.writing import row, whole
from oracle.documents import documents
from oracle.state import Source
from oracle.values import typed_documents


@pytest.fixture(scope="module")
def sample() -> Source:
    return Source(read(arrivals()))


def items(capture: Capture, csn: int) -> dict[str, list[str]]:
    """Return the line items of each order."""
    documents = Source(capture).documents_as_of(csn)
    return {key[0]: [item["line_item_id"] for item in document["line_items"]] for key, document in documents.items()}


def order(number: int, at: tuple[int, int]) -> str:
    return row("I", "orders", at, after={"order_id": str(number)})


def rekey(old: int, new: int, at: tuple[int, int]) -> str:
    return row("U", "orders", at, before={"order_id": str(old)}, after={"order_id": str(new)})


def item(number: int, parent: int, at: tuple[int, int], op: str = "I") -> str:
    image: dict[str, str | None] = {"line_item_id": str(number), "order_id": str(parent)}
    return row(op, "order_line_items", at, before=None if op == "I" else {"line_item_id": str(number)}, after=image)


def test_the_final_documents_are_the_true_tables_nested(sample: Source) -> None:
    assert sample.documents_as_of(sample.csns[-1]) == documents(truth(), ORDER, TABLES)


def test_the_source_sent_an_event_for_every_child_that_moved(sample: Source) -> None:
    for csn in sample.csns:
        assert sample.documents_as_of(csn) == documents(sample.state_as_of(csn), ORDER, TABLES), csn


def test_documents_hold_every_child_once(sample: Source) -> None:
    for csn in sample.csns[::20]:
        state, documents_of = sample.state_as_of(csn), sample.documents_as_of(csn)
        for child in ORDER.children:
            nested = [document[child.field] for document in documents_of.values()]
            flat = [one for some in nested for one in (some if isinstance(some, list) else [some]) if one is not None]
            assert len(flat) == len(state[child.table]), (csn, child.table)
            assert all(
                document[child.field] is not None or child.relation == "one" for document in documents_of.values()
            )


def test_children_come_in_the_order_of_their_key_as_a_number() -> None:
    capture = whole([order(1, (1, 1)), *(item(number, 1, (1, number + 20)) for number in (10, 9, -2))])
    assert items(capture, 1) == {"1": ["-2", "9", "10"]}


def test_an_orphan_is_in_no_document_until_its_root_comes() -> None:
    capture = whole([item(7, 1, (1, 1)), order(1, (2, 2))])
    assert items(capture, 1) == {}
    assert items(capture, 2) == {"1": ["7"]}


def test_a_child_that_changes_its_parent_moves() -> None:
    capture = whole([order(1, (1, 1)), order(2, (1, 2)), item(7, 1, (1, 3)), item(7, 2, (2, 4), op="U")])
    assert items(capture, 1) == {"1": ["7"], "2": []}
    assert items(capture, 2) == {"1": [], "2": ["7"]}


def test_truncating_the_root_removes_every_document() -> None:
    capture = whole([order(1, (1, 1)), item(7, 1, (1, 2)), row("T", "orders", at=(2, 3))])
    assert items(capture, 2) == {}


def test_truncating_a_child_empties_it_in_every_document() -> None:
    capture = whole([order(1, (1, 1)), item(7, 1, (1, 2)), row("T", "order_line_items", at=(2, 3))])
    assert items(capture, 2) == {"1": []}


def test_a_roots_key_change_takes_silent_children_along() -> None:
    capture = whole([order(1, (1, 1)), item(7, 1, (1, 2)), rekey(1, 5, (2, 3)), order(1, (3, 4))])
    assert items(capture, 2) == {"5": ["7"]}
    assert items(capture, 3) == {"5": ["7"], "1": []}


def test_silent_children_follow_a_chain_of_key_changes() -> None:
    capture = whole([order(1, (1, 1)), item(7, 1, (1, 2)), rekey(1, 5, (2, 3)), rekey(5, 6, (2, 4))])
    assert items(capture, 2) == {"6": ["7"]}


def test_two_roots_that_swap_keys_swap_their_silent_children() -> None:
    swap = [rekey(1, -1, (2, 5)), rekey(2, 1, (2, 6)), rekey(-1, 2, (2, 7))]
    capture = whole([order(1, (1, 1)), order(2, (1, 2)), item(7, 1, (1, 3)), item(8, 2, (1, 4)), *swap])
    assert items(capture, 2) == {"1": ["8"], "2": ["7"]}


def test_a_childs_own_event_overrules_the_move() -> None:
    events = [order(1, (1, 1)), order(2, (1, 2)), item(7, 1, (1, 3)), rekey(1, 5, (2, 4)), item(7, 2, (2, 5), op="U")]
    assert items(whole(events), 2) == {"2": ["7"], "5": []}


def test_a_moved_one_to_one_child_keeps_its_unchanged_values() -> None:
    capture = whole(
        [
            order(1, (1, 1)),
            row("I", "order_details", (1, 2), after={"order_id": "1", "address": "far"}),
            rekey(1, 5, (2, 3)),
            row("U", "order_details", (2, 4), before={"order_id": "1"}, after={"order_id": "5", "carrier": "UPS"}),
        ]
    )
    document: dict[str, Any] = Source(capture).documents_as_of(2)["5",]
    assert (document["order_details"]["carrier"], document["order_details"]["address"]) == ("UPS", "far")


def test_documents_have_typed_values_at_every_level(sample: Source) -> None:
    documents_read = typed_documents(sample.documents_as_of(sample.csns[-1]))
    document = next(one for one in documents_read.values() if one["order_details"] and one["attachments"])
    assert isinstance(document["order_id"], int)
    assert isinstance(document["order_details"]["order_id"], int)
    assert isinstance(document["attachments"][0]["attachment_no"], int)
