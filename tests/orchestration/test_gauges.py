"""A step's counts, its seconds and a pipeline's state go where Airflow sends its own metrics."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from called import step_of
from released import Released
from services.process import free_port
from topics import no_session
from txloom.steps.publish.publish import publish
from txloom.storage.health.metrics import HELP, UP

SCRIPT = """
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from txloom.orchestration.gauges import measured

stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
counts = {"cut_id": 7, "valid_through": 334516829, "versions": {"orders": 3}, "run_id": "r", "ok": True}
measured("shop", "publish", counts)
"""


@pytest.fixture
def collector() -> Iterator[tuple[int, list[bytes]]]:
    """Return the port of an OpenTelemetry collector, and what it is sent."""
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, bodies
        server.shutdown()


def test_numbers_become_gauges_of_the_pipeline_and_nothing_else_does(collector: tuple[int, list[bytes]]) -> None:
    port, bodies = collector
    environment = {
        **os.environ,
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
    }
    subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, timeout=120)
    sent = b"".join(bodies)
    for name in (b"txloom.publish.cut_id", b"txloom.publish.valid_through", b"shop"):
        assert name in sent
    assert b"versions" not in sent
    assert b"publish.ok" not in sent


WATCHED = """
from types import SimpleNamespace
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from txloom.config import find
from txloom.orchestration.alerts import alert_task
from txloom.orchestration.gauges import timed

stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
timed("plant", "check_expectations.totals", 1.23456)
print(alert_task(find("plant")).execute({"run_id": "r", "ti": SimpleNamespace()}))
"""
ALERTS = "alerts: {{valid_through_age: 1h, notify: [{{kind: webhook, url: 'http://127.0.0.1:{port}/'}}]}}"


def watched(lake: Released, receiver: socket.socket, **more: str) -> tuple[int, dict[tuple[str, str], float]]:
    """Run the task of alerts as Airflow does; return its exit code, and what a StatsD server got by name and tags."""
    environment = {
        **os.environ,
        "TXLOOM_PIPELINES": str(lake.folder),
        "TXLOOM_WAREHOUSE": str(lake.folder),
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(receiver.getsockname()[1]),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], env=environment, check=False, capture_output=True, timeout=120
    )
    received = {}
    receiver.setblocking(False)
    while True:
        try:
            packet = receiver.recv(65536).decode()
        except BlockingIOError:
            return done.returncode, received
        for line in (each for each in packet.splitlines() if each.startswith("airflow.txloom.")):
            sent = re.fullmatch(r"airflow\.([a-z0-9_.]+)((?:,[a-z]+=[a-z0-9_.]+)*):([0-9.]+)\|g", line)
            assert sent is not None, line
            received[sent[1], sent[2]] = float(sent[3])


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    """Return the socket of a StatsD server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def test_a_statsd_server_gets_every_number_of_a_pipelines_state_though_no_channel_takes_its_message(
    tmp_path: Path, receiver: socket.socket
) -> None:
    lake = Released(tmp_path, "id: long", more=ALERTS.format(port=free_port()))
    lake.release(7, [("I", {}, {"id": 7})])
    lake.merge(no_session)
    publish(step_of(lake.pipeline, lake.folder, "r"))
    code, sent = watched(lake, receiver, AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED="True")
    assert code != 0
    assert {name.removeprefix("txloom.") for name, _ in sent} == HELP.keys() - {UP}
    assert sent["txloom.step_seconds", ",pipeline=plant,task=check_expectations.totals"] == 1.235
    age = sent["txloom.valid_through_age_seconds", ",pipeline=plant"]
    assert 992 * 86400 < age < 994 * 86400
    assert sent["txloom.waiting_transactions", ",pipeline=plant"] == 0
    assert {tags for name, tags in sent if name == "txloom.findings_open"} == {
        f",pipeline=plant,severity={each}" for each in ("error", "warn", "info")
    }


def test_the_age_of_a_pipeline_that_stopped_grows_from_watch_to_watch(tmp_path: Path, receiver: socket.socket) -> None:
    lake = Released(tmp_path, "id: long", more="alerts: {}")
    lake.release(7, [("I", {}, {"id": 7})])
    lake.merge(no_session)
    publish(step_of(lake.pipeline, lake.folder, "r"))
    ages = []
    for _ in range(2):
        code, sent = watched(lake, receiver)
        assert code == 0
        ages.append((sent["txloom.valid_through_age_seconds", ""], sent["txloom.last_cut_age_seconds", ""]))
    assert ages[0][0] < ages[1][0] and ages[0][1] < ages[1][1]
