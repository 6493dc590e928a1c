"""DAG files read declarations while they are parsed: that must be quick, and must not drag Spark or Airflow in."""

import doctest
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import txloom.config

INCLUDE = Path(__file__).resolve().parents[2] / "include"
MODULES = sorted(module.name for module in pkgutil.iter_modules(txloom.config.__path__, "txloom.config."))
PROGRAM = """
import json, sys, time
from txloom.config import discover
found = discover()
print(json.dumps({"pipelines": len(found), "cpu": time.process_time(), "modules": sorted(sys.modules)}))
"""


LIBRARIES = """
import json, time
import pydantic, yaml
from pydantic import BaseModel
print(json.dumps({"cpu": time.process_time()}))
"""


def parsed(program: str = PROGRAM) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(INCLUDE)}
    environment.pop("TXLOOM_PIPELINES", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    printed: dict[str, object] = json.loads(done.stdout)
    return printed


def test_discovering_pipelines_imports_neither_spark_nor_airflow() -> None:
    result = parsed()
    assert result["pipelines"]
    assert isinstance(result["modules"], list)
    roots = {name.partition(".")[0] for name in result["modules"]}
    assert roots.isdisjoint({"pyspark", "delta", "deltalake", "airflow", "pandas", "pyarrow", "great_expectations"})


def test_discovering_pipelines_takes_at_most_three_times_what_its_libraries_take_to_load() -> None:
    """In processor time, by turns: a slow machine is slow at both."""
    turns = [[float(str(parsed(program)["cpu"])) for program in (PROGRAM, LIBRARIES)] for _ in range(3)]
    discovering, loading = (min(times) for times in zip(*turns, strict=True))
    assert discovering < 3 * loading


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
