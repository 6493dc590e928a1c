"""A bad delivery holds the same load: nothing is lost, and everything that should go wrong does."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from oracle.capture import METADATA_TOPIC, Message, arrivals, messages, read
from oracle.completeness import progress
from oracle.delivery.faults import deliver
from oracle.state import Source


@pytest.fixture(scope="module")
def load() -> list[Message]:
    return [message for arrival in arrivals() for message in messages(arrival)]


@pytest.mark.parametrize(("seed", "in_order"), [(1, True), (2, True), (3, False)])
def test_a_bad_delivery_tells_the_same_story(load: list[Message], tmp_path: Path, seed: int, in_order: bool) -> None:
    capture = read(deliver(load, tmp_path, seed=seed, arrivals=9, metadata_in_order=in_order))
    assert capture.transactions == read(arrivals()).transactions
    assert capture.duplicate_rows + capture.duplicate_metadata >= 0.045 * len(load)
    assert capture.duplicate_metadata > 10


def test_it_arrives_in_as_many_folders_as_asked_in_the_samples_layout(load: list[Message], tmp_path: Path) -> None:
    paths = deliver(load, tmp_path, seed=1, arrivals=7)
    files = [file for path in paths for file in path.glob("*/*")]
    assert paths == arrivals(tmp_path)
    assert len(paths) == 7
    assert {file.parent.name for file in files} == {topic for topic, _ in load}
    assert {file.suffix for file in files} == {".gz", ".jsonl"}


def test_the_same_seed_delivers_the_same(load: list[Message], tmp_path: Path) -> None:
    first, again, other = (
        [list(messages(path)) for path in deliver(load, tmp_path / name, seed=seed, arrivals=5)]
        for name, seed in (("first", 4), ("again", 4), ("other", 5))
    )
    assert first == again
    assert first != other


def test_metadata_arrives_both_before_and_after_its_rows(load: list[Message], tmp_path: Path) -> None:
    early, late = set(), set()
    for step in progress(deliver(load, tmp_path, seed=1, arrivals=9)):
        for transaction in step.heard.transactions:
            if transaction.expected is None:
                late.add(transaction.xid)
            elif transaction.expected and not transaction.events:
                early.add(transaction.xid)
    assert min(len(early), len(late)) > 20


@pytest.mark.parametrize(("in_order", "expected"), [(True, 0), (False, 100)])
def test_metadata_keeps_commit_order_unless_it_is_shuffled(
    load: list[Message], tmp_path: Path, in_order: bool, expected: int
) -> None:
    paths = deliver(load, tmp_path, seed=1, arrivals=9, duplicates=0, metadata_in_order=in_order)
    metadata = [message for path in paths for topic, message in messages(path) if topic == METADATA_TOPIC]
    csns = [int(json.loads(message)["csn"]) for message in metadata]
    steps_back = sum(later < earlier for earlier, later in pairwise(csns))
    assert steps_back == 0 if expected == 0 else steps_back > expected


def test_with_metadata_in_order_what_may_be_published_is_final(load: list[Message], tmp_path: Path) -> None:
    source = Source(read(arrivals()))
    steps = list(progress(deliver(load, tmp_path, seed=6, arrivals=12)))
    for step in steps:
        if step.valid_through is not None:
            assert Source(step.heard).state_as_of(step.valid_through) == source.state_as_of(step.valid_through)
    assert len({step.valid_through for step in steps}) > 3
    assert steps[-1].valid_through == source.csns[-1]
