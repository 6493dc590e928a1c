"""The services of a real source: ports that are kept, a password that nobody else reads, and who is told of both."""

import socket
import subprocess
from pathlib import Path

import pytest

from txloom.errors import ConfigurationError
from txloom.generate.trial.real_services import ADDRESSES, PORTS, chosen, environment, exports, known


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in PORTS.values():
        monkeypatch.delenv(variable, raising=False)


def test_ports_and_password_are_chosen_once(tmp_path: Path) -> None:
    first = chosen(tmp_path / "source")
    assert chosen(tmp_path / "source") == first == known(tmp_path / "source")
    assert len({first.postgres, first.kafka, first.controller, first.connect}) == 4
    assert (tmp_path / "source" / ADDRESSES).stat().st_mode & 0o777 == 0o600
    assert chosen(tmp_path / "other").password != first.password


def test_the_environment_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = chosen(tmp_path)
    monkeypatch.setenv("TXLOOM_KAFKA_PORT", str(first.connect))
    assert chosen(tmp_path).kafka == first.connect == known(tmp_path).kafka
    for text in ("kafka", "0", "65536", "-1"):
        monkeypatch.setenv("TXLOOM_KAFKA_PORT", text)
        with pytest.raises(
            ConfigurationError, match=rf"TXLOOM_KAFKA_PORT: found '{text}', expected the number of a port"
        ):
            chosen(tmp_path)


@pytest.mark.parametrize("name", PORTS)
def test_a_port_that_is_taken_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    port = getattr(chosen(tmp_path), name)
    message = rf"port {port} of {name} is taken.* {PORTS[name]}=NUMBER"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ConfigurationError, match=message):
        chosen(tmp_path)


def test_before_the_first_start_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no source lives here; `make up-real` starts it"):
        known(tmp_path)


def test_a_shell_gets_the_variables_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME"
    variables = environment(folder, chosen(tmp_path))
    shell = f"{exports(variables)}env -0"
    shown = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout.split("\0")
    assert {f"{name}={value}" for name, value in variables.items()} <= set(shown)
    assert variables["TXLOOM_WAREHOUSE"] == f"{folder}/warehouse"
    assert variables["AIRFLOW_CONN_ORDERS_DB"].startswith("postgresql://postgres:")
