"""`make up-real` where this machine cannot have what it needs: it says so, and nothing is started."""

import os
import re
import subprocess
from pathlib import Path

from services.process import free_port

PROJECT = Path(__file__).resolve().parents[2]


def test_nothing_is_started_where_postgresql_cannot_be_had(tmp_path: Path) -> None:
    chosen = {"TXLOOM_STATE": tmp_path / "state", "TXLOOM_PORT": free_port(), "TXLOOM_POSTGRES": tmp_path / "nowhere"}
    environment = {**os.environ, **{name: str(value) for name, value in chosen.items()}}
    command = [PROJECT / "scripts" / "up.sh", "--real"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    assert f"TXLOOM_POSTGRES={tmp_path / 'nowhere'} holds no initdb" in ended.stderr
    assert ended.stderr.endswith(
        "txloom: nothing was started. make up has a source that needs neither PostgreSQL nor Kafka\n"
    )
    assert list((tmp_path / "state" / "real").iterdir()) == [tmp_path / "state" / "real" / "airflow"]
    assert list((tmp_path / "state").rglob("*.pid")) == []


def test_what_fetches_files_gets_a_python_by_its_path() -> None:
    """The scripts take the project's environment out of PATH, so that a name alone would mean another Python."""
    scripts = [PROJECT / "Makefile", *(PROJECT / "scripts").glob("*.sh")]
    given = [
        (file.name, python)
        for file in scripts
        for python in re.findall(
            r'^[^#\n]*fetch_(?:kafka|moto|jars)\.sh"? ("[^"]+"|\S+)', file.read_text(), re.MULTILINE
        )
    ]
    assert {name for name, _ in given} >= {"Makefile", "up.sh"}
    folders = ("$root/.venv/bin", "$venv/bin", "$(BIN)")
    assert {python for _, python in given} <= {f'"{folder}/python"' for folder in folders}
