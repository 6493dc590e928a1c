"""What a failed job's error says, and whether it is retried."""

import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, TaskGroup
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from txloom.config import load
from txloom.orchestration.failures import failure
from txloom.orchestration.jobs import IN_ORDER, SparkJob, died, explain_nothing, spark_job, turn
from txloom.storage.runs.job_results import JobResult, ResultFile

PROJECT = Path(__file__).resolve().parents[2]
DECLARED = """
name: shop
source: {{format: change_sets, files: {{path: {folder}/inbox}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
"""
COMMAND = "Cannot execute: spark-submit --master local[*] " + 40 * "--conf spark.a=b " + ". "


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Declare a pipeline, and let Airflow's connection and txloom's variables name this machine and this folder."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "shop.yaml").write_text(DECLARED.format(folder=tmp_path))
    monkeypatch.setenv("TXLOOM_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TXLOOM_WAREHOUSE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://local")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return tmp_path


def executed(folder: Path, step: str, **more: Any) -> dict[str, Any]:
    """Run the task of a step as Airflow does; jobs that seldom need Spark start no JVM."""
    job = spark_job(load(folder / "shop.yaml"), step, **more)
    job.application_args = [arg.replace("{{ run_id }}", "r") for arg in job.application_args or []]
    return run(job)


def run(job: SparkJob) -> dict[str, Any]:
    """Execute a task, and close the pipe that the provider's hook leaves open."""
    context: Any = {"run_id": "r", "outlet_events": defaultdict(SimpleNamespace)}
    try:
        return job.execute(context)
    finally:
        job._hook._submit_sp.stdout.close()


def test_a_task_returns_what_its_job_counted(lake: Path) -> None:
    counts = executed(lake, "land_events")
    assert {name: counts[name] for name in ("pipeline", "run_id", "landing", "landed")} == {
        "pipeline": "shop",
        "run_id": "r",
        "landing": 1,
        "landed": 0,
    }


def test_publish_without_anything_new_is_skipped(lake: Path) -> None:
    with pytest.raises(AirflowSkipException, match="the newest cut says all of it"):
        executed(lake, "publish", outlets=[Asset(name="shop_cuts", uri="txloom://shop/cuts")])


def test_publish_that_holds_cuts_says_why_it_is_skipped() -> None:
    assert "targets.incomplete: hold" in explain_nothing({"published": 0, "incomplete": 2})
    assert "the newest cut says all of it" in explain_nothing({"published": 0})


def test_a_task_fails_with_the_jobs_sentence_and_is_not_retried_where_that_cannot_help(lake: Path) -> None:
    (lake / "shop.yaml").write_text(DECLARED.format(folder=lake).replace("id: long", "id: lang"))
    job = spark_job(load(PROJECT / "include" / "pipelines" / "orders.yaml", connected=False), "publish")
    job.pipeline, job.application_args = "shop", ["--pipeline", "shop", "--run-id", "r"]
    with pytest.raises(AirflowFailException) as failed:
        run(job)
    assert str(failed.value).startswith("txloom publish failed (ConfigurationError, exit code 2): ")
    assert "shop.yaml:5" in str(failed.value)


def test_the_result_of_an_earlier_try_is_not_taken_for_that_of_this_one(lake: Path) -> None:
    file = ResultFile.of(str(lake / "lake"), "shop", "r", "land_events")
    file.write(JobResult(exit_code=2, message="of the last try"))
    with pytest.raises(AirflowException) as failed:
        executed(lake, "land_events", arguments=["--no-such-flag"])
    assert "of the last try" not in str(failed.value)
    assert file.read() is None


@pytest.mark.parametrize("code", [2, 20, 30, 40])
def test_what_a_retry_cannot_help_fails_at_once(code: int) -> None:
    assert isinstance(failure(code, "no"), AirflowFailException)


@pytest.mark.parametrize("code", [1, 10, 11, 12, 137, None])
def test_what_may_pass_by_itself_is_retried(code: int | None) -> None:
    error = failure(code, "no")
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)


def test_a_job_that_wrote_no_result_is_told_by_its_last_output_without_its_command() -> None:
    error = died(
        SimpleNamespace(returncode=127), f"{COMMAND}Error code is: 127.\nLast output:\nno such file", "publish"
    )
    assert str(error) == "Error code is: 127.\nLast output:\nno such file"


@pytest.mark.parametrize("code", [-9, 137])
def test_a_killed_process_is_told_as_killed_and_retried(code: int) -> None:
    error = died(
        SimpleNamespace(returncode=code), f"{COMMAND}Error code is: {code}.\nLast output:\nlanding 7", "publish"
    )
    assert not isinstance(error, AirflowFailException)
    assert str(error) == (
        "txloom publish was killed (SIGKILL, signal 9): its machine or container ran out of memory, or somebody killed "
        "it. Nothing is half done: the retry, or clearing the task, goes on where it stopped."
    )


def test_a_job_that_lost_its_lease_while_it_hung_is_told_so_and_retried() -> None:
    error = died(SimpleNamespace(returncode=10), f"{COMMAND}Error code is: 10.", "merge_current")
    assert not isinstance(error, AirflowFailException)
    assert str(error).startswith("txloom merge_current failed (LeaseTaken, exit code 10): it hung for so long that ")


def test_a_crash_in_native_code_is_told_as_one() -> None:
    error = died(SimpleNamespace(returncode=-11), f"{COMMAND}Error code is: {-11}.", "merge_current")
    assert str(error).startswith("txloom merge_current was killed (SIGSEGV, signal 11): it crashed in native code;")


def test_a_task_weighs_more_the_later_it_comes_in_a_run_and_more_than_any_of_another_kind() -> None:
    pipeline = load(PROJECT / "include" / "pipelines" / "orders.yaml", connected=False)
    weights = [turn(pipeline, step)["priority_weight"] for step in ("maintain_tables", *(one[0] for one in IN_ORDER))]
    assert weights == [1, 2, 3, 4, 5, 6]
    assert turn(pipeline, "publish") == {"pool": "txloom_orders", "priority_weight": 6, "weight_rule": "absolute"}


def test_a_task_inside_a_group_finds_its_jobs_result(lake: Path) -> None:
    with DAG("shop_cdc", schedule=None), TaskGroup("check_expectations"):
        job = spark_job(load(lake / "shop.yaml"), "land_events", task_id="one")
    job.application_args = ["--pipeline", "shop", "--run-id", "r"]
    assert job.task_id == "check_expectations.one"
    assert run(job)["landing"] == 1
