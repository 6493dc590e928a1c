"""Four pipelines in an Airflow as in production: PostgreSQL, two schedulers, a cluster of Spark, the lake elsewhere.

The connection of a lake on S3 lies in Airflow's database alone: Airflow hands it to jobs, executors and the page.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import production
from cluster.production import TABLES, TASKS, Production
from cluster.sample import OrdersLake, StoredLake
from cluster.submitted import SMALL
from oracle.state import Source
from services.airflow.instance import Airflow
from services.broker import Broker
from services.cluster.s3 import SECRET
from services.cluster.standalone import Cluster
from services.postgres import Postgres

pytestmark = [pytest.mark.timeout(3600), pytest.mark.machines, pytest.mark.random_order(disabled=True)]


@pytest.fixture(scope="module", params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Return the URI of an empty place in a store, and the connection that reaches it, if it needs one."""
    started = request.getfixturevalue(request.param)
    if request.param == "hdfs":
        yield f"{started.uri}/production", ""
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        started.reach(monkeypatch)
        yield started.bucket("production"), started.connection


@pytest.fixture(scope="module")
def runs(
    store: tuple[str, str],
    cluster: Cluster,
    postgres: Postgres,
    broker: Broker,
    packages: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Production]:
    """An Airflow with the four pipelines."""
    folder, (root, connection) = tmp_path_factory.mktemp("production"), store
    postgres.fresh_database("airflow", "SELECT 1")
    (folder / "pipelines").mkdir()
    production.declare(folder / "pipelines", root)
    environment = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://postgres@{postgres.address}/airflow",
        "KAFKA_BROKERS": broker.address,
        "TXLOOM_EXECUTOR_PACKAGES": str(packages),
        "TXLOOM_PROGRESS_SECONDS": "0.2",
        **({"TXLOOM_WAREHOUSE_CONNECTION": "lake"} if connection else {}),
        **SMALL,
    }
    airflow = Airflow(folder / "airflow", folder / "pipelines", f"{root}/lake", environment, schedulers=2)
    airflow.command("db", "migrate")
    master, port = cluster.url.removeprefix("spark://").split(":")
    connections = {"cluster": json.dumps({"conn_type": "spark", "host": f"spark://{master}", "port": int(port)})}
    connections |= {"lake": connection} if connection else {}
    for name, described in connections.items():
        airflow.command("connections", "add", name, "--conn-json", described)
    with airflow:
        yield Production(airflow, cluster, root)


@pytest.fixture(scope="module")
def sample(runs: Production) -> OrdersLake:
    return production.orders(runs)


@pytest.fixture(scope="module")
def wal2json(runs: Production) -> tuple[OrdersLake, Source]:
    return production.wal2json(runs)


@pytest.fixture(scope="module")
def debezium(runs: Production, broker: Broker) -> tuple[OrdersLake, Source]:
    return production.debezium(runs, broker)


@pytest.fixture(scope="module")
def plant(runs: Production) -> StoredLake:
    return production.plant(runs)


def test_every_cut_of_the_sample_is_a_state_of_the_source(sample: OrdersLake) -> None:
    sample.assert_cuts(2)


def test_every_cut_of_wal2json_is_a_state_of_the_source_though_two_workers_died(
    wal2json: tuple[OrdersLake, Source],
) -> None:
    lake, source = wal2json
    lake.assert_cuts(2, source)
    assert lake.cuts()[-1]["valid_through"] == source.csns[-1]


def test_every_cut_of_debezium_is_a_state_of_the_source(debezium: tuple[OrdersLake, Source]) -> None:
    lake, source = debezium
    lake.assert_cuts(2, source)
    assert lake.cuts()[-1]["valid_through"] == source.csns[-1]


def test_both_cuts_of_65_tables_are_what_was_delivered(plant: StoredLake) -> None:
    every = range(1, TABLES + 1)
    of_table = "select count(*) as n, sum(value) as total from t"
    for cut, more in zip(plant.cuts(), (0, 2), strict=True):
        versions = dict(cut["versions"])
        shown = {
            number: tuple(plant.at(f"t{number}", versions[f"t{number}"], of_table)[0].values()) for number in every
        }
        assert shown == {number: (production.rows_of(number), production.rows_of(number) + more) for number in every}


def test_the_page_reads_the_lake_as_jobs_do(runs: Production, sample: OrdersLake) -> None:
    status = runs.airflow.ask("GET", "/txloom/status/orders_cdc")
    assert str(sample.cuts()[-1]["valid_through"]) in json.dumps(status)


def test_no_secret_is_in_a_log_of_a_task_or_an_executor(runs: Production, sample: OrdersLake, cluster: Cluster) -> None:
    assert len(runs.logs()) >= len(TASKS) * 2 and not [log for log in runs.logs() if SECRET in log]
    assert cluster.logs() and not [log for log in cluster.logs() if SECRET in log.read_text()]
    folder = runs.airflow.folder
    assert not [file for file in folder.rglob("*.log") if SECRET in file.read_text(errors="replace")]


def test_the_jobs_ran_on_the_cluster(cluster: Cluster, sample: OrdersLake) -> None:
    assert {log.parts[-2] for log in cluster.logs()}
