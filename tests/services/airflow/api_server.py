"""Airflow's API server alone, with people of several roles: what the page needs, without a scheduler."""

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from services.airflow.settings import PROJECT, command, program, settings
from services.process import Service, free_port

PASSWORD = "secret"
PEOPLE = {"admin": "admin", "ann": "viewer", "guest": "viewer", "nobody": "viewer"}
"""Names and roles; whom a role lets read which DAG is narrowed by `services.airflow.site_auth`."""


class ApiServer(Service):
    """A running API server that knows the project's DAGs for the declarations of a folder."""

    name = "api-server"

    def __init__(self, folder: Path, pipelines: Path, warehouse: Path, more: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.environment = {**self._settings(pipelines, warehouse), **(more or {})}

    def _settings(self, pipelines: Path, warehouse: Path) -> dict[str, str]:
        return {
            **settings(self.folder, self.port, pipelines, warehouse),
            "AIRFLOW__CORE__AUTH_MANAGER": "services.airflow.site_auth.SiteAuthManager",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in PEOPLE.items()),
            "PYTHONPATH": f"{PROJECT / 'include'}:{PROJECT / 'tests'}",
        }

    def start(self) -> None:
        """Make the database, tell it the DAGs, and serve."""
        (self.folder / "passwords.json").write_text(json.dumps(dict.fromkeys(PEOPLE, PASSWORD)))
        command(self.environment, "db", "migrate")
        command(self.environment, "dags", "reserialize")
        self._launch(program(self.environment, self.name))
        self._wait(self._answers, f"an answer at {self.url}", 300)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/version", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def token(self, person: str) -> str:
        """Log somebody in and return the token."""
        credentials = json.dumps({"username": person, "password": PASSWORD}).encode()
        request = urllib.request.Request(f"{self.url}/auth/token", credentials, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(json.load(answer)["access_token"])
