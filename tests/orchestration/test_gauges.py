"""A step's counts go where Airflow sends its own metrics."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

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
