"""The pins: one tested set, exact, and the packages that must carry one number do."""

import csv
import hashlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import metadata
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
IVY = PROJECT / "scripts" / "ivy"
PINNED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;*]+)( ; .+)?")


def lines(file: str) -> list[str]:
    """Return a file's lines without comments."""
    stripped = (line.split("#")[0].strip() for line in (PROJECT / file).read_text().splitlines())
    return [line for line in stripped if line]


def pins(file: str) -> dict[str, str]:
    """Return the version of each package pinned for this machine."""
    matches = (PINNED.fullmatch(line) for line in lines(file))
    return {pin["name"]: pin["version"] for pin in matches if pin}


def jars() -> dict[str, str]:
    """Return the version of each jar that Ivy is asked for."""
    declared = ET.parse(IVY / "jars.xml").iter("dependency")
    return {jar.attrib["name"]: jar.attrib["rev"] for jar in declared}


def recorded(package: str) -> dict[str, str]:
    """Return the hash of each Python file that a package unpacked."""
    record = metadata.distribution(package).read_text("RECORD") or ""
    return {row[0]: row[1] for row in csv.reader(record.splitlines()) if row[0].startswith("pyspark/") and row[1]}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_pinned_exactly(file: str) -> None:
    assert [line for line in lines(file) if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_no_pin_says_where_a_package_comes_from(file: str) -> None:
    assert "://" not in (PROJECT / file).read_text()
    assert "index-url" not in (PROJECT / file).read_text()


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_what_is_asked_for_is_pinned(name: str) -> None:
    declared = [re.match(r"[A-Za-z0-9-]+", line) for line in lines(f"{name}.in") if not line.startswith("-")]
    names = {match[0].lower() for match in declared if match}
    assert names <= pins(f"{name}.txt").keys()


def test_building_and_running_pin_the_same_versions() -> None:
    run, build = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {name: build[name] for name in run.keys() & build.keys()} == {
        name: run[name] for name in run.keys() & build.keys()
    }


def test_what_is_installed_is_what_is_pinned() -> None:
    pins_here = [line for line in lines("requirements.txt") if ";" not in line]
    pinned = [match for match in map(PINNED.fullmatch, pins_here) if match]
    assert {match["name"]: metadata.version(match["name"]) for match in pinned} == {
        match["name"]: match["version"] for match in pinned
    }


def test_pyspark_and_its_client_carry_one_number() -> None:
    assert pins("requirements.txt")["pyspark"] == pins("requirements.txt")["pyspark-client"]
    assert metadata.version("pyspark") == metadata.version("pyspark-client")


def test_pyspark_and_its_client_unpack_the_same_files() -> None:
    both, client = recorded("pyspark"), recorded("pyspark-client")
    assert len(both.keys() & client.keys()) > 300
    assert [name for name in both.keys() & client.keys() if both[name] != client[name]] == []


def test_each_package_and_its_jar_carry_one_number() -> None:
    assert jars()["delta-spark_4.2_2.13"] == jars()["delta-storage"] == pins("requirements.txt")["delta-spark"]


def test_the_jars_asked_for_are_the_jars_expected() -> None:
    expected = [line.split()[1] for line in (IVY / "jars.sha256").read_text().splitlines()]
    assert sorted(f"{name}-{version}.jar" for name, version in jars().items()) == sorted(expected)


def test_the_jars_here_are_the_expected_ones() -> None:
    from txloom.config import project

    for line in (IVY / "jars.sha256").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((project.jars() / name).read_bytes()).hexdigest() == digest, name


def test_the_image_installs_the_pins_for_the_python_that_the_project_has() -> None:
    text = (PROJECT / "Dockerfile").read_text()
    assert "pip install --no-cache-dir --requirement requirements.txt" in text
    assert set(re.findall(r"python3\.\d+", text)) == {"python3.11"}


def test_what_the_image_copies_is_in_its_context() -> None:
    kept = {line[1:] for line in lines(".dockerignore") if line.startswith("!")}
    copied = [line.split()[1:-1] for line in lines("Dockerfile") if line.startswith("COPY ") and "--from" not in line]
    sources = {name for names in copied for name in names if not name.startswith("--")}
    assert {"include", "dags", "requirements.txt"} <= sources
    assert {name for name in sources if not any(f"{name}/".startswith(f"{each}/") for each in kept)} == set()


def test_the_linter_of_images_says_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, PROJECT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("file", ["compose.yaml", "include/deploy/helm-values.yaml"])
def test_what_starts_the_image_elsewhere_can_be_read(file: str) -> None:
    known = yaml.safe_load((PROJECT / file).read_text())
    if file == "compose.yaml":
        ours = {name for name, service in known["services"].items() if service["image"] == "txloom"}
        assert {"api-server", "scheduler", "dag-processor", "triggerer", "spark-master", "spark-worker"} <= ours
        needed = {each for service in known["services"].values() for each in service.get("depends_on", ())}
        assert needed <= known["services"].keys()
    else:
        assert known["airflowVersion"] == pins("requirements.txt")["apache-airflow"]
