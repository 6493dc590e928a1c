"""Set-up itself: what it made is whole, and doing it again does nothing."""

import os
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of set-up with changes to the environment."""
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_jars_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    from txloom.storage.session import jars_folder

    jars = shutil.copytree(jars_folder(), tmp_path / "jars")
    before = {path: path.stat().st_mtime_ns for path in jars.iterdir()}
    ran = run(PROJECT / "scripts" / "fetch_jars.sh", "no-python-is-needed", jars)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in jars.iterdir()} == before


def test_jars_that_cannot_be_fetched_are_said_in_one_line(tmp_path: Path) -> None:
    scripts = shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    ran = run(scripts / "fetch_jars.sh", "no-such-python", tmp_path / "jars")
    said = [line for line in ran.stderr.splitlines() if line.startswith("txloom:")]
    assert ran.returncode == 1
    assert said == [
        "txloom: the jars of scripts/ivy/jars.xml could not be fetched, or are not the expected ones. "
        f"See {tmp_path}/.state/log/ivy.log"
    ]
    assert not (tmp_path / "jars").exists()


def test_every_command_of_the_makefile_has_its_line_of_help() -> None:
    ran = run("make", "-C", PROJECT, "--no-print-directory", "help")
    named = {line.split()[1] for line in ran.stdout.splitlines()}
    assert {"demo", "up", "down", "test", "check", "bench", "setup", "clean", "help"} <= named
