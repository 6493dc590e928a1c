"""Jobs of a cycle that need no JVM load no pandas, and whoever wants a frame of pandas gets one all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from txloom.config.project import PROJECT

RUN = """
import runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended.code
print("pandas was", "loaded" if "pandas" in sys.modules else "left alone")
"""
FRAMES = """
import txloom.steps.without_pandas
import sys
import pyarrow as pa
rows = pa.table({"n": [1, None, 3], "text": ["a", None, "c"]})
assert "pandas" not in sys.modules
frame = rows.to_pandas()
assert frame["text"].tolist() == ["a", None, "c"]
import pandas as pd
assert isinstance(frame, pd.DataFrame)
assert pa.array(pd.Series([1.0, float("nan")]), from_pandas=True).to_pylist() == [1.0, None]
assert pa.Table.from_pandas(frame[["text"]]).column("text").to_pylist() == ["a", None, "c"]
print("frames are")
"""


def printed(*arguments: str, inbox: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include"), "TXLOOM_INBOX": str(inbox)}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("step", ["land_events", "merge_current", "check_expectations", "publish"])
def test_a_job_of_a_cycle_loads_no_pandas(step: str, tmp_path: Path) -> None:
    job = str(PROJECT / "jobs" / f"{step}.py")
    *_, last, loaded = printed(RUN, job, "--pipeline", "orders", "--warehouse", str(tmp_path / "lake"), inbox=tmp_path)
    assert last.startswith(f"txloom {step}: pipeline=orders ")
    assert loaded == "pandas was left alone"


def test_who_wants_a_frame_gets_one(tmp_path: Path) -> None:
    assert printed(FRAMES, inbox=tmp_path) == ["frames are"]
