"""PostgreSQL counts its transaction ids round: what is of a later one is not of the one that had its id before."""

from pathlib import Path
from typing import Any

import pytest

from oracle.capture import Message
from txloom.quality.dead_letters import Selection
from txloom.steps.backfill.backfill import backfill
from txloom.steps.backfill.scope import GONE, REBUILT
from txloom.steps.dead_letters.redrive import redrive
from txloom.storage.dead_letters import open_letters
from txloom.transactions import memory
from workloads.judging import assert_newest
from workloads.named.test_named_lakes import PLAIN, commit, lake_of, messages, row
from workloads.play import impatient
from workloads.spark_lake import SparkLake

pytestmark = pytest.mark.long


class Wrapped:
    """A lake that released a transaction, and another one of its id, of which nothing came yet.

    is_sent: the first one came.
    """

    def __init__(self, folder: Path, spark: Any = None, *, is_sent: bool = True) -> None:
        lake, self.made, self.producer = lake_of(folder, "debezium/postgresql", PLAIN)
        self.lake = SparkLake(folder, lake.pipeline, spark=spark) if spark else lake
        self.made.writer.steps = (1, 1)
        self.first = commit(self.made, 100, ("I", None, row(0, "first")))
        self.between = commit(self.made, 150, ("I", None, row(1, "between")))
        if is_sent:
            self.cycle(*messages(self.first, self.between))
        self.made.writer.wrap()
        self.second = commit(self.made, 1000, ("I", None, row(2, "second")))

    def cycle(self, *messages: Message | None) -> None:
        self.producer.deliver([each for each in messages if each], last=False)
        self.lake.run()

    def redrive(self) -> None:
        self.redrive_those(everything=True)

    def redrive_those(self, **chosen: Any) -> None:
        self.lake.runs += 1
        self.lake.step(redrive, None, Selection(**chosen))
        self.lake.run()

    def give_up_at_once(self) -> None:
        self.lake.pipeline = impatient(self.lake.pipeline, complete_now="list")

    def letters(self) -> list[str]:
        return open_letters.open_dead_letters(self.lake.paths, "kind").column("kind").to_pylist()

    def newest_landing(self) -> int:
        return int(max(event["landing"] for event in self.lake.rows("change_events")))

    def causes(self) -> list[str]:
        return open_letters.open_dead_letters(self.lake.paths, "cause").column("cause").to_pylist()

    def assert_all_shown(self) -> None:
        assert self.lake.shown_through() == self.second.csn
        assert_newest(self.lake, self.made)
        assert not self.lake.rows("pending_transactions")
        assert not self.letters()
        assert sorted((t["csn"], t["rows"]) for t in self.lake.rows("transactions") if t["status"] == "released") == [
            (100, 1),
            (150, 1),
            (1000, 1),
        ]


@pytest.fixture(params=[1, 50_000], ids=["forgotten", "remembered"])
def wrapped(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Wrapped:
    monkeypatch.setattr(memory, "REMEMBERED", request.param)
    return Wrapped(tmp_path)


def test_the_rows_of_the_second_may_come_a_cycle_before_its_end(wrapped: Wrapped) -> None:
    wrapped.cycle(*wrapped.second.rows)
    assert [waits["cause"] for waits in wrapped.lake.rows("pending_transactions")] == ["metadata never came"]
    wrapped.cycle(wrapped.second.metadata)
    wrapped.assert_all_shown()


def test_the_end_of_the_second_may_come_a_cycle_before_its_rows(wrapped: Wrapped) -> None:
    wrapped.cycle(wrapped.second.metadata)
    wrapped.cycle(*wrapped.second.rows)
    wrapped.assert_all_shown()


def test_what_is_delivered_again_of_either_is_a_duplicate(wrapped: Wrapped) -> None:
    first, second = wrapped.first, wrapped.second
    wrapped.cycle(*first.rows)
    wrapped.cycle(first.metadata)
    wrapped.cycle(*messages(second))
    wrapped.cycle(*second.rows)
    wrapped.cycle(second.metadata)
    wrapped.assert_all_shown()


def test_both_may_be_taken_in_by_one_batch(wrapped: Wrapped) -> None:
    wrapped.lake.lose_checkpoint()
    wrapped.cycle(*wrapped.second.rows)
    wrapped.cycle(wrapped.second.metadata)
    wrapped.lake.lose_checkpoint()
    wrapped.cycle()
    wrapped.assert_all_shown()


def test_one_batch_may_release_both(tmp_path: Path) -> None:
    wrapped = Wrapped(tmp_path, is_sent=False)
    for sent in (wrapped.first, wrapped.between, wrapped.second):
        wrapped.producer.deliver(messages(sent), last=False)
        wrapped.lake.land()
    wrapped.cycle()
    wrapped.assert_all_shown()


def test_the_second_can_be_given_up_and_redriven_without_the_first(wrapped: Wrapped) -> None:
    _give_up_and_redrive(wrapped)


@pytest.mark.stream
def test_the_jobs_give_it_up_and_redrive_it_without_the_first_too(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "REMEMBERED", 1)
    _give_up_and_redrive(Wrapped(tmp_path, spark))


def _give_up_and_redrive(wrapped: Wrapped) -> None:
    wrapped.give_up_at_once()
    wrapped.cycle(*wrapped.second.rows)
    given_up = [t for t in wrapped.lake.rows("transactions") if t["status"] == "dead"]
    assert [(t["transaction_id"], t["rows"]) for t in given_up] == [("701", 1)]
    assert wrapped.letters() == ["row"]
    wrapped.cycle(wrapped.second.metadata)
    assert open_letters.complete_now(wrapped.lake.paths) == ["701"]
    before = wrapped.newest_landing()
    wrapped.redrive()
    again = [e for e in wrapped.lake.rows("change_events") if e["landing"] > before and e["transaction_id"] == "701"]
    assert sorted(event["kind"] for event in again) == ["metadata", "row"], "what was released long ago is not landed"
    wrapped.assert_all_shown()


def test_both_may_be_dead_and_are_redriven_one_after_the_other(tmp_path: Path) -> None:
    _redrive_both(Wrapped(tmp_path, is_sent=False))


@pytest.mark.stream
def test_the_jobs_redrive_both_one_after_the_other_too(tmp_path: Path, spark: Any) -> None:
    _redrive_both(Wrapped(tmp_path, spark, is_sent=False))


def _redrive_both(wrapped: Wrapped) -> None:
    wrapped.give_up_at_once()
    wrapped.cycle(*messages(wrapped.between))
    for sent in (wrapped.first, wrapped.second):
        wrapped.cycle(*sent.rows)
    for sent in (wrapped.first, wrapped.second):
        wrapped.cycle(sent.metadata)
    assert "701" in open_letters.complete_now(wrapped.lake.paths)
    wrapped.redrive()
    wrapped.assert_all_shown()


@pytest.mark.parametrize("cause", ["table short", "metadata never came"])
def test_a_cause_chooses_one_of_both(tmp_path: Path, cause: str) -> None:
    wrapped = Wrapped(tmp_path, is_sent=False)
    wrapped.give_up_at_once()
    wrapped.cycle(*messages(wrapped.between), wrapped.first.metadata)
    wrapped.cycle(*wrapped.second.rows)
    assert sorted(wrapped.causes()) == ["metadata never came", "table short"]
    before = wrapped.newest_landing()
    wrapped.redrive_those(causes=[cause])
    again = [e["kind"] for e in wrapped.lake.rows("change_events") if e["landing"] > before and e["row"] >= 0]
    assert again == ["metadata" if cause == "table short" else "row"]
    assert sorted(wrapped.causes()) == ["metadata never came", "table short"]


def test_a_backfill_makes_both_again(wrapped: Wrapped) -> None:
    wrapped.cycle(*messages(wrapped.second))
    with wrapped.lake.in_pieces():
        rebuilt = wrapped.lake.step(backfill, wrapped.lake.session, "rebuild")
        compared = wrapped.lake.step(backfill, wrapped.lake.session, "compare")
    assert {name: rebuilt.get(name) for name in ("transactions", REBUILT, GONE)} == {
        "transactions": 3, REBUILT: 3, GONE: None,
    }  # fmt: skip
    assert not compared["changes"] and not compared["surplus"]
