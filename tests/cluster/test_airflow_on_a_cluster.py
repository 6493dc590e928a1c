"""The sample in an Airflow as in production: PostgreSQL, two schedulers, a cluster of Spark, the lake on S3.

The lake's connection lies in Airflow's database alone: Airflow hands it to jobs, executors and the page.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.sample import SampleLake
from cluster.submitted import SMALL
from oracle import capture
from services.airflow.instance import Airflow
from services.cluster.s3 import S3, SECRET
from services.cluster.standalone import Cluster
from services.postgres import Postgres
from txloom.config.project import PROJECT

pytestmark = [pytest.mark.timeout(1800), pytest.mark.machines, pytest.mark.random_order(disabled=True)]
DAG = "orders_cdc"
TASKS = ("land_events", "buffer_transactions", "merge_current", "check_expectations", "publish")


@pytest.fixture(scope="module")
def airflow(
    s3: S3, cluster: Cluster, postgres: Postgres, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Airflow]:
    folder, bucket = tmp_path_factory.mktemp("production"), s3.bucket("production")
    postgres.fresh_database("airflow", "SELECT 1")
    declared = yaml.safe_load((PROJECT / "include" / "pipelines" / "orders.yaml").read_text())
    declared["schedule"] = None
    declared["spark"] = {"connection": "cluster", "executors": 2, "executor_cores": 1, "executor_memory": "1g"}
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "orders.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    environment = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://postgres@{postgres.address}/airflow",
        "TXLOOM_EXECUTOR_PACKAGES": str(packages),
        "TXLOOM_INBOX": f"{bucket}/inbox",
        "TXLOOM_WAREHOUSE_CONNECTION": "lake",
        **SMALL,
    }
    made = Airflow(folder / "airflow", folder / "pipelines", f"{bucket}/lake", environment, schedulers=2)
    made.command("db", "migrate")
    master, port = cluster.url.removeprefix("spark://").split(":")
    spark = {"conn_type": "spark", "host": f"spark://{master}", "port": int(port)}
    for name, connection in {"lake": s3.connection, "cluster": json.dumps(spark)}.items():
        made.command("connections", "add", name, "--conn-json", connection)
    with made:
        yield made


@pytest.fixture(scope="module")
def lake(s3: S3, airflow: Airflow) -> Iterator[SampleLake]:
    """Deliver the sample in two parts, and run the DAG after each."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        s3.reach(monkeypatch)
        made = SampleLake("s3://production")
        airflow.unpause(DAG)
        for arrivals in ((1, 2, 3), (4, 5, 6)):
            for arrival in arrivals:
                made.deliver(capture.SAMPLE / "arrivals" / f"{arrival:02}")
            run_id = airflow.trigger(DAG)
            assert airflow.wait(DAG, run_id, 600) == "success", failures(airflow, run_id)
            made.runs.append(run_id)
        yield made


def failures(airflow: Airflow, run_id: str) -> dict[str, Any]:
    tasks = airflow.tasks(DAG, run_id)
    return {name: airflow.log(DAG, run_id, name)[-3000:] for name, each in tasks.items() if each["state"] == "failed"}


def test_every_cut_is_a_state_of_the_source(lake: SampleLake) -> None:
    lake.assert_cuts(2)


def test_the_page_reads_the_lake_by_the_connection_of_airflows_database(airflow: Airflow, lake: SampleLake) -> None:
    (cut,) = lake.query("cuts", "select valid_through from t order by cut_id desc limit 1")
    status = airflow.ask("GET", f"/txloom/status/{DAG}")
    assert str(cut["valid_through"]) in json.dumps(status)


def test_no_secret_is_in_a_log_of_a_task_or_an_executor(
    airflow: Airflow, lake: SampleLake, cluster: Cluster, s3: S3
) -> None:
    said = [airflow.log(DAG, run_id, task) for run_id in lake.runs for task in TASKS]
    assert len(said) == len(TASKS) * 2 and not [log for log in said if SECRET in log]
    assert cluster.logs() and not [log for log in cluster.logs() if SECRET in log.read_text()]
    assert not [file for file in airflow.folder.rglob("*.log") if SECRET in file.read_text(errors="replace")]


def test_the_jobs_ran_on_the_cluster(cluster: Cluster, lake: SampleLake) -> None:
    assert {log.parts[-2] for log in cluster.logs()}
