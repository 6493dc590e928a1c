"""Run the sample through a real Airflow, compare every value with the source, and print where to look.

The sample's arrivals are delivered in three steps; after each, the scheduler runs the cdc DAG of pipeline `orders`.
Reads TXLOOM_WAREHOUSE (default .state/demo/warehouse, made anew each time), TXLOOM_STATE and TXLOOM_PORT.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATE = Path(os.environ.get("TXLOOM_STATE", ROOT / ".state"))
sys.path.insert(0, str(ROOT / "tests"))

from oracle import capture, comparison, declarations, values  # noqa: E402
from oracle.state import Source  # noqa: E402
from txloom.config import names  # noqa: E402
from txloom.storage.delta import arrow_tables, small_tables  # noqa: E402

STEPS = ((1, 2), (3, 4), (5, 6))
"""The arrivals that are delivered before each run: there are transactions across all of them."""
PORT = os.environ.get("TXLOOM_PORT", "8080")
API = f"http://localhost:{PORT}"
DAG = names.cdc_dag_id("orders")
LONGEST = 600
"""Seconds that one run may take on a slow machine."""


def main() -> int:
    """Run the demo; return 0 when every value equals the source's, else 1."""
    warehouse, inbox = folders()
    environment = {**os.environ, "TXLOOM_WAREHOUSE": str(warehouse), "TXLOOM_INBOX": str(inbox)}
    subprocess.run([ROOT / "scripts" / "down.sh"], check=True, stdout=subprocess.DEVNULL)
    if subprocess.run([ROOT / "scripts" / "up.sh"], env=environment, check=False).returncode:
        return 1
    try:
        token = sign_in()
        wait_for_dag(token)
        for number, arrivals in enumerate(STEPS, 1):
            for arrival in arrivals:
                deliver(capture.SAMPLE / "arrivals" / f"{arrival:02}", inbox)
            print(
                f"[demo] arrivals {arrivals[0]} and {arrivals[-1]} delivered, run {number} of {len(STEPS)}", flush=True
            )
            if not run(token):
                return 1
        return report(warehouse)
    finally:
        subprocess.run([ROOT / "scripts" / "down.sh"], check=False)


def folders() -> tuple[Path, Path]:
    """Return warehouse and inbox of the demo, empty; exits where TXLOOM_WAREHOUSE names one that holds `orders`."""
    folder = STATE / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    inbox = folder / "inbox"
    inbox.mkdir(parents=True)
    named = os.environ.get("TXLOOM_WAREHOUSE")
    if named and Path(named, "orders").exists():
        sys.exit(f"txloom: {named}/orders exists already; the demo wants an empty TXLOOM_WAREHOUSE, or none")
    return (Path(named) if named else folder / "warehouse"), inbox


def deliver(arrival: Path, inbox: Path) -> None:
    """Copy one arrival as a producer would: under a temporary name first."""
    for file in sorted(path for path in arrival.rglob("*") if path.is_file()):
        target = inbox / file.parent.name / file.name
        target.parent.mkdir(exist_ok=True)
        hidden = target.with_name(f".{target.name}")
        shutil.copyfile(file, hidden)
        hidden.rename(target)


def call(token: str | None, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send a request to Airflow's REST API and return the JSON of the response."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(
        urllib.request.Request(API + path, content, headers, method=method), timeout=30
    ) as answer:
        return json.load(answer)


def sign_in() -> str:
    """Return a token for the user that `make up` prints."""
    password = json.loads((STATE / "airflow" / "passwords.json").read_text())["admin"]
    token: str = call(None, "POST", "/auth/token", {"username": "admin", "password": password})["access_token"]
    return token


def wait_for_dag(token: str) -> None:
    """Unpause the DAG once the scheduler has it; exits after two minutes without it."""
    for _ in range(120):
        try:
            call(token, "PATCH", f"/api/v2/dags/{DAG}", {"is_paused": False})
        except urllib.error.HTTPError:
            time.sleep(1)
        else:
            return
    sys.exit(f"txloom: Airflow does not know {DAG}; look at .state/airflow/log/dag-processor.log")


def run(token: str) -> bool:
    """Wait for a run of the DAG and print tasks as they end; return whether it succeeded.

    It waits for a run that the schedule just began, or else triggers one.
    """
    time.sleep(2)
    active = [
        r for r in call(token, "GET", f"/api/v2/dags/{DAG}/dagRuns")["dag_runs"] if r["state"] in ("queued", "running")
    ]
    begun_by_schedule = active[0]["dag_run_id"] if active else None
    body = {"logical_date": None}
    triggered = begun_by_schedule or call(token, "POST", f"/api/v2/dags/{DAG}/dagRuns", body)["dag_run_id"]
    path = f"/api/v2/dags/{DAG}/dagRuns/{triggered}"
    reported: set[str] = set()
    begun = time.monotonic()
    while time.monotonic() - begun < LONGEST:
        for task in call(token, "GET", f"{path}/taskInstances")["task_instances"]:
            if task["state"] in ("success", "failed", "upstream_failed") and task["task_id"] not in reported:
                reported.add(task["task_id"])
                print(f"[demo]   {task['task_id']}: {task['state']}, {task['duration'] or 0:.0f} s", flush=True)
        state = call(token, "GET", path)["state"]
        if state in ("success", "failed"):
            break
        time.sleep(1)
    if state != "success":
        print(f"txloom: run {triggered} is {state}; look at {API}/dags/{DAG} and .state/airflow/logs", file=sys.stderr)
    return state == "success"


def report(warehouse: Path) -> int:
    """Print the contents of the tables and whether they equal the source; return the exit code."""
    lake = warehouse / "orders"

    def one(table: str, sql: str) -> dict[str, Any]:
        return next(iter(small_tables.query(str(lake / table), sql)), {})

    released = one("transactions", "select count(*) as n from t where status = 'released'").get("n", 0)
    waiting = one("pending_transactions", "select count(*) as n from t").get("n", 0)
    dead = one("dead_letters", "select count(*) as n from t").get("n", 0)
    cut = one("cuts", "select * from t order by cut_id desc limit 1")
    source = Source(capture.read(capture.arrivals()))
    truth = values.typed_state(capture.truth()) | {
        "orders_current": values.typed_documents(source.documents_as_of(source.csns[-1]))
    }
    keys = {name: table.key for name, table in declarations.TABLES.items()} | {"orders_current": ("order_id",)}
    print(f"\n[demo] transactions released {released}, waiting {waiting}, dead-lettered events {dead}")
    published = f"{cut['published_at']:%Y-%m-%d %H:%M:%S} UTC"
    print(f"[demo] valid-through {cut['valid_through']}, cut {cut['cut_id']}, published {published}")
    wrong = 0
    for name, expected in truth.items():
        actual = comparison.keyed(arrow_tables.select(str(lake / name), "select * from t").to_pylist(), keys[name])
        differences = comparison.differences({name: expected}, {name: actual})
        wrong += len(differences)
        print(
            f"[demo] {name}: {len(actual)} rows, "
            + ("equal to the source" if not differences else comparison.report(differences))
        )
    print(f"\n[demo] tables: {lake} (plain Delta folders)")
    folders_of_demo = f"TXLOOM_WAREHOUSE={warehouse} TXLOOM_INBOX={STATE / 'demo' / 'inbox'}"
    print(f"[demo] UI: {folders_of_demo} make up, then {API}, DAG {DAG}")
    print("[demo]     as admin, password in .state/airflow/passwords.json")
    print("[demo] read a cut: see docs/reading.md")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
