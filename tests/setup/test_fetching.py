"""What fetches the components: it asks for what is expected, does nothing twice, and says what cannot be had."""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from services import fetched
from services.fetched import PROJECT
from setup.machine import Machine, whole_machine

IVY = PROJECT / "scripts" / "ivy"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose Java fetches nothing."""
    made = whole_machine(tmp_path)
    for tool in ("tee", "tar", "mv", "wc"):
        (made.bin / tool).symlink_to(shutil.which(tool) or tool)
    made.has("sleep", "exit 0")
    return made


def test_the_files_asked_for_are_the_files_expected() -> None:
    declared = ET.parse(IVY / "kafka.xml").iter("dependency")
    suffixes = {"libs->master": ".jar", "plugins->master": "-plugin.tar.gz"}
    named = {f"{file.attrib['name']}-{file.attrib['rev']}{suffixes[file.attrib['conf']]}" for file in declared}
    expected = [line.split()[1] for line in (IVY / "kafka.sha256").read_text().splitlines()]
    assert named == {Path(file).name for file in expected}
    assert len(named) == len(expected)


def test_nothing_says_where_files_come_from() -> None:
    shared = [PROJECT / "scripts" / name for name in ("ivy.sh", "debian.sh")]
    files = [IVY / "kafka.xml", *(PROJECT / "scripts").glob("fetch_*.sh"), *shared]
    addresses = {address for file in files for address in re.findall(r"https?://[^\s\"]+", file.read_text())}
    assert addresses == {"http://ant.apache.org/ivy/maven"}, "of all addresses only the name of an XML namespace"


def test_what_is_there_and_whole_is_not_fetched_again(machine: Machine) -> None:
    before = {path: path.stat().st_mtime_ns for path in fetched.kafka().rglob("*")}
    assert machine.run("fetch_kafka.sh", "no-python-is-needed", str(fetched.kafka())) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in fetched.kafka().rglob("*")} == before


def test_files_that_cannot_be_fetched_are_said_in_one_line(machine: Machine) -> None:
    code, text = machine.run("fetch_kafka.sh", "no-such-python")
    assert code == 1
    assert text.splitlines()[0] == (
        "[kafka] 94 files for a broker, Connect and Debezium into ROOT/.state/kafka (140 MB: one to two minutes)"
    )
    assert text.splitlines()[-1] == (
        "txloom: the files of scripts/ivy/kafka.xml could not be fetched (94 missing), or are not the expected ones. "
        "See ROOT/.state/log/ivy-kafka.log"
    )


@pytest.mark.parametrize(
    ("name", "cannot"),
    [
        (
            "postgres",
            "PostgreSQL 15 or later cannot be had on this machine: TXLOOM_POSTGRES=/nowhere holds no initdb, postgres "
            "and psql of it. Install one, or put its initdb on PATH.",
        ),
        (
            "mariadb",
            "MariaDB 10.5 or later cannot be had on this machine: TXLOOM_MARIADB=/nowhere holds no server of it. "
            "Install mariadb-server-core.",
        ),
        (
            "mysql",
            "MySQL 8.0 or later cannot be had on this machine: TXLOOM_MYSQL=/nowhere holds no server of it. "
            "Install MySQL's server.",
        ),
    ],
)
def test_a_database_that_cannot_be_had_is_said_with_an_exit_code_of_its_own(name: str, cannot: str) -> None:
    environment = {**os.environ, f"TXLOOM_{name.upper()}": "/nowhere"}
    script = PROJECT / "scripts" / f"fetch_{name}.sh"
    ran = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (fetched.CANNOT, "", f"txloom: {cannot}\n")


def test_a_chromium_that_cannot_be_had_is_said_with_an_exit_code_of_its_own() -> None:
    named = {**os.environ, "TXLOOM_CHROMIUM": "/nonexistent/chromium"}
    script = PROJECT / "scripts" / "fetch_chromium.sh"
    ran = subprocess.run([script], env=named, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (fetched.CANNOT, "")
    assert ran.stderr == (
        "txloom: Chromium cannot be had on this machine: TXLOOM_CHROMIUM=/nonexistent/chromium does not start. Install "
        "Debian's package chromium (apt-get install chromium), or name a program with TXLOOM_CHROMIUM.\n"
    )


@pytest.fixture
def debian(machine: Machine) -> Machine:
    """A machine whose apt-get, run as root, notes what it is asked."""
    for tool in ("chmod", "tail"):
        (machine.bin / tool).symlink_to(shutil.which(tool) or tool)
    machine.has("id", "echo 0")
    machine.has("apt-get", f'echo "$@" >>{machine.root}/asked; . {machine.root}/apt')
    return machine


def test_debians_package_is_installed_even_where_its_lists_cannot_be_had_anew(debian: Machine) -> None:
    made = f"echo 'echo Chromium 1' >{debian.bin}/chromium; chmod +x {debian.bin}/chromium"
    (debian.root / "apt").write_text(f"[ $1 != update ] || exit 100\n{made}\n")
    code, said = debian.run("fetch_chromium.sh")
    assert (code, sorted(said.splitlines())) == (
        0,
        ["ROOT/bin/chromium", "[chromium] it is not installed: taking Debian's (see ROOT/.state/log/chromium.log)"],
    )
    calls = (debian.root / "asked").read_text().splitlines()
    assert calls == ["update", "-o DPkg::Lock::Timeout=120 install --yes --no-install-recommends chromium"]


def test_a_package_that_debian_does_not_give_is_said_with_apts_last_word(debian: Machine) -> None:
    (debian.root / "apt").write_text("echo 'E: Unable to locate package'; exit 100\n")
    code, said = debian.run("fetch_chromium.sh")
    assert (code, said.splitlines()[1]) == (
        fetched.CANNOT,
        "txloom: Chromium cannot be had on this machine: Debian's package could not be installed (E: Unable to locate "
        "package). Install Debian's package chromium (apt-get install chromium), or name a program with "
        "TXLOOM_CHROMIUM.",
    )
