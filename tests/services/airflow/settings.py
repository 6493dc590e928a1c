"""What every Airflow of these tests is told, and how its programs are run."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

from services.process import ServiceFailed

PROJECT = Path(__file__).resolve().parents[3]
AIRFLOW = Path(sys.executable).with_name("airflow")


def settings(folder: Path, port: int, pipelines: Path, warehouse: Path | str) -> dict[str, str]:
    """Return the environment of an Airflow in a folder, that runs the project's DAGs for the declarations of another.

    It serves on a port; the passwords of its people are in passwords.json of its folder.
    """
    secret = "a secret of these tests that is long enough for anybody"
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secret,
        "AIRFLOW__API_AUTH__JWT_SECRET": secret,
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "TXLOOM_PIPELINES": str(pipelines),
        "TXLOOM_WAREHOUSE": str(warehouse),
        "TXLOOM_JARS": str(PROJECT / "jars"),
    }


def program(environment: Mapping[str, str], name: str) -> list[object]:
    """Return the command of one of Airflow's processes, which sees its environment beside the machine's own."""
    return ["env", *(f"{each}={value}" for each, value in environment.items()), AIRFLOW, name]


def command(environment: Mapping[str, str], *arguments: str) -> str:
    """Run one of Airflow's commands and return what it said."""
    variables = {**os.environ, **environment}
    done = run([AIRFLOW, *arguments], env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceFailed(f"airflow {' '.join(arguments)}: {done.stderr[-2000:]}")
    return done.stdout
