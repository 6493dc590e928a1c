"""Set-up itself: it makes what is missing, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from setup.machine import PROJECT, Machine, whole_machine

PACKAGES = "[set-up 1/3] Python VERSION: 1 pinned packages into .venv (2.2 GB: a minute with uv, three with pip)\n"
JARS = "[set-up 2/3] 2 jars for Delta Lake and 36 for S3 into jars (23 MB)\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with the jars in place and a uv that writes down what it is asked for."""
    from txloom.config.project import jars

    made = whole_machine(tmp_path)
    shutil.copytree(jars(), tmp_path / "jars")
    shutil.copytree(PROJECT / "include" / "java", tmp_path / "include" / "java")
    (tmp_path / "requirements.txt").write_text("one==1\n")
    (tmp_path / "requirements-dev.txt").write_text("")
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    environment = f"mkdir -p {tmp_path}/.venv/bin && cp {tmp_path}/bin/python3 {tmp_path}/.venv/bin/python"
    made.has("uv", f'echo "$1 $2" >> {tmp_path}/asked; if [ "$1" = venv ]; then {environment}; fi')
    (made.bin / "cp").symlink_to(shutil.which("cp") or "cp")
    made.has("python3", f'PYTHONPATH={PROJECT / "include"} exec {sys.executable} "$@"')
    # The tests of set-up must pass on a nearly full disk; tests/setup/test_preflight.py tests the check for disk space.
    made.environment |= {"TXLOOM_NO_CLASS_ARCHIVE": "1", "TXLOOM_MIN_FREE_MB": "1"}
    return made


def said(machine: Machine) -> str:
    """Run set-up and return what it said."""
    code, text = machine.run("setup.sh")
    assert code == 0, text
    return text.replace(".".join(map(str, sys.version_info[:3])), "VERSION")


def questions(machine: Machine) -> list[str]:
    """Return what uv was asked for since the last look."""
    file = machine.root / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def test_the_first_set_up_says_what_it_makes(machine: Machine) -> None:
    assert said(machine) == PACKAGES + JARS
    assert questions(machine) == ["venv --quiet", "pip install", "pip install"]


def test_the_second_set_up_does_nothing(machine: Machine) -> None:
    said(machine)
    questions(machine)
    assert said(machine) == ""
    assert questions(machine) == []


def test_a_changed_pin_is_installed_anew(machine: Machine) -> None:
    said(machine)
    (machine.root / "requirements.txt").write_text("one==2\n")
    assert said(machine) == PACKAGES


def test_a_changed_rule_of_a_tool_installs_nothing(machine: Machine) -> None:
    said(machine)
    settings = machine.root / "pyproject.toml"
    settings.write_text(settings.read_text().replace("line-length = 120", "line-length = 100"))
    assert said(machine) == ""


def test_an_environment_that_was_thrown_away_is_made_again(machine: Machine) -> None:
    said(machine)
    shutil.rmtree(machine.root / ".venv")
    assert said(machine) == PACKAGES


def test_jars_that_are_there_are_not_fetched_again(machine: Machine) -> None:
    jars = machine.root / "jars"
    before = {path: path.stat().st_mtime_ns for path in jars.rglob("*.jar")}
    for arguments in ((str(jars),), (str(jars / "s3"), "s3")):
        assert machine.run("fetch_jars.sh", "no-python-is-needed", *arguments) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in jars.rglob("*.jar")} == before


def test_jars_that_cannot_be_fetched_are_said_in_one_line(machine: Machine) -> None:
    (machine.root / "jars" / "delta-storage-4.4.0.jar").write_bytes(b"damaged")
    (machine.bin / "tee").symlink_to(shutil.which("tee") or "tee")
    machine.has("sleep", "exit 0")
    code, text = machine.run("fetch_jars.sh", "no-such-python", str(machine.root / "jars"))
    assert code == 1
    assert text.splitlines()[-1] == (
        "txloom: the jars of scripts/ivy/jars.xml could not be fetched, or are not the expected ones. "
        "See ROOT/.state/log/ivy-jars.log"
    )


def test_every_command_of_the_makefile_has_its_line_of_help() -> None:
    ran = subprocess.run(
        ["make", "-C", PROJECT, "--no-print-directory", "help"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    named = {line.split()[1] for line in ran.stdout.splitlines()}
    assert {"demo", "up", "down", "test", "check", "bench", "docs", "setup", "clean", "help"} <= named
