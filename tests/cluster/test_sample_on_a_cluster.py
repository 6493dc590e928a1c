"""The sample on a cluster with a lake in another store, by jobs as Airflow submits them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.sample import OrdersLake
from cluster.submitted import SMALL, Jobs
from oracle import capture
from oracle.completeness import progress
from services.cluster.s3 import SECRET
from services.cluster.standalone import Cluster

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long, pytest.mark.random_order(disabled=True)]
ARRIVALS = (((1, 2, 3), SMALL), ((4, 5, 6), {}))
"""The arrivals of each cycle; most work of the first is done by the cluster, of the other by the jobs themselves."""


@pytest.fixture(scope="module", params=["s3", pytest.param("hdfs", marks=pytest.mark.machines)])
def lake(request: pytest.FixtureRequest, cluster: Cluster, packages: Path) -> Iterator[OrdersLake]:
    """Run the whole sample, a cycle for three arrivals."""
    store = request.getfixturevalue(request.param)
    root = store.bucket("sample") if request.param == "s3" else f"{store.uri}/sample"
    reached: dict[str, str] = store.environment() if request.param == "s3" else {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in reached.items():
            monkeypatch.setenv(name, value)
        made = OrdersLake(root)
        for arrivals, limits in ARRIVALS:
            for arrival in arrivals:
                made.deliver(capture.SAMPLE / "arrivals" / f"{arrival:02}")
            environment = {**reached, **limits, "TXLOOM_INBOX": made.inbox}
            made.history.append(Jobs(cluster.url, "orders", made.warehouse, packages, environment).cycle())
        yield made


def test_every_cut_is_a_state_of_the_source(lake: OrdersLake) -> None:
    lake.assert_cuts(len(ARRIVALS))


def test_valid_through_after_each_cycle_is_the_oracles(lake: OrdersLake) -> None:
    last = [arrivals[-1] for arrivals, _ in ARRIVALS]
    steps = enumerate(progress(capture.arrivals()), 1)
    expected = [str(step.valid_through) for number, step in steps if number in last]
    assert [run["merge_current"]["valid_through"] for run in lake.history] == expected


def test_no_secret_is_in_a_log_of_an_executor(lake: OrdersLake, cluster: Cluster) -> None:
    assert cluster.logs(), "no executor ran"
    assert not [log for log in cluster.logs() if SECRET in log.read_text()]
