"""What a job on a cluster brings along, and that nothing secret is in a command line."""

import os
import shlex
import stat
import sys
from pathlib import Path

import pytest

from txloom.errors import ConfigurationError
from txloom.storage.spark import cluster

SECRET = '{"conn_type": "aws", "password": "a\\\\b\\"c"}'


@pytest.fixture(autouse=True)
def _reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXLOOM_WAREHOUSE_CONNECTION", "lake")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", SECRET)
    for name in (cluster.PACKAGES, cluster.PYTHON, cluster.SUBMIT):
        monkeypatch.delenv(name, raising=False)


def jars(tmp_path: Path) -> str:
    for name in ("delta.jar", "s3/hadoop-aws.jar", "s3/notes"):
        (tmp_path / "jars" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "jars" / name).touch()
    return f"{tmp_path}/jars/*:{tmp_path}/jars/s3/*"


def test_an_image_has_everything_where_the_driver_has_it(tmp_path: Path) -> None:
    settings = cluster.executor_settings(jars(tmp_path))
    assert settings["spark.executor.extraClassPath"] == f"{tmp_path}/jars/*:{tmp_path}/jars/s3/*"
    assert settings["spark.executorEnv.PYTHONPATH"].endswith("/include")
    assert "spark.archives" not in settings
    assert cluster.executor_python() == sys.executable


def test_a_job_brings_packages_and_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "executors.tar.gz"
    archive.touch()
    monkeypatch.setenv(cluster.PACKAGES, str(archive))
    settings = cluster.executor_settings(jars(tmp_path))
    assert settings["spark.jars"] == f"{tmp_path}/jars/delta.jar,{tmp_path}/jars/s3/hadoop-aws.jar"
    assert settings["spark.archives"] == f"{archive}#txloom_packages"
    assert settings["spark.executorEnv.PYTHONPATH"] == "./txloom_packages"
    assert cluster.executor_python() == f"python{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setenv(cluster.PYTHON, "/opt/python/bin/python3")
    assert cluster.executor_python() == "/opt/python/bin/python3"


def test_packages_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cluster.PACKAGES, str(tmp_path / "none.tar.gz"))
    with pytest.raises(ConfigurationError, match=r"none\.tar\.gz does not exist; make it with `make executors`"):
        cluster.executor_settings(jars(tmp_path))


def test_executors_reach_the_lake_by_the_drivers_connection(tmp_path: Path) -> None:
    settings = cluster.executor_settings(jars(tmp_path))
    assert settings["spark.executorEnv.TXLOOM_WAREHOUSE_CONNECTION"] == "lake"
    assert settings["spark.executorEnv.AIRFLOW_CONN_LAKE"] == SECRET


@pytest.mark.parametrize("given", [None, "--master local --conf spark.a='b c' pyspark-shell"])
def test_settings_lie_in_a_file_that_only_this_user_reads_and_that_goes(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv(cluster.SUBMIT, given)
    with cluster.launching({"spark.executorEnv.AIRFLOW_CONN_LAKE": SECRET, "spark.b": "plain"}):
        arguments = shlex.split(os.environ[cluster.SUBMIT])
        file = Path(arguments[arguments.index("--properties-file") + 1])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert properties(file.read_text()) == {"spark.executorEnv.AIRFLOW_CONN_LAKE": SECRET, "spark.b": "plain"}
        assert arguments[-1] == "pyspark-shell" and SECRET not in os.environ[cluster.SUBMIT]
        assert arguments[:2] == (["--master", "local"] if given else ["--load-spark-defaults", "--properties-file"])
    assert os.environ.get(cluster.SUBMIT) == given and not file.exists()


def properties(text: str) -> dict[str, str]:
    """Read a file of properties as Java does: a backslash takes the next character as it is."""
    lines = (line.split(" ", 1) for line in text.splitlines())
    return {name: value.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") for name, value in lines}
