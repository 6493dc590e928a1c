"""The DAG files: what they declare, how fast they parse, what they import."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DAGS = sorted((PROJECT / "dags").glob("*.py"))

PARSE = """
import runpy, sys, time
import airflow.sdk
import airflow.providers.apache.spark.operators.spark_submit
begun = time.process_time()
runpy.run_path(sys.argv[1])
seconds = time.process_time() - begun
heavy = [name for name in ("pyspark", "great_expectations", "delta", "deltalake") if name in sys.modules]
assert not heavy, heavy
assert seconds < 2, seconds
"""


@pytest.mark.parametrize("file", DAGS, ids=lambda file: file.stem)
def test_a_dag_file_parses_in_two_seconds_without_spark_or_great_expectations(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PARSE, file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


LIST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
print(json.dumps({
    dag.dag_id: {
        task.task_id: {
            "after": sorted(task.upstream_task_ids), "pool": task.pool, "owner": task.owner, "retries": task.retries,
            "docs": bool(dag.doc_md), "arguments": list(task.application_args),
        }
        for task in dag.tasks
    }
    for dag in bag.dags.values()
}))
"""


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, object]]]:
    """Load the DAGs in a process of its own, with an Airflow home of its own."""
    import json
    import os

    home = str(tmp_path_factory.mktemp("airflow"))
    environment = {**os.environ, "AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(PROJECT / "dags")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIST, str(PROJECT / "dags")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, dict[str, object]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_pipeline_has_a_cycle_and_a_maintenance_dag(dags: dict[str, dict[str, dict[str, object]]]) -> None:
    assert sorted(dags) == ["orders_cdc", "orders_maintenance"]


def test_the_cycle_lands_buffers_merges_checks_each_expectation_and_publishes(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    after = {task: about["after"] for task, about in dags["orders_cdc"].items()}
    checks = ["check_expectations.orphan_line_items", "check_expectations.stuck_transactions"]
    assert after == {
        "land_events": [],
        "buffer_transactions": ["land_events"],
        "merge_current": ["buffer_transactions"],
        **{check: ["merge_current"] for check in checks},
        "publish": checks,
    }


def test_maintenance_cleans_then_optimizes_then_vacuums_then_measures(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    after = {task: about["after"] for task, about in dags["orders_maintenance"].items()}
    assert after == {
        "clean_history": [],
        "optimize": ["clean_history"],
        "vacuum": ["optimize"],
        "statistics": ["vacuum"],
    }


def test_every_task_takes_turns_in_its_pipelines_pool_and_has_owner_docs_and_retries(
    dags: dict[str, dict[str, dict[str, object]]],
) -> None:
    for dag in dags.values():
        for about in dag.values():
            assert (about["pool"], about["docs"], about["retries"]) == ("txloom_orders", True, 2)
            assert about["owner"] not in ("", "airflow")
