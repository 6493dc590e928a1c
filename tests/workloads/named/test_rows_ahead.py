"""Rows that PostgreSQL's connector may have read ahead of its stream wait until the tables show a later commit."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from oracle.capture import Message
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Signals
from txloom.steps.landing import pending_work
from txloom.steps.maintenance.expire import expire
from txloom.storage.snapshots import rows_ahead
from txloom.storage.views.pipeline.overview import AHEAD, health
from workloads.inbox import Producer
from workloads.named.test_edited_lakes import declared
from workloads.named.test_named_lakes import PLAIN, assert_right, commit, cycle, lake_of, messages, row
from workloads.named.test_snapshots_taken_again import as_incremental, flat, rows_of
from workloads.play import Play
from workloads.small_lake import SmallLake

TIME = "1700000000000"
"""The time of all messages that the played source writes."""


def at(sent: Sequence[Message], seconds: int) -> list[Message]:
    """Return messages with a time that is some seconds after TIME."""
    return [(topic, text.replace(TIME, str(int(TIME) + seconds * 1000))) for topic, text in sent]


def read(made: Play, number: int, value: str, csn: int) -> list[Message]:
    """Return a row of an incremental snapshot that the connector read when its stream had reached a csn."""
    rows = flat(made.writer.snapshot({"t": rows_of(PLAIN, row(number, value))}, csn, ["t"]))
    return [(topic, as_incremental(text, f'["{csn}","{csn + 8}"]', 0)) for topic, text in rows]


def end_of(topic: str, csn: int, table: str) -> Message:
    counts = [{"data_collection": table, "event_count": 1}]
    end = {"status": "END", "id": f"9{csn}:{csn}", "ts_ms": int(TIME), "event_count": 1, "data_collections": counts}
    return topic, json.dumps(end)


def with_watermarks(pipeline: Pipeline) -> Pipeline:
    signals = Signals(topic="signals", notifications="notices", prefix="x", watermarks="app.signals")
    return pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"signals": signals})})


def values(lake: SmallLake, name: str = "t") -> dict[int, str]:
    return {each["id"]: each["v"] for each in lake.rows(name)}


def incidents(lake: SmallLake) -> list[str]:
    return [each.what for each in health(lake.pipeline, lake.warehouse).reasons if each.kind == AHEAD]


@pytest.fixture
def shop(tmp_path: Path) -> tuple[SmallLake, Play, Producer]:
    """Return a lake of two rows; the connector has read one of them with the value of a later commit."""
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "a")))))
    cycle(lake, producer, read(made, 1, "b", 1000))
    return lake, made, producer


def later(made: Play, seconds: int = 60) -> list[Message]:
    """Commit the change whose value the connector had already read; return its messages."""
    return at(messages(commit(made, 2000, ("U", row(1, "a"), row(1, "b")))), seconds)


def test_a_row_waits_until_a_later_commit_is_shown(shop: tuple[SmallLake, Play, Producer]) -> None:
    lake, made, producer = shop
    cycle(lake, producer, ())
    assert_right(lake, made)
    assert values(lake) == {1: "a", 2: "a"}
    (waits,) = rows_ahead.waiting(lake.pipeline, lake.paths)
    assert (waits.rows, waits.lowest, waits.read_until.timestamp() * 1000) == (1, 1000, int(TIME))
    assert pending_work.reasons(lake.pipeline, lake.warehouse, 0) == [], "no cycle can change that"
    assert incidents(lake) == [
        "1 row of an incremental snapshot may be ahead of the stream, and waits until the tables show a commit after "
        "2023-11-14 22:13:30 UTC."
    ]
    cycle(lake, producer, later(made))
    assert_right(lake, made)
    assert pending_work.reasons(lake.pipeline, lake.warehouse, 0) == [
        "rows of an incremental snapshot no longer have to wait"
    ]
    cycle(lake, producer, ())
    assert_right(lake, made)
    assert values(lake) == {1: "b", 2: "a"} and incidents(lake) == []
    assert pending_work.reasons(lake.pipeline, lake.warehouse, 0) == []
    history = lake.rows("t_changes")
    assert sorted((each["_txloom_csn"], each["_txloom_op"], each["v"]) for each in history if each["id"] == 1) == [
        (1000, "I", "a"),
        (1000, "r", "b"),
        (2000, "U", "b"),
    ]
    assert all(line["balanced"] for line in lake.rows("ledger") if line["step"] == "balance")


@pytest.mark.parametrize("seconds", [0, 10])
def test_a_commit_that_may_be_earlier_than_the_read_lets_no_row_be_shown(
    shop: tuple[SmallLake, Play, Producer], seconds: int
) -> None:
    lake, made, producer = shop
    cycle(lake, producer, later(made, seconds), ())
    assert len(rows_ahead.waiting(lake.pipeline, lake.paths)) == 1
    assert {each["_txloom_op"] for each in lake.rows("t_changes")} == {"I", "U"}


def test_a_later_commit_that_no_table_shows_yet_lets_no_row_be_shown(shop: tuple[SmallLake, Play, Producer]) -> None:
    lake, made, producer = shop
    sent = later(made)
    rows = [each for each in sent if each[0] != sent[-1][0]]
    cycle(lake, producer, [each for each in sent if each not in rows], ())
    assert lake.shown_through() == 1000 and values(lake) == {1: "a", 2: "a"}
    cycle(lake, producer, rows)
    assert values(lake) == {1: "b", 2: "a"} and len(rows_ahead.waiting(lake.pipeline, lake.paths)) == 1
    cycle(lake, producer, ())
    assert rows_ahead.waiting(lake.pipeline, lake.paths) == []
    assert_right(lake, made)


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_row_that_waits_is_taken_in_by_the_declaration_of_then(tmp_path: Path, *, is_buffered: bool) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "a")))))
    producer.deliver(read(made, 1, "b", 1000))
    if is_buffered:
        lake.run()
    else:
        lake.land()
    lake.pipeline = load(declared(tmp_path, made, [replace(PLAIN, name="other")]))
    cycle(lake, producer, ())
    assert values(lake, "other") == {1: "a", 2: "a"}
    cycle(lake, producer, later(made), ())
    assert values(lake, "other") == {1: "b", 2: "a"}
    assert [each["v"] for each in lake.rows("other_changes") if each["_txloom_op"] == "r"] == ["b"]


@pytest.mark.long
def test_the_message_of_a_row_that_waits_is_kept(shop: tuple[SmallLake, Play, Producer], spark: Any) -> None:
    lake, made, producer = shop

    def forget() -> int:
        kept = lake.pipeline.maintenance
        short = kept.change_events.model_copy(update={"keep": timedelta(0)})
        maintenance = kept.model_copy(update={"change_events": short})
        pipeline = lake.pipeline.model_copy(update={"maintenance": maintenance})
        return expire(step_of(pipeline, lake.warehouse, f"run-{lake.runs}", lambda: spark))["messages"]

    assert forget() == 2
    cycle(lake, producer, later(made), ())
    assert [each["v"] for each in lake.rows("t_changes") if each["_txloom_op"] == "r"] == ["b"]
    assert forget() == 3, "the row that waited has two messages"


def test_a_row_of_a_connector_that_keeps_watermarks_in_a_table_does_not_wait(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    lake.pipeline = with_watermarks(lake.pipeline)
    first = messages(commit(made, 1000, ("I", None, row(1, "a"))))
    cycle(lake, producer, first)
    cycle(lake, producer, [*read(made, 2, "c", 1000), end_of(first[-1][0], 1010, "app.signals")], ())
    assert values(lake) == {1: "a", 2: "c"}


@pytest.mark.parametrize("table", ["app.other", "app.signals2"])
def test_a_row_waits_if_the_next_commit_wrote_no_watermark(tmp_path: Path, table: str) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    lake.pipeline = with_watermarks(lake.pipeline)
    first = messages(commit(made, 1000, ("I", None, row(1, "a"))))
    topic = first[-1][0]
    cycle(lake, producer, first)
    cycle(lake, producer, [*read(made, 2, "c", 1000), end_of(topic, 1010, table), end_of(topic, 1020, "app.signals")])
    cycle(lake, producer, ())
    assert values(lake) == {1: "a"}
