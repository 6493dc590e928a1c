"""A secret of an Airflow connection reaches the broker, and nothing that anybody can look at."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.broker import Broker
from services.process import free_port
from shop import insert
from topics import TABLES, Topics

PROJECT = Path(__file__).resolve().parents[2]
SECRET, TOKEN = "hunter2-of-the-broker", "token-of-the-extra"
GUARDED = """\
listeners=PLAINTEXT://127.0.0.1:{port},GUARDED://127.0.0.1:{guarded},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT
listener.name.guarded.sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_loom="{secret}";
"""
SOURCE = """\
name: shop
source:
  format: goldengate
  transaction_topic: {metadata}
  kafka:
    brokers: "${{conn:shop_kafka.host}}:${{conn:shop_kafka.port}}"
    topics: [{rows}]
    options:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: PLAIN
      sasl.username: ${{conn:shop_kafka.login}}
      sasl.password: ${{conn:shop_kafka.password}}
      client.id: ${{conn:shop_kafka.extra.own}}
completeness: {{rule: counts, patience: 2h}}
"""
RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.settings import Session
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered

dag = DagBag(sys.argv[1]).dags["shop_cdc"]
run = dag.test(mark_success_pattern=sys.argv[2])
with Session() as session:
    told = {
        "states": {found.task_id: found.state for found in session.query(TaskInstance).filter_by(run_id=run.run_id)},
        "xcom": {found.task_id: found.value for found in session.query(XComModel).filter_by(key="return_value")},
        "rendered": {found.task_id: found.rendered_fields for found in session.query(Rendered)},
    }
print("TOLD " + json.dumps(told, default=str))
"""


DEFINE = """
import sys
from airflow.models import Connection
from airflow.settings import Session

with Session() as session:
    session.add(Connection.from_json(sys.argv[1], conn_id="shop_kafka"))
    session.commit()
"""


class Airflow:
    """An Airflow of its own: home, metadata database, declarations, a warehouse."""

    def __init__(self, folder: Path) -> None:
        self.home, self.pipelines, self.warehouse = folder / "airflow", folder / "pipelines", folder / "warehouse"
        self.pipelines.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))},
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT / "include"),
            "TXLOOM_JARS": os.environ.get("TXLOOM_JARS", str(PROJECT / "jars")),
            "TXLOOM_PIPELINES": str(self.pipelines),
            "TXLOOM_WAREHOUSE": str(self.warehouse),
        }
        self.said = ""

    def call(self, *command: str) -> str:
        """Run a command of it and return what it said; all is kept."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *command],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        self.said += done.stdout + done.stderr
        return done.stdout

    def run(self, without: str) -> dict[str, Any]:
        """Run the cycle; without: a pattern of tasks that count as done."""
        (line,) = (
            line for line in self.call("-c", RUN, str(PROJECT / "dags"), without).splitlines() if line[:5] == "TOLD "
        )
        result: dict[str, Any] = json.loads(line[5:])
        return result

    def holding(self, secret: str) -> list[str]:
        """Return the files that hold a text: logs, database, warehouse."""
        roots = (self.home, self.warehouse)
        files = [path for root in roots for path in root.rglob("*") if path.is_file()]
        return [str(path) for path in files if secret.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, int]]:
    """A broker that tests reach as they like, and others at a port that asks for a password."""
    broker, port = Broker(tmp_path_factory.mktemp("guarded")), free_port()
    ports = {"port": broker.port, "controller": broker.controller, "guarded": port}
    broker.settings = GUARDED.format(**ports, secret=SECRET)
    with broker:
        yield broker, port


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """An Airflow whose database is there."""
    server = Airflow(tmp_path_factory.mktemp("own"))
    server.call("-m", "airflow", "db", "migrate")
    server.said = ""
    return server


@pytest.mark.long
def test_a_secret_reaches_the_broker_and_no_log_no_rendered_field_and_no_xcom(
    airflow: Airflow, guarded: tuple[Broker, int], tmp_path: Path
) -> None:
    broker, port = guarded
    topics = Topics(None, tmp_path, broker)
    topics.commit(10, insert("orders", id=1, note="a"))
    source = SOURCE.format(rows=topics.rows_topic, metadata=topics.metadata_topic)
    (airflow.pipelines / "shop.yaml").write_text(source + TABLES)
    later = "buffer_transactions|merge_current|publish"

    without = airflow.run(later)
    assert without["states"]["check_source"] == "failed", "nobody defined the connection"
    assert (
        "shop.yaml:12: source.kafka.options.'sasl.password': found '${conn:shop_kafka.password}', expected the "
        "connection shop_kafka. Define it in Airflow; for a job by hand set AIRFLOW_CONN_SHOP_KAFKA to its URI or JSON."
    ) in airflow.said

    connection = {"conn_type": "kafka", "host": "127.0.0.1", "port": port, "login": "loom", "password": SECRET}
    connection |= {"extra": {"own": TOKEN}}
    airflow.call("-c", DEFINE, json.dumps(connection))
    result = airflow.run(later)
    assert {task: result["states"][task] for task in ("check_source", "land_events")} == dict.fromkeys(
        ("check_source", "land_events"), "success"
    ), airflow.said[-5000:]
    assert result["xcom"]["check_source"]["waiting"] == 2
    assert result["xcom"]["land_events"]["landed"] == 2
    assert "land_events.py" in str(result["rendered"]["land_events"])
    assert "Spark-Submit cmd" in airflow.said
    for secret in (SECRET, TOKEN):
        assert airflow.holding(secret) == []
        assert secret not in airflow.said + json.dumps(result)
