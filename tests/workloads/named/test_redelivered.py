"""Rows that came again, and of which the message of an earlier delivery was removed."""

from dataclasses import replace
from pathlib import Path

import pytest

from txloom.config import load
from workloads.named.test_edited_lakes import OTHER, declared, insert
from workloads.named.test_named_lakes import PLAIN, compared, cycle, lake_of, messages
from workloads.named.test_snapshots_taken_again import needing


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
def test_rows_whose_messages_are_gone_are_made_again_of_those_that_came_again(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    text = declared(tmp_path, made, [replace(PLAIN, key=())]).read_text()
    (tmp_path / "workload.yaml").write_text(text.replace("      v: string\n", ""))
    lake.pipeline = load(tmp_path / "workload.yaml")
    changes = messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, PLAIN, 2))
    cycle(lake, producer, changes)
    lake.forget()
    cycle(lake, producer, changes)
    (tmp_path / "workload.yaml").write_text(text)
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, ())
    assert needing(lake) == []
    assert sorted((each["id"], each["v"]) for each in lake.rows("t")) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
def test_a_backfill_of_rows_that_came_again_finds_them_where_they_are(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    lake.pipeline = load(declared(tmp_path, made, [replace(PLAIN, key=())]))
    changes = messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, PLAIN, 2))
    for sent in (changes, [*changes, *messages(insert(made, 1020, PLAIN, 3))]):
        producer.deliver(sent)
        lake.land()
    lake.run()
    lake.forget("landing = 1")
    counts = compared(lake)
    assert (counts["transactions"], counts["rebuilt"], counts["changes"]) == (3, 3, 0)


@pytest.mark.parametrize("source", ["change_events", "change_sets"])
def test_a_row_has_the_position_that_it_was_released_under_and_not_that_of_an_unwatched_delivery(
    tmp_path: Path, source: str
) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN, more=[OTHER])
    without_key = replace(OTHER, key=())
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    changes = messages(insert(made, 1000, OTHER, 1), insert(made, 1010, OTHER, 2))
    cycle(lake, producer, changes)
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, without_key]))
    cycle(lake, producer, ())
    lake.forget()
    cycle(lake, producer, changes)
    counts = compared(lake)
    assert counts["changes"] == 0
    assert sorted(each["id"] for each in lake.rows("other")) == [1, 2]
