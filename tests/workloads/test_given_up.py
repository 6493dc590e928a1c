"""What random workloads found of transactions that were given up and came whole later."""

from pathlib import Path

import pytest

from txloom.storage import findings
from workloads.judging import assert_newest
from workloads.play import impatient
from workloads.spark_lake import SparkLake
from workloads.test_named_lakes import PLAIN, commit, lake_of, messages, row


@pytest.mark.parametrize("by_spark", [True, False])
def test_a_rebuild_counts_once_what_was_given_up_with_duplicates_and_released_later(
    tmp_path: Path, request: pytest.FixtureRequest, by_spark: bool
) -> None:
    """The ledger did not balance: what a batch gives up that an earlier generation released was counted twice."""
    lake, made, producer = lake_of(tmp_path, "goldengate", PLAIN)
    if by_spark:
        lake = SparkLake(tmp_path, lake.pipeline, spark=request.getfixturevalue("spark"))
    lake.pipeline = impatient(lake.pipeline)
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
    lost, found, last = (commit(made, csn, ("I", None, row(csn, "a"))) for csn in (100, 200, 300))
    for came in (lost.rows, messages(found), [lost.metadata], messages(last)):
        producer.deliver([each for each in came if each], last=False)
        lake.run()
    assert lake.shown_through() == 300
    assert_newest(lake, made)
    assert not findings.open_findings(lake.place), "no transaction id came again"
