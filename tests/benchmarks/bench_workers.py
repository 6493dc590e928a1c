"""Measure a cycle's first steps on clusters of 1, 2 and 4 workers with one core each.

    PYTHONPATH=tests python tests/benchmarks/bench_workers.py [--transactions 100000] [--workers 1,2,4]

Each is a standalone cluster of Spark of its own, whose executors use this environment's Python; the jobs are submitted
to it as Airflow does. Prints each job's seconds, its start and its JVM among them. More workers than this machine has
cores share them.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import HERE, made
from benchmarks.parts.buffer import _generate
from cluster.submitted import Jobs
from services.cluster.standalone import Cluster

STEPS = ("land_events", "buffer_transactions")


def main() -> int:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--transactions", type=int, default=100_000)
    flags.add_argument("--workers", default="1,2,4")
    given = flags.parse_args()
    data = made(f"buffer/{given.transactions}", lambda folder: _generate(folder, given.transactions))
    declared = (HERE / "data" / "transactions.yaml").read_text().replace("INBOX", str(data / "data"))
    for workers in map(int, given.workers.split(",")):
        with tempfile.TemporaryDirectory(prefix="txloom-workers-") as folder:
            file = Path(folder) / "bench.yaml"
            file.write_text(declared)
            with Cluster(Path(folder) / "cluster", workers=workers) as cluster:
                jobs = Jobs(cluster.url, str(file), f"{folder}/lake", None, {"TXLOOM_LANDING_BYTES": "1"})
                taken = {step: seconds(jobs, step) for step in STEPS}
        print(f"{workers} workers: {', '.join(f'{step} {value:.0f} s' for step, value in taken.items())}", flush=True)
    return 0


def seconds(jobs: Jobs, step: str) -> float:
    """Run a job and return how long it took."""
    begun = time.perf_counter()
    jobs.run(step)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
