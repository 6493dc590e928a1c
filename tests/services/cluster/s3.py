"""A server of S3 in memory (moto), which refuses conditional writes as the real one does."""

import json
import urllib.request
from pathlib import Path

import pytest

from services.fetched import moto
from services.process import Service, free_port, listens

SERVE = Path(__file__).resolve().parents[3] / "scripts" / "moto" / "serve.py"
KEY, SECRET = "txloom-tests", "kept-out-of-every-log"


class S3(Service):
    """A server that keeps its address over pause and resume; what it holds is gone with it."""

    name = "s3"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connection(self) -> str:
        """The Airflow connection that reaches it, as JSON."""
        extra = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        return json.dumps({"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra})

    def start(self) -> None:
        self._launch([moto(), SERVE, self.port])
        self._wait(lambda: listens(self.port), f"it listened on port {self.port}")

    def bucket(self, name: str) -> str:
        """Make a bucket and return its URI."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            return f"s3://{name}"

    def reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this process reach what lies there."""
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def environment(self) -> dict[str, str]:
        """Return the variables by which txloom reaches a lake there."""
        return {"TXLOOM_WAREHOUSE_CONNECTION": "tests_s3", "AIRFLOW_CONN_TESTS_S3": self.connection}
