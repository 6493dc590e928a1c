"""Folding the sample gives the source's own final state, and small loads give what the semantics say."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import pytest

from oracle.capture import Capture, Image, arrivals, read, truth
from oracle.comparison import differences, report
from oracle.declarations import ORDER, TABLES
from oracle.delivery.writing import heard, metadata, row, whole
from oracle.documents import orphans
from oracle.state import Source, State
from oracle.values import typed_state


@pytest.fixture(scope="module")
def sample() -> Source:
    return Source(read(arrivals()))


def details(source: Source, csn: int) -> dict[str, tuple[str | None, str | None]]:
    """Return carrier and address by order."""
    rows = source.state_as_of(csn)["order_details"]
    return {key[0]: (image["carrier"], image["address"]) for key, image in rows.items()}


def test_folding_the_sample_gives_the_true_final_state(sample: Source) -> None:
    differing = differences(truth(), sample.state_as_of(sample.csns[-1]))
    assert not differing, report(differing)


def test_every_value_of_the_truth_has_its_declared_type(sample: Source) -> None:
    differing = differences(typed_state(truth()), typed_state(sample.state_as_of(sample.csns[-1])))
    assert not differing, report(differing)


@pytest.mark.parametrize("table", TABLES)
def test_one_changed_value_is_caught(sample: Source, table: str) -> None:
    state = sample.state_as_of(sample.csns[-1])
    key = max(state[table])
    for column in TABLES[table].columns:
        changed = {**state, table: {**state[table], key: {**state[table][key], column: "changed"}}}
        assert [(d.table, d.key, d.column) for d in differences(truth(), changed)] == [(table, key, column)]


def test_after_every_commit_totals_are_right_and_nothing_is_orphaned(sample: Source) -> None:
    # 717 csns; a total is summed again only when its order or one of its line items was replaced.
    known: dict[str, tuple[int, str | None]] = {}
    for csn, state in sample.states():
        amounts = line_items_by_order(state)
        for (order_id,), order in state["orders"].items():
            fingerprint = (hash(tuple(amounts[order_id])), order["total_amount"])
            if known.get(order_id) != fingerprint:
                total = sum((Decimal(amount) for amount in amounts[order_id]), Decimal(0))
                assert total == Decimal(str(order["total_amount"])), (csn, order_id)
                known[order_id] = fingerprint
        assert not any(orphans(state, ORDER).values()), csn


def line_items_by_order(state: State) -> dict[str, list[str]]:
    amounts: dict[str, list[str]] = defaultdict(list)
    for image in state["order_line_items"].values():
        amounts[str(image["order_id"])].append(image["item_amount"] or "0")
    return amounts


def test_asking_backwards_gives_the_same_answer(sample: Source) -> None:
    middle = sample.csns[len(sample.csns) // 2]
    before = sample.state_as_of(middle)
    assert sample.state_as_of(sample.csns[-1]) != before
    assert sample.state_as_of(middle) == before


def test_between_two_commits_the_earlier_one_holds(sample: Source) -> None:
    first, second = sample.csns[100:102]
    assert sample.state_as_of(second - 1) == sample.state_as_of(first)
    assert sample.state_as_of(second) != sample.state_as_of(first)


FULL: Image = {"order_id": "1", "version": "1", "carrier": "DHL", "address": "far"}


def test_a_missing_column_is_unchanged_and_a_null_is_null() -> None:
    capture = whole(
        [
            row("I", "order_details", at=(1, 1), after=FULL),
            row("U", "order_details", at=(2, 2), before={"order_id": "1"}, after={"order_id": "1", "carrier": None}),
        ]
    )
    assert details(Source(capture), 2) == {"1": (None, "far")}


def test_a_key_change_keeps_what_the_old_row_held() -> None:
    capture = whole(
        [
            row("I", "order_details", at=(1, 1), after=FULL),
            row("I", "order_details", at=(1, 2), after={**FULL, "order_id": "2", "address": "near"}),
            row("D", "order_details", at=(2, 3), before={"order_id": "2"}),
            row("U", "order_details", at=(2, 4), before={"order_id": "1"}, after={"order_id": "2", "carrier": "UPS"}),
        ]
    )
    assert details(Source(capture), 1) == {"1": ("DHL", "far"), "2": ("DHL", "near")}
    assert details(Source(capture), 2) == {"2": ("UPS", "far")}


def test_a_chain_of_key_changes_ends_at_its_last_key() -> None:
    steps = [
        row("U", "order_details", at=(2, pos), before={"order_id": str(pos)}, after={"order_id": str(pos + 1)})
        for pos in (1, 2, 3)
    ]
    capture = whole([row("I", "order_details", at=(1, 1), after=FULL), *steps])
    assert details(Source(capture), 2) == {"4": ("DHL", "far")}


def test_a_row_inserted_again_remembers_nothing() -> None:
    capture = whole(
        [
            row("I", "order_details", at=(1, 1), after=FULL),
            row("D", "order_details", at=(2, 2), before={"order_id": "1"}),
            row("I", "order_details", at=(2, 3), after={"order_id": "1", "carrier": "UPS"}),
        ]
    )
    assert details(Source(capture), 2) == {"1": ("UPS", None)}


def test_truncate_empties_the_table_and_what_follows_stays() -> None:
    capture = whole(
        [
            row("I", "promo_codes", at=(1, 1), after={"code": "A"}),
            row("T", "promo_codes", at=(2, 2)),
            row("I", "promo_codes", at=(2, 3), after={"code": "B"}),
        ]
    )
    assert list(Source(capture).state_as_of(2)["promo_codes"]) == [("B",)]


def test_an_excluded_transaction_is_as_if_it_had_not_been() -> None:
    capture = whole(
        [
            row("I", "order_details", at=(1, 1), after=FULL),
            row("U", "order_details", at=(2, 2), before={"order_id": "1"}, after={"order_id": "1", "address": "new"}),
            row("U", "order_details", at=(3, 3), before={"order_id": "1"}, after={"order_id": "1", "carrier": "UPS"}),
        ]
    )
    source = Source(capture)
    rows = source.state_as_of(3, excluding=["x2"])["order_details"]
    assert rows[("1",)]["address"] == "far"
    assert details(source, 3) == {"1": ("UPS", "new")}


def test_a_transaction_that_is_not_whole_shows_nothing() -> None:
    capture = heard([row("I", "promo_codes", at=(1, 1), after={"code": "A"}), metadata(1, promo_codes=2)])
    assert Source(capture).csns == []
    assert Source(capture).state_as_of(9)["promo_codes"] == {}


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_arrival_order_does_not_matter(order: list[int]) -> None:
    events = [
        row("I", "promo_codes", at=(9, 1), after={"code": "A", "discount": "1"}),
        row("U", "promo_codes", at=(10, 2), before={"code": "A"}, after={"code": "A", "discount": "2"}),
        row("U", "promo_codes", at=(10, 10), before={"code": "A"}, after={"code": "A", "discount": "3"}),
    ]
    capture: Capture = whole([events[number] for number in order])
    assert Source(capture).state_as_of(10)["promo_codes"][("A",)]["discount"] == "3"
