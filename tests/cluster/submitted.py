"""Jobs submitted as Airflow's workers do, to a cluster whose machines have nothing of this project."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from txloom.config import jvm
from txloom.config.project import PROJECT, class_path

SUBMIT = PROJECT / "include" / "bin" / "spark-submit-bound"
CYCLE = ("land_events", "buffer_transactions", "merge_current", "check_expectations", "publish")
SMALL = {"TXLOOM_LANDING_BYTES": "1", "TXLOOM_LOCAL_ROWS": "20", "TXLOOM_MERGE_BYTES": "2000"}
"""Limits by which nearly all work goes to the cluster, that a job would do by itself because it is little."""


@dataclass
class Jobs:
    """Submits jobs of a pipeline.

    Args:
        master: of the cluster.
        pipeline: the name, or the file of a declaration.
        warehouse: the URI of the lake.
        packages: the archive that executors get; without it they use this environment.
        environment: further variables.
    """

    master: str
    pipeline: str
    warehouse: str
    packages: Path | None
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, step: str, *arguments: object) -> subprocess.Popen[str]:
        """Start a job, in a run that is named as Airflow names them."""
        settings = {
            "spark.driver.extraJavaOptions": jvm.flags(step),
            "spark.executor.memory": "1g",
            "spark.ui.enabled": "false",
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [SUBMIT, "--master", self.master, *given, "--driver-class-path", class_path()]
        command += [PROJECT / "jobs" / f"{step}.py", "--pipeline", self.pipeline, "--warehouse", self.warehouse]
        run = ["--run-id", f"scheduled__{datetime.now(UTC).isoformat()}"]
        return subprocess.Popen(
            list(map(str, [*command, *run, *arguments])),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, step: str, *arguments: object) -> dict[str, str]:
        """Run a job to its end and return its counts, as its last line has them."""
        return ended(step, self.start(step, *arguments))

    def cycle(self, steps: Sequence[str] = CYCLE) -> dict[str, dict[str, str]]:
        """Run the steps of a cycle."""
        return {step: self.run(step) for step in steps}

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
        return {
            **kept,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT / "include"),
            **({"TXLOOM_EXECUTOR_PACKAGES": str(self.packages)} if self.packages else {}),
            **self.environment,
        }


def ended(step: str, process: subprocess.Popen[str]) -> dict[str, str]:
    """Wait for a job, and return the counts in its last line."""
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, f"{step} ended with {process.returncode}:\n{said[-4000:]}"
    (last,) = [line for line in said.splitlines() if line.startswith(f"txloom {step}: ")]
    return dict(re.findall(r"(\S+)=(\S+)", last))


def works(line: str) -> bool:
    """Say whether a line of a job's log tells that executors work for it."""
    return "tasks are done, " in line and " 0 run" not in line
