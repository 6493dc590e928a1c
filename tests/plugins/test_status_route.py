"""The plugin's route in a running API server: closed without a token, a pipeline's state with one."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from txloom.storage import books
from txloom.storage.own import CUTS
from txloom.storage.place import Place

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.random_order(disabled=True)
"""The tests are steps of one story."""
START_SECONDS = 90


class Server:
    """A running API server and the warehouse that it reads."""

    def __init__(self, port: int, warehouse: str) -> None:
        self.url = f"http://localhost:{port}"
        self.warehouse = warehouse

    def ask(self, path: str, token: str | None = None, body: Any = None) -> tuple[int, Any]:
        """Return status code and JSON of a request."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, None

    def token(self) -> str:
        """Log in."""
        status, answer = self.ask("/auth/token", body={"username": "admin", "password": "secret"})
        assert status == 201
        return str(answer["access_token"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("airflow")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    (home / "passwords.json").write_text('{"admin": "secret"}')
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of this test that is long enough",
        "TXLOOM_WAREHOUSE": str(home / "lake"),
    }
    airflow = Path(sys.executable).with_name("airflow")
    subprocess.run([airflow, "db", "migrate"], env=environment, check=True, capture_output=True)
    with (home / "log").open("wb") as log:
        running = subprocess.Popen([airflow, "api-server"], env=environment, stdout=log, stderr=log)
        try:
            found = Server(port, str(home / "lake"))
            _wait(found, running, home / "log")
            yield found
        finally:
            running.terminate()
            running.wait(30)


def _wait(server: Server, running: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and running.poll() is None:
        try:
            if server.ask("/api/v2/version")[0] == 200:
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(log.read_text()[-3000:])


def test_nobody_sees_a_pipeline_without_a_token(server: Server) -> None:
    assert server.ask("/txloom/status/orders_cdc")[0] == 401
    assert server.ask("/txloom/status/orders_cdc", "no.such.token")[0] in (401, 403)


def test_a_pipeline_that_never_ran_has_no_cut_and_nothing_waiting(server: Server) -> None:
    status, found = server.ask("/txloom/status/orders_cdc", server.token())
    assert (status, found["cut"], found["waiting"]["transactions"], found["dead_letters"]) == (200, None, 0, [])


def test_a_published_cut_shows_at_once(server: Server) -> None:
    place = Place(server.warehouse, "orders")
    cut = {"cut_id": 3, "valid_through": 77, "versions": [("orders", 5)], "gaps": [], "amends": []}
    books.append(place.table("cuts"), [cut], CUTS)
    found = server.ask("/txloom/status/orders_cdc", server.token())[1]
    assert (found["cut"]["cut_id"], found["cut"]["valid_through"], found["cut"]["versions"]) == (3, 77, {"orders": 5})


def test_a_dag_that_is_no_pipeline_is_not_found(server: Server) -> None:
    assert server.ask("/txloom/status/nothing_cdc", server.token())[0] == 404
