"""Which jobs start a JVM: the ones that always need it, and everything where the master is another machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.process import wait_until

PROJECT = Path(__file__).resolve().parents[2]
SUBMIT = PROJECT / "include" / "bin" / "spark-submit-bound"
NO_SUCH_FILE = 127


def submitted(job: str, master: str, warehouse: Path) -> subprocess.CompletedProcess[str]:
    """Submit a job on a machine that has no spark-submit."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT / "include"),
        "TXLOOM_INBOX": str(warehouse),
    }
    arguments = ["--conf", "spark.ui.enabled=false", "--name", "txloom orders", str(PROJECT / "jobs" / f"{job}.py")]
    arguments += ["--pipeline", "orders", "--warehouse", str(warehouse), "--run-id", "a run"]
    command = [str(SUBMIT), "--master", master, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("job", ["publish", "merge_current"])
def test_a_job_that_seldom_needs_spark_runs_without_it_on_this_machine(job: str, tmp_path: Path) -> None:
    done = submitted(job, "local[*]", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1][: len(job) + 8]) == (0, f"txloom {job}:"), done.stderr
    assert "run_id=a run " in done.stdout


@pytest.mark.parametrize(("given", "known"), [("", "local[3]"), ("local[1]", "local[1]")])
def test_such_a_job_knows_its_master(given: str, known: str, tmp_path: Path) -> None:
    """It may use so many cores; what the environment says goes before what the connection does."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "master $TXLOOM_SPARK_MASTER"\n')
    python.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": str(python), "TXLOOM_SPARK_MASTER": given}
    command = [str(SUBMIT), "--master", "local[3]", str(PROJECT / "jobs" / "publish.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"master {known}\n"


def test_a_job_that_needs_no_spark_starts_none_on_a_cluster_either(tmp_path: Path) -> None:
    done = submitted("publish", "spark://far:7077", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1][:15]) == (0, "txloom publish:"), done.stderr


def test_the_jvm_of_a_job_on_a_cluster_gets_what_spark_submit_was_given(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\necho "$PYSPARK_SUBMIT_ARGS"\n')
    python.chmod(0o755)
    given = ["--master", "spark://far:7077", "--conf", "spark.a=b c", str(PROJECT / "jobs" / "buffer_transactions.py")]
    environment = {"PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [str(SUBMIT), *given], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "--master spark://far:7077 --conf 'spark.a=b c' pyspark-shell\n"


@pytest.mark.parametrize("given", [["--master", "local[*]"], ["--master", "k8s://far", "--deploy-mode", "cluster"]])
def test_everything_else_is_submitted_to_spark(given: list[str], tmp_path: Path) -> None:
    job = str(PROJECT / "jobs" / "buffer_transactions.py")
    environment = {"PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [str(SUBMIT), *given, job], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "spark-submit" in done.stderr) == (NO_SUCH_FILE, True), done.stderr


OPENS = """
import time
from txloom.storage.spark.session import open_session
print(open_session("killed", "merge_current").sparkContext._gateway.proc.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_the_jvm_of_a_job_that_opened_one_ends_with_the_job(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    log = (tmp_path / "log").open("w")
    job = subprocess.Popen(
        [sys.executable, "-c", OPENS], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert job.stdout is not None
    jvm = int(job.stdout.readline())
    assert Path(f"/proc/{jvm}").exists()
    job.send_signal(signal.SIGKILL)
    job.wait()
    wait_until(lambda: not Path(f"/proc/{jvm}").exists(), "the JVM to end", 20)
    job.stdout.close()
    log.close()
