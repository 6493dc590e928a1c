"""The page's tests share a server over pipelines that fare in every way; each module has a browser of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from services.absent import give_up_for
from services.airflow.api_server import ApiServer
from services.airflow.browsing import Visitor, browser, visiting
from services.airflow.showcase import showcase
from services.fetched import NotHere

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def site(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("site")
    pipelines, warehouse = showcase(spark, folder)
    (pipelines / "broken.yaml").write_text("name: broken\ntables: none\n")
    fewer = {"TEST_READS_ONLY": "guest=orders_cdc,orders_maintenance,private_maintenance;nobody="}
    with ApiServer(folder / "airflow", pipelines, warehouse, fewer) as server:
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        with browser() as started:
            yield started
    except NotHere as reason:
        give_up_for(reason)


@pytest.fixture
def visit(chromium: Any, site: ApiServer) -> Iterator[Visit]:
    with ExitStack() as windows:

        def one(person: str | None = "admin", *, dark: bool = False) -> Visitor:
            return windows.enter_context(visiting(chromium, site, person, dark=dark))

        yield one
