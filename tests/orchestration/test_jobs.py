"""What a failed job's error says, and whether it is retried."""

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from txloom.config import load
from txloom.orchestration.jobs import IN_ORDER, counts_of, explained, turn

PROJECT = Path(__file__).resolve().parents[2]
SAID = (
    "Cannot execute: spark-submit .... Error code is: {code}.\nLast output:\nnoise\n"
    "txloom publish failed (X, exit code {code}): the reason"
)


@pytest.mark.parametrize("code", [2, 20, 30, 40])
def test_what_a_retry_cannot_help_fails_at_once_with_the_jobs_sentence(code: int) -> None:
    error = explained(SAID.format(code=code), "publish")
    assert isinstance(error, AirflowFailException)
    assert str(error) == f"txloom publish failed (X, exit code {code}): the reason"


@pytest.mark.parametrize("code", [1, 10, 11, 12, 137])
def test_what_may_pass_by_itself_is_retried(code: int) -> None:
    error = explained(SAID.format(code=code), "publish")
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)


COMMAND = "Cannot execute: spark-submit --master local[*] " + 40 * "--conf spark.a=b " + ". "


def test_a_job_that_said_nothing_is_told_by_its_exit_code_and_last_output_without_its_command() -> None:
    error = explained(COMMAND + "Error code is: 127.\nLast output:\nno such file: java", "publish")
    assert str(error) == "Error code is: 127.\nLast output:\nno such file: java"


@pytest.mark.parametrize("code", [-9, 137])
def test_a_killed_process_is_told_as_killed_and_retried(code: int) -> None:
    error = explained(f"{COMMAND}Error code is: {code}.\nLast output:\nlanding 7", "publish")
    assert not isinstance(error, AirflowFailException)
    assert str(error) == (
        "txloom publish was killed (SIGKILL, signal 9): its machine or container ran out of memory, or somebody killed "
        "it. Nothing is half done: the retry, or clearing the task, goes on where it stopped."
    )


def test_a_crash_in_native_code_is_told_as_one() -> None:
    error = explained(f"{COMMAND}Error code is: {-11}.", "merge_current")
    assert str(error).startswith("txloom merge_current was killed (SIGSEGV, signal 11): it crashed in native code;")


def test_a_job_that_said_why_it_ends_is_told_so_though_a_signal_ended_it() -> None:
    assert str(explained(SAID.format(code=-9), "publish")).startswith("txloom publish failed (X, exit code -9): the")


def test_the_counts_are_those_of_the_last_line() -> None:
    lines = ["txloom publish: pipeline=a cut_id=1", "x", "txloom publish: pipeline=a cut_id=2 valid_through=7"]
    assert counts_of(lines) == {"pipeline": "a", "cut_id": "2", "valid_through": "7"}


def test_a_task_weighs_more_the_later_it_comes_in_a_run_and_more_than_any_of_another_kind() -> None:
    pipeline = load(PROJECT / "include" / "pipelines" / "orders.yaml", connected=False)
    weights = [turn(pipeline, step)["priority_weight"] for step in ("maintain_tables", *(one[0] for one in IN_ORDER))]
    assert weights == [1, 2, 3, 4, 5, 6]
    assert turn(pipeline, "publish") == {"pool": "txloom_orders", "priority_weight": 6, "weight_rule": "absolute"}
