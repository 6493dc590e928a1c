"""Change events that come in any order are resolved by their timestamp, whatever became of a key in between."""

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oracle.capture import Message
from public.source import Source, in_order, pipeline_of, source_of, table
from txloom.config.models.pipeline import Pipeline
from workloads.core import Core

SOURCE = "Handling upstream data changes via Change Data Capture (waiyan1612, dev.to): its Change Event Resolver"
EVENTS = [json.loads(line) for line in (Path(__file__).parent / "resolver.jsonl").read_text().splitlines()]
RESOLVED = {
    "example": {"id1": ("Angela", None), "id2": ("Carol", None)},
    "chain": {"b": ("another", None), "c": ("third", None), "id2": ("Bob", None)},
    "columns": {"id1": ("Alice", None), "id2": ("Bob", None), "id3": ("Dan", "Lima"), "id4": ("Eva", "Oslo")},
}
CASES = list(RESOLVED)


def existing() -> Source:
    """Return a source that holds Alice and Bob."""
    source = source_of(table("customers", "id", id="string", name="string", city="string"))
    source.insert("customers", id="id1", name="Alice")
    source.insert("customers", id="id2", name="Bob")
    source.commit()
    return source


def receive(source: Source, event: dict[str, Any]) -> None:
    """Let an event of the article change the source: old key and columns become the images before and after."""
    old = dict(zip(event["oldKeyNames"] or (), event["oldKeyValues"] or (), strict=True)) or None
    new = dict(zip(event["columnNames"] or (), event["columnValues"] or (), strict=True)) or None
    there = source.rows["customers"].get(tuple(old.values())) if old else None
    source.change("customers", event["changeType"][0].upper(), old, new, there)


def played(case: str, *, together: bool = False) -> Source:
    """Return a source after the events of a case, each a transaction of its own or all in one."""
    source = existing()
    for event in EVENTS:
        if event["case"] == case:
            receive(source, event)
            if not together:
                source.commit()
    if together:
        source.commit()
    return source


def resolved(pipeline: Pipeline, landings: Sequence[Sequence[Message]]) -> dict[str, tuple[str, str | None]]:
    """Return name and city by id after all landings."""
    core = Core(pipeline)
    for messages in landings:
        core.run(messages)
    return {key: (row["name"], row["city"]) for (key,), row in core.shown()["customers"].items()}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_events_in_order_leave_what_the_source_holds(case: str, together: bool, tmp_path: Path) -> None:
    source = played(case, together=together)
    result = resolved(pipeline_of(source, tmp_path), [in_order(source.sent)])
    assert result == RESOLVED[case]
    assert result == {key: (row["name"], row["city"]) for (key,), row in source.rows["customers"].items()}


@pytest.mark.parametrize("case", CASES)
def test_events_that_arrive_one_by_one_in_any_order_leave_the_same(case: str, tmp_path: Path) -> None:
    source = played(case)
    pipeline = pipeline_of(source, tmp_path)
    first, *later = source.sent
    for arrival in permutations(later):
        assert resolved(pipeline, [in_order([each]) for each in (first, *arrival)]) == RESOLVED[case], arrival


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("case", CASES)
def test_shuffled_messages_leave_the_same(case: str, seed: int, tmp_path: Path) -> None:
    source = played(case)
    messages = in_order(source.sent)
    Random(seed).shuffle(messages)
    half = len(messages) // 2
    assert resolved(pipeline_of(source, tmp_path), [messages[:half], messages[half:]]) == RESOLVED[case]


def test_a_chain_of_keys_is_told_as_intervals_of_each_key(tmp_path: Path) -> None:
    source = played("chain")
    core = Core(pipeline_of(source, tmp_path))
    core.run(in_order(source.sent))
    begun = source.sent[0].csn
    intervals = {
        (row["id"], row["name"], row["_txloom_valid_from"] - begun, (row["_txloom_valid_to"] or begun) - begun)
        for row in core.intervals("customers")
    }
    assert intervals == {
        ("id1", "Alice", 0, 1),
        ("b", "second", 1, 2),
        ("c", "third", 2, 0),
        ("b", "another", 3, 0),
        ("id2", "Bob", 0, 0),
    }
