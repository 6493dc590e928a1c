"""What a job needs on other machines: jars, Python packages, the variables that reach the lake.

Either the job brings it all (TXLOOM_EXECUTOR_PACKAGES names the archive that `make executors` packs: executors then
need Java and the driver's version of Python), or the executors' image has this project in the same place.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from txloom.config.project import PROJECT
from txloom.config.yaml.connections import LAKE, variable
from txloom.errors import ConfigurationError

PACKAGES = "TXLOOM_EXECUTOR_PACKAGES"
"""The variable with the path or URI of the archive with the Python packages."""
PYTHON = "TXLOOM_EXECUTOR_PYTHON"
"""The variable with the Python of the executors; by default the one with the driver's version, wherever it lies."""
UNPACKED = "txloom_packages"
"""The folder in that of an executor into which the archive is unpacked."""
SHELL = "pyspark-shell"
SUBMIT = "PYSPARK_SUBMIT_ARGS"
"""The variable with the arguments of the JVM that pyspark starts."""


def executor_settings(class_path: str) -> dict[str, str]:
    """Return the settings with which executors get what the job needs; class_path: of the driver.

    Raises ConfigurationError where the archive of packages does not exist.
    """
    shared = {f"spark.executorEnv.{name}": value for name, value in _variables().items()}
    archive = os.environ.get(PACKAGES)
    if not archive:
        return {
            **shared,
            "spark.executor.extraClassPath": class_path,
            "spark.executorEnv.PYTHONPATH": str(PROJECT / "include"),
        }
    if "://" not in archive and not Path(archive).is_file():
        raise ConfigurationError(f"{PACKAGES}: {archive} does not exist; make it with `make executors`")
    return {
        **shared,
        "spark.jars": ",".join(str(jar) for jar in jars_in(class_path)),
        "spark.archives": f"{archive}#{UNPACKED}",
        "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}",
    }


def executor_python() -> str:
    """Return the program that runs Python in the executors."""
    if given := os.environ.get(PYTHON):
        return given
    here = sys.version_info
    return f"python{here.major}.{here.minor}" if os.environ.get(PACKAGES) else sys.executable


def jars_in(class_path: str) -> list[Path]:
    """Return the jars of a class path of folders, each given as `FOLDER/*`."""
    return [jar for folder in class_path.split(":") for jar in sorted(Path(folder.removesuffix("/*")).glob("*.jar"))]


def _variables() -> dict[str, str]:
    """Return the variables with which Python in the executors reaches the lake."""
    named = os.environ.get(LAKE)
    names = [LAKE, variable(named)] if named else []
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def launching(settings: Mapping[str, str]) -> Iterator[None]:
    """Let the JVM that pyspark starts in the block have settings, without showing them in its command line.

    They lie in a file that only this user reads, and that is gone when the block ends.
    """
    given = os.environ.get(SUBMIT)
    with NamedTemporaryFile("w", suffix=".conf") as file:
        file.writelines(f"{name} {_escaped(value)}\n" for name, value in settings.items())
        file.flush()
        before = (given or SHELL).removesuffix(SHELL)
        os.environ[SUBMIT] = f"{before} --load-spark-defaults --properties-file {file.name} {SHELL}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[SUBMIT]
            else:
                os.environ[SUBMIT] = given


def _escaped(value: str) -> str:
    r"""Return a value as a Java file of properties holds it.

    >>> print(_escaped('{"a": "b\\c"}'))
    {"a": "b\\c"}
    """
    return value.replace("\\", "\\\\").replace("\n", "\\n")
