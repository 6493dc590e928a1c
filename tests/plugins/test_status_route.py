"""The plugin's route in a running API server: closed without a token, a pipeline's state with one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.airflow.api_server import ApiServer
from services.airflow.browsing import ask
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CUTS

PIPELINES = Path(__file__).resolve().parents[2] / "include" / "pipelines"
pytestmark = pytest.mark.random_order(disabled=True)
"""The tests are steps of one story."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("airflow"), PIPELINES, warehouse) as started:
        yield started


def status(server: ApiServer, dag_id: str, token: str | None = None) -> tuple[int, Any]:
    """Return status code and JSON of the route's answer."""
    answer = ask(server, f"/txloom/status/{dag_id}", token, "application/json")
    return answer.code, answer.content


def test_nobody_sees_a_pipeline_without_a_token(server: ApiServer) -> None:
    assert status(server, "orders_cdc")[0] == 401
    assert status(server, "orders_cdc", "no.such.token")[0] in (401, 403)


def test_a_pipeline_that_never_ran_has_no_cut_and_nothing_waiting(server: ApiServer) -> None:
    code, shown = status(server, "orders_cdc", server.token("admin"))
    assert (code, shown["cut"], shown["waiting"]["transactions"], shown["dead_letters"]) == (200, None, 0, [])


def test_a_published_cut_shows_at_once(server: ApiServer, warehouse: Path) -> None:
    paths = TablePaths(str(warehouse), "orders")
    cut = {"cut_id": 3, "valid_through": 77, "versions": [("orders", 5)], "gaps": [], "amends": []}
    small_tables.append(paths.table("cuts"), [cut], CUTS)
    shown = status(server, "orders_cdc", server.token("admin"))[1]
    assert (shown["cut"]["cut_id"], shown["cut"]["valid_through"], shown["cut"]["versions"]) == (3, 77, {"orders": 5})


def test_a_dag_that_is_no_pipeline_is_not_found(server: ApiServer) -> None:
    assert status(server, "nothing_cdc", server.token("admin"))[0] == 404
