"""Preflight on doctored machines: one clear line for each thing that is missing."""

import shutil
import socket
import sys
from pathlib import Path

import pytest

from setup.machine import Machine, whole_machine

PYTHON_ADVICE = (
    "Install one (Debian: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3.11\n"
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return whole_machine(tmp_path)


def test_a_machine_that_lacks_nothing_is_told_nothing(machine: Machine) -> None:
    assert machine.run("preflight.sh") == (0, "")


def test_no_java(machine: Machine) -> None:
    machine.lacks("java")
    assert machine.run("preflight.sh") == (
        3,
        "txloom: Java 17 or 21 is needed, found none. "
        "Install one (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME.\n",
    )


@pytest.mark.parametrize(("version", "major"), [("11.0.22", "11"), ("1.8.0_292", "8"), ("25", "25")])
def test_the_wrong_java(machine: Machine, version: str, major: str) -> None:
    machine.has_java(version)
    assert machine.run("preflight.sh") == (
        3,
        f"txloom: Java 17 or 21 is needed, found {major} (ROOT/bin/java). Install one and set JAVA_HOME to it.\n",
    )


def test_a_java_that_only_says_where_to_get_one_is_none(machine: Machine) -> None:
    machine.has("java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    assert "needed, found none." in machine.run("preflight.sh")[1]


def test_the_java_of_java_home_counts_not_the_one_on_the_path(machine: Machine) -> None:
    machine.has_java("11.0.22")
    (machine.root / "jdk" / "bin").mkdir(parents=True)
    shutil.move(machine.bin / "java", machine.root / "jdk" / "bin" / "java")
    machine.has_java("17.0.15")
    machine.environment["JAVA_HOME"] = str(machine.root / "jdk")
    assert machine.run("preflight.sh") == (
        3,
        "txloom: Java 17 or 21 is needed, found 11 (ROOT/jdk/bin/java). Install one and set JAVA_HOME to it.\n",
    )


def test_a_java_home_without_java(machine: Machine) -> None:
    machine.environment["JAVA_HOME"] = "/nowhere"
    assert machine.run("preflight.sh") == (
        3,
        "txloom: Java 17 or 21 is needed, but JAVA_HOME=/nowhere holds no bin/java. Correct JAVA_HOME, or unset it.\n",
    )


def test_no_python(machine: Machine) -> None:
    machine.lacks("python3")
    assert machine.run("preflight.sh") == (
        3,
        f"txloom: Python 3.11, 3.12 or 3.13 with venv and sqlite3 is needed, found none. {PYTHON_ADVICE}",
    )


def test_the_wrong_python(machine: Machine) -> None:
    machine.has("python3", 'case "$2" in *sys.exit*) exit 1 ;; *) echo 3.10.13 ;; esac')
    assert machine.run("preflight.sh") == (
        3,
        "txloom: Python 3.11, 3.12 or 3.13 with venv and sqlite3 is needed, "
        f"found 3.10.13 (ROOT/bin/python3). {PYTHON_ADVICE}",
    )


def test_a_python_that_was_named_but_does_not_run(machine: Machine) -> None:
    machine.environment["PYTHON"] = "python9"
    assert machine.run("preflight.sh") == (
        3,
        "txloom: Python 3.11, 3.12 or 3.13 with venv and sqlite3 is needed, "
        f"found none under PYTHON=python9. {PYTHON_ADVICE}",
    )


def test_a_fitting_python_behind_a_wrong_one_is_found(machine: Machine) -> None:
    machine.has("python3", "exit 1")
    machine.has("python3.12", f'exec {sys.executable} "$@"')
    assert machine.run("preflight.sh") == (0, "")


def test_a_full_disk(machine: Machine) -> None:
    machine.environment.clear()
    machine.has("df", "echo Filesystem; echo /dev/x 1000000 990000 10240 99% /")
    assert machine.run("preflight.sh") == (
        3,
        "txloom: 3000 MB of free disk are needed in ROOT, found 10 MB. Free some, or lower TXLOOM_MIN_FREE_MB.\n",
    )


def test_a_taken_port(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert machine.run("preflight.sh", "--port", str(port)) == (
            3,
            f"txloom: port {port} is taken. Stop what listens there (`make down` if it is txloom), "
            f"or choose another: TXLOOM_PORT={port + 1}\n",
        )
    assert machine.run("preflight.sh", "--port", str(port)) == (0, "")


def test_everything_that_is_missing_is_said_at_once(machine: Machine) -> None:
    machine.lacks("java")
    machine.lacks("python3")
    machine.environment["TXLOOM_MIN_FREE_MB"] = "999999999"
    code, said = machine.run("preflight.sh")
    assert code == 3
    assert [line.split(" is needed")[0].split(" of free")[0] for line in said.splitlines()] == [
        "txloom: Python 3.11, 3.12 or 3.13 with venv and sqlite3",
        "txloom: Java 17 or 21",
        "txloom: 999999999 MB",
    ]


def test_set_up_stops_at_what_is_missing(machine: Machine) -> None:
    machine.lacks("java")
    code, said = machine.run("setup.sh")
    assert (code, said.count("\n")) == (3, 1)
    assert sorted(path.name for path in machine.root.iterdir()) == ["bin", "scripts"]
