"""A worker that dies while its executor works on the buffer, or on a merge, costs a retry of tasks and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.sample import OrdersLake
from cluster.submitted import CYCLE, SMALL, Jobs, ended, works
from oracle import capture
from services.cluster.s3 import S3
from services.cluster.standalone import Cluster

pytestmark = [pytest.mark.timeout(1800), pytest.mark.machines, pytest.mark.random_order(disabled=True)]


@pytest.fixture
def lake(s3: S3, monkeypatch: pytest.MonkeyPatch) -> OrdersLake:
    s3.reach(monkeypatch)
    return OrdersLake(s3.bucket("lost"))


@pytest.fixture
def jobs(lake: OrdersLake, s3: S3, cluster: Cluster, packages: Path) -> Jobs:
    environment = {**s3.environment(), **SMALL, "TXLOOM_INBOX": lake.inbox, "TXLOOM_PROGRESS_SECONDS": "0.2"}
    return Jobs(cluster.url, "orders", lake.warehouse, packages, environment)


def working(lines: Iterator[str]) -> None:
    """Read what a job says until tasks of it run."""
    said = list[str]()
    for line in lines:
        said.append(line)
        if works(line):
            return
    raise AssertionError(f"the job ended before any task ran: {said[-20:]}")


def test_a_worker_dies_in_the_middle_of_a_buffer_and_another_of_a_merge(
    lake: OrdersLake, jobs: Jobs, cluster: Cluster
) -> None:
    for arrival in range(1, 7):
        lake.deliver(capture.SAMPLE / "arrivals" / f"{arrival:02}")
    jobs.run("land_events")
    for step, worker in (("buffer_transactions", cluster.workers[1]), ("merge_current", cluster.workers[0])):
        by_spark = {"TXLOOM_LOCAL_ROWS": "-1"} if step == "merge_current" else {}
        job = replace(jobs, environment={**jobs.environment, **by_spark}).start(step)
        assert job.stdout is not None
        working(iter(job.stdout))
        worker.die()
        ended(step, job)
        worker.start()
    for step in CYCLE[3:]:
        jobs.run(step)
    lake.assert_cuts(1)
