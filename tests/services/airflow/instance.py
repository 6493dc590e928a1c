"""A real Airflow: API server, scheduler, DAG processor and triggerer, in a folder of their own.

It runs the project's DAGs for the declarations of a folder that a test writes; tests talk to it as people do, over its
REST API.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from subprocess import run
from types import TracebackType
from typing import Any, Self

from services.airflow.settings import PROJECT, command, program, settings
from services.process import Service, free_port, wait_until

PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
ENDED = ("success", "failed")
START_SECONDS = 180
READS = 8
BUSY = 10
"""Attempts at what may be asked again: the SQLite of these tests refuses a writer while others write."""


class _Process(Service):
    """One of Airflow's processes."""

    def __init__(self, folder: Path, process: str, environment: Mapping[str, str]) -> None:
        super().__init__(folder)
        self.name, self._environment = process, environment

    def start(self) -> None:
        self._launch(program(self._environment, self.name))


class Airflow:
    """A running Airflow.

    Args:
        folder: for all that it writes.
        pipelines: the folder of the declarations.
        warehouse: the path or URI of the lake.
        environment: what its processes see beside the machine's own.
        schedulers: how many of them share the work.
    """

    def __init__(
        self,
        folder: Path,
        pipelines: Path,
        warehouse: Path | str,
        environment: Mapping[str, str] | None = None,
        *,
        schedulers: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.warehouse, self.port = folder, warehouse, free_port()
        self.url = f"http://localhost:{self.port}"
        (folder / "passwords.json").write_text('{"admin": "secret"}')
        self.environment = {**self._settings(pipelines), **(environment or {})}
        self._processes = {
            f"{name}-{number}": _Process(folder / f"processes-{number}", name, self.environment)
            for name in PROCESSES
            for number in range(schedulers if name == "scheduler" else 1)
        }
        self._token = ""

    def _settings(self, pipelines: Path) -> dict[str, str]:
        return {
            **settings(self.folder, self.port, pipelines, self.warehouse),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "3",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "3",
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[*]"}',
            "TXLOOM_DRIVER_MEMORY": "1g",
            "PYSPARK_PYTHON": sys.executable,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SPARK_HOME": str(Path(sys.executable).parents[1] / "lib" / _python() / "site-packages" / "pyspark"),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything, with the pools that the declarations need."""
        self.command("db", "migrate")
        pools = run(
            [sys.executable, PROJECT / "include" / "bin" / "pools.py"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        (self.folder / "pools.json").write_text(pools.stdout)
        self.command("pools", "import", str(self.folder / "pools.json"))
        for process in self._processes.values():
            process.start()
            if process.name == "api-server":
                wait_until(self._answers_tasks, f"an answer at {self.url}", START_SECONDS)
        wait_until(self._is_healthy, f"Airflow at {self.url} to be healthy", START_SECONDS)

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self._processes.values()):
            process.stop()

    def command(self, *arguments: str) -> str:
        """Run one of Airflow's commands and return what it said."""
        return command(self.environment, *arguments)

    def _answers_tasks(self) -> bool:
        try:
            return bool(self.ask("GET", "/execution/health", token=False)["status"] == "healthy")
        except OSError:
            return False

    def _is_healthy(self) -> bool:
        try:
            health = self.ask("GET", "/api/v2/monitor/health", token=False)
            return all(health[name]["status"] == "healthy" for name in ("scheduler", "dag_processor", "metadatabase"))
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None, *, token: bool = True) -> Any:
        """Ask the REST API; raises HTTPError with what it answered."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {self._signed_in()}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        for left in reversed(range(BUSY if method in ("GET", "PATCH") else 1)):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text = answer.read()
                    return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                if error.code < 500 or not left:
                    raise
                time.sleep(2)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _signed_in(self) -> str:
        if not self._token:
            credentials = {"username": "admin", "password": "secret"}
            self._token = self.ask("POST", "/auth/token", credentials, token=False)["access_token"]
        return self._token

    def unpause(self, dag: str, *, paused: bool = False) -> None:
        """Let a DAG run, as soon as Airflow knows it; paused: or stop it."""

        def known() -> bool:
            try:
                self.ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused})
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return False
            return True

        wait_until(known, f"Airflow to know {dag}; import errors: {self._import_errors()}", START_SECONDS)

    def _import_errors(self) -> list[str]:
        return [each["stack_trace"] for each in self.ask("GET", "/api/v2/importErrors")["import_errors"]]

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None) -> str:
        """Begin a run by hand and return its id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        run_id: str = self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"]
        return run_id

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return a DAG's runs, oldest first."""
        dag_runs: list[dict[str, Any]] = self.ask("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=run_after&limit=100")[
            "dag_runs"
        ]
        return dag_runs

    def wait(self, dag: str, run_id: str, within: float = 300) -> str:
        """Wait until a run has ended and return how."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}"
        return str(wait_until(lambda: self._ended(path), f"{dag} {run_id} to end", within))

    def _ended(self, path: str) -> str:
        time.sleep(0.5)
        state = str(self.ask("GET", path)["state"])
        return state if state in ENDED else ""

    def tasks(self, dag: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Return a run's task instances by the task's id."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances"
        return {each["task_id"]: each for each in self.ask("GET", path)["task_instances"]}

    def wait_for(self, dag: str, run_id: str, task: str, *states: str, within: float = 180) -> dict[str, Any]:
        """Wait until a task is in one of some states and return it."""

        def reached() -> dict[str, Any] | None:
            time.sleep(0.5)
            task_state = self.tasks(dag, run_id).get(task)
            return task_state if task_state is not None and task_state["state"] in states else None

        task_reached = wait_until(reached, f"{dag} {run_id} {task} to be {' or '.join(states)}", within)
        assert task_reached is not None
        return task_reached

    def question_of(self, dag: str, run_id: str, task: str, within: float = 180) -> str:
        """Wait until a task asks a person something, and return what they read, which takes them some seconds.

        Airflow takes an answer within the first seconds, and asks again: the scheduler has not heard yet that the task
        waits, and takes it for one that was killed.
        """
        self.wait_for(dag, run_id, task, "awaiting_input", within=within)
        time.sleep(READS)
        return str(self.ask("GET", self._question(dag, run_id, task))["body"])

    def answer(self, dag: str, run_id: str, task: str, option: str, **entered: Any) -> None:
        """Answer what a task asks; entered: the fields of its form."""
        self.ask("PATCH", self._question(dag, run_id, task), {"chosen_options": [option], "params_input": entered})

    def _question(self, dag: str, run_id: str, task: str) -> str:
        return f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances/{task}/-1/hitlDetails"

    def log(self, dag: str, run_id: str, task: str, attempt: int = 1) -> str:
        """Return what a task said."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances/{task}/logs/{attempt}"
        return json.dumps(self.ask("GET", f"{path}?full_content=true"), ensure_ascii=False)

    def xcom(self, dag: str, run_id: str, task: str) -> Any:
        """Return what a task returned."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run_id)}/taskInstances/{task}/xcomEntries/return_value"
        return self.ask("GET", path)["value"]


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"
