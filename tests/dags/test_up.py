"""`make up`: who reaches what it starts, that its first cycle is green, and that `make down` leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.process import free_port, wait_until

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.random_order(disabled=True)


@dataclass
class Site:
    """An Airflow that `make up` has started."""

    state: Path
    port: int
    said: str

    def run(self, script: str) -> str:
        system_columns = {
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "TXLOOM_"))
        }
        system_columns |= {"TXLOOM_STATE": str(self.state), "TXLOOM_PORT": str(self.port), "TXLOOM_DRIVER_MEMORY": "1g"}
        done = subprocess.run(
            [PROJECT / "scripts" / script], env=system_columns, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def password(self) -> str:
        match = re.search(r"password: (\S+) \(", self.said)
        assert match, self.said
        return match[1]

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://localhost:{self.port}{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def token(self, password: str) -> str:
        return str(self.ask("POST", "/auth/token", {"username": "admin", "password": password})["access_token"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("up") / "state", free_port(), "")
    try:
        made.said = made.run("up.sh")
        yield made
    finally:
        made.run("down.sh")


def processes(state: Path) -> set[int]:
    """Return all processes of the sessions that the pid files in a folder name."""
    leaders = {int(file.read_text()) for file in (state / "airflow").glob("*.pid")}
    return {
        pid
        for pid in (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
        if _session(pid) in leaders
    }


def _session(pid: int) -> int:
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:4]
    except OSError:
        return 0
    return 0 if state == "Z" else int(session)


@pytest.mark.long
def test_it_is_reached_from_this_machine_alone_with_a_password_that_nobody_else_has(site: Site) -> None:
    kept = site.state / "airflow" / "passwords.json"
    assert json.loads(kept.read_text()) == {"admin": site.password()}
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"it is kept in {kept}" in site.said
    assert site.token(site.password())
    with pytest.raises(urllib.error.HTTPError):
        site.token("admin")
    # whoever listens on all addresses answers on this one too
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", site.port), timeout=5)


@pytest.mark.long
def test_the_first_cycle_is_green_at_once(site: Site) -> None:
    token = site.token(site.password())

    def ended() -> list[dict[str, Any]]:
        time.sleep(1)
        runs = site.ask("GET", "/api/v2/dags/orders_cdc/dagRuns?order_by=run_after", token=token)["dag_runs"]
        return [run for run in runs if run["state"] in ("success", "failed")]

    run, *_ = wait_until(ended, "the first run to end", 400)
    tasks = site.ask("GET", f"/api/v2/dags/orders_cdc/dagRuns/{run['dag_run_id']}/taskInstances", token=token)
    states = {each["task_id"]: (each["state"], each["try_number"]) for each in tasks["task_instances"]}
    assert set(states.values()) == {("success", 1)}, states
    transactions = re.search(r"transactions (\d+), released (\d+)", run["note"])
    assert transactions is not None and int(transactions[2]) > int(transactions[1]) >= 120, run["note"]


@pytest.mark.long
def test_it_is_found_running_and_its_password_is_not_shown_again(site: Site) -> None:
    before = processes(site.state)
    said = site.run("up.sh")
    assert site.password() not in said
    assert f"password: see {site.state / 'airflow' / 'passwords.json'}" in said
    assert {pid for pid in before if pid in processes(site.state)} >= {
        int(file.read_text()) for file in (site.state / "airflow").glob("*.pid")
    }


@pytest.mark.long
def test_down_ends_all_of_it_also_what_a_killed_scheduler_left_behind(site: Site) -> None:
    scheduler = int((site.state / "airflow" / "scheduler.pid").read_text())
    everything = processes(site.state)
    left = {pid for pid in everything if _session(pid) == scheduler} - {scheduler}
    assert left, "the scheduler has workers"
    os.kill(scheduler, signal.SIGKILL)
    wait_until(lambda: _session(scheduler) == 0, "the scheduler to end", 10)
    site.run("down.sh")
    assert {pid for pid in everything if _session(pid)} == set()
    assert site.run("down.sh") == "[airflow] stopped\n"
