"""A step that takes long says what Spark is at."""

import re
import subprocess
import sys
import time
from typing import Any

import pytest

from txloom.storage.spark import progress_log


def test_the_running_stage_is_told_until_the_step_ends(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_log.reported("merge_current", every=0.3):
        spark.sparkContext.parallelize(range(4), 4).foreach(lambda _: time.sleep(1))
    lines = capsys.readouterr().out.splitlines()
    pattern = r"merge_current has worked for \d+ s: (.+; )?[0-3] of 4 tasks are done, [0-4] run \(.*\)"
    assert any(re.fullmatch(pattern, line) for line in lines), lines
    time.sleep(0.7)
    assert "merge_current" not in capsys.readouterr().out, "nothing is told once it is over"


def test_a_step_that_is_between_jobs_says_so(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_log.reported("publish", every=0.2):
        time.sleep(0.5)
    assert "publish has worked for 0 s: no task is running at this moment" in capsys.readouterr().out


def test_a_step_without_spark_tells_without_loading_it() -> None:
    program = (
        "import sys, time; from txloom.steps.runner import log_to_output\n"
        "from txloom.storage.spark import progress_log; log_to_output()\n"
        "with progress_log.reported('publish', every=0.1): time.sleep(1)\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *lines, loaded = done.stdout.splitlines()
    assert re.fullmatch(r"publish has worked for \d+ s: no task is running at this moment", lines[0])
    assert loaded == "False"


def test_a_step_that_is_fast_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_log.reported("publish", every=5):
        pass
    assert capsys.readouterr().out == ""
