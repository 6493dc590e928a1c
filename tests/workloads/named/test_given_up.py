"""What random workloads found of transactions that were given up and came whole later."""

from pathlib import Path

import pytest

from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.transactions import memory
from workloads.inbox import Producer
from workloads.judging import assert_newest
from workloads.named.test_named_lakes import PLAIN, commit, lake_of, messages, row
from workloads.operations import OPERATE
from workloads.play import Play, impatient
from workloads.small_lake import SmallLake
from workloads.spark_lake import SparkLake

BOTH = [pytest.param(True, marks=pytest.mark.stream), False]


def impatient_lake(folder: Path, request: pytest.FixtureRequest, *, by_spark: bool) -> tuple[SmallLake, Play, Producer]:
    """Return a lake of one table that gives up what is not whole with its landing; by_spark: by the jobs themselves."""
    lake, made, producer = lake_of(folder, "goldengate", PLAIN)
    if by_spark:
        lake = SparkLake(folder, lake.pipeline, spark=request.getfixturevalue("spark"))
    lake.pipeline = impatient(lake.pipeline)
    return lake, made, producer


@pytest.mark.parametrize("by_spark", BOTH)
def test_a_rebuild_counts_once_what_was_given_up_with_duplicates_and_released_later(
    tmp_path: Path, request: pytest.FixtureRequest, by_spark: bool
) -> None:
    """The ledger did not balance: what a batch gives up that an earlier generation released was counted twice."""
    lake, made, producer = impatient_lake(tmp_path, request, by_spark=by_spark)
    sent = [commit(made, csn, ("I", None, row(csn, "a"))) for csn in (100, 200)]
    for came in ([*sent[0].rows, *sent[0].rows], [sent[0].metadata, *messages(sent[1])]):
        producer.deliver(came, last=False)
        lake.run()
    lake.lose_checkpoint()
    lake.run()
    assert [each["balanced"] for each in lake.rows("ledger") if each["step"] == "balance"] == [True] * 4
    assert lake.shown_through() == 200
    assert_newest(lake, made)


@pytest.mark.parametrize("source", ["goldengate", "debezium/postgresql", "debezium/mysql", "debezium/oracle"])
def test_landing_goes_on_behind_a_transaction_that_was_given_up_without_its_csn(tmp_path: Path, source: str) -> None:
    """PostgreSQL's rows tell when they were committed, but not where: the next landing of an END ended in an error."""
    lake, made, producer = lake_of(tmp_path, source, PLAIN)
    lake.pipeline = impatient(lake.pipeline)
    lost, known, last = (commit(made, csn, ("I", None, row(csn, "a"))) for csn in (100, 200, 300))
    for came in (lost.rows, messages(known), [lost.metadata], messages(last)):
        producer.deliver([each for each in came if each], last=False)
        lake.run()
    assert lake.shown_through() == 300
    assert_newest(lake, made)
    assert not findings.open_findings(lake.paths), "no transaction id came again"


@pytest.mark.parametrize("by_spark", BOTH)
def test_a_rebuild_counts_each_time_that_a_transaction_was_given_up(
    tmp_path: Path, request: pytest.FixtureRequest, by_spark: bool
) -> None:
    """Given up, redriven and given up again, then released: a rebuild takes in all of it at once, and missed a row."""
    lake, made, producer = impatient_lake(tmp_path, request, by_spark=by_spark)
    sent = commit(made, 100, ("I", None, row(100, "a")))
    producer.deliver(sent.rows, last=False)
    lake.run()
    OPERATE["redrive"](lake, made)
    assert [each["cause"] for each in lake.rows("transactions")] == ["metadata never came"] * 2
    producer.deliver([sent.metadata], last=False)
    lake.run()
    before = [len(lake.rows(name)) for name in ("dead_letters", "transactions")]
    lake.lose_checkpoint()
    lake.run()
    assert {each["balanced"] for each in lake.rows("ledger") if each["step"] == "balance"} == {True}
    assert not by_spark or [len(lake.rows(name)) for name in ("dead_letters", "transactions")] == before
    assert lake.shown_through() == 100
    assert_newest(lake, made)


@pytest.mark.parametrize("by_spark", BOTH)
def test_what_was_given_up_in_two_parts_that_are_whole_together_is_redriven_at_once(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    """Landed before the buffer ran, taken in one by one: when it came to the second part it had forgotten the first."""
    monkeypatch.setattr(memory, "REMEMBERED", 1)
    lake, made, producer = impatient_lake(tmp_path, request, by_spark=by_spark)
    lake.at_once = 1
    sent = [commit(made, 100 + n, *[("I", None, row(10 * n + i, "a")) for i in range(2)]) for n in range(40)]
    for came in ([each.rows[0] for each in sent], [m for each in sent for m in (each.rows[1], each.metadata) if m]):
        producer.deliver(came, last=False)
        lake.land()
    lake.run()
    assert not open_letters.open_dead_letters(lake.paths, "kind").num_rows
    assert lake.shown_through() == 139
    assert_newest(lake, made)
