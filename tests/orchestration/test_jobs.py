"""What a failed job's error says, and whether it is retried."""

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from txloom.orchestration.jobs import counts_of, explained

SAID = (
    "Cannot execute: spark-submit .... Error code is: {code}.\nLast output:\nnoise\n"
    "txloom publish failed (X, exit code {code}): the reason"
)


@pytest.mark.parametrize("code", [2, 20, 30, 40])
def test_what_a_retry_cannot_help_fails_at_once_with_the_jobs_sentence(code: int) -> None:
    error = explained(SAID.format(code=code))
    assert isinstance(error, AirflowFailException)
    assert str(error) == f"txloom publish failed (X, exit code {code}): the reason"


@pytest.mark.parametrize("code", [1, 10, 11, 12, 137])
def test_what_may_pass_by_itself_is_retried(code: int) -> None:
    error = explained(SAID.format(code=code))
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)


def test_a_job_that_said_nothing_is_shown_as_spark_submit_saw_it() -> None:
    assert str(explained("Error code is: 137. killed")) == "Error code is: 137. killed"


def test_the_counts_are_those_of_the_last_line() -> None:
    lines = ["txloom publish: pipeline=a cut_id=1", "x", "txloom publish: pipeline=a cut_id=2 valid_through=7"]
    assert counts_of(lines) == {"pipeline": "a", "cut_id": "2", "valid_through": "7"}
