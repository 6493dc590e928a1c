"""valid-through stops before the first transaction that is not whole, and never runs ahead of the metadata."""

from __future__ import annotations

import pytest

from oracle.capture import arrivals, read
from oracle.completeness import progress, valid_through
from oracle.delivery.writing import heard, metadata, row
from oracle.state import Source


def event(csn: int, pos: int = 1) -> str:
    return row("I", "promo_codes", at=(csn, pos), after={"code": f"{csn}-{pos}"})


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([event(1)], None),
        ([metadata(1, promo_codes=1)], None),
        ([metadata(1, promo_codes=1), event(1)], 1),
        ([metadata(1, promo_codes=1), event(1), metadata(2, promo_codes=1)], 1),
        ([metadata(1, promo_codes=1), event(1), metadata(2, promo_codes=1), metadata(3)], 1),
        ([metadata(1, promo_codes=1), event(1), event(2), metadata(3)], 1),
        ([metadata(1), metadata(3), event(4)], 3),
        ([metadata(1), metadata(9, audit_log=4), metadata(10)], 10),
        ([metadata(1), metadata(2, promo_codes=1), event(2), event(2, 2)], 1),
    ],
    ids=[
        "nothing heard",
        "a row alone",
        "metadata alone",
        "whole",
        "the next one lacks its row",
        "a whole one above a waiting one",
        "a row whose metadata never came",
        "a row above the metadata",
        "unwatched tables hold nothing up",
        "more rows than expected",
    ],
)
def test_valid_through(messages: list[str], expected: int | None) -> None:
    assert valid_through(heard(messages)) == expected


def test_a_dead_lettered_transaction_holds_nothing_up() -> None:
    capture = heard([metadata(1), metadata(2, promo_codes=1), metadata(3)])
    assert valid_through(capture) == 1
    assert valid_through(capture, finished={"x2"}) == 3


def test_the_sample_ends_whole() -> None:
    capture = read(arrivals())
    assert valid_through(capture) == capture.highest_metadata_csn == Source(capture).csns[-1]


def test_valid_through_rises_with_the_arrivals_and_each_leaves_transactions_waiting() -> None:
    steps = list(progress(arrivals()))
    reached = [step.valid_through for step in steps if step.valid_through is not None]
    assert reached == sorted(reached)
    assert len(set(reached)) >= 5
    assert [bool(step.waiting) for step in steps] == [True, True, True, True, True, False]


def test_an_arrival_without_metadata_moves_nothing() -> None:
    steps = list(progress(arrivals()))
    assert steps[4].valid_through == steps[3].valid_through


def test_what_may_be_published_is_already_final() -> None:
    source = Source(read(arrivals()))
    for step in progress(arrivals()):
        assert step.valid_through is not None
        assert Source(step.heard).state_as_of(step.valid_through) == source.state_as_of(step.valid_through)
