"""Addresses of the page's parts and of Airflow's pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from txloom.config import names

PREFIX = "/txloom"
"""The path of the page below Airflow's address."""


@dataclass(frozen=True)
class Links:
    """Addresses below Airflow's address; root: empty, or the path of `[api] base_url`.

    >>> Links("/airflow").of("orders", "waiting", cause="a b", page=None)
    '/airflow/txloom/dags/orders_cdc/waiting?cause=a+b'
    """

    root: str = ""

    @property
    def home(self) -> str:
        """Return the overview's address."""
        return f"{self.root}{PREFIX}/"

    def of(self, pipeline: str, part: str = "", **query: Any) -> str:
        """Return the address of a pipeline's page, or of a part of it; parameters that are None are left out."""
        path = f"{self.home}dags/{quote(names.cdc_dag_id(pipeline), safe='')}"
        return with_query(f"{path}/{part}" if part else path, query)

    def key(self, pipeline: str, table: str, key: Mapping[str, Any]) -> str:
        """Return the address of a row's story."""
        return self.of(pipeline, "key", table=table, **{f"{KEY}{name}": value for name, value in key.items()})

    def data_docs(self, pipeline: str, run: str, page: str = "index.html") -> str:
        """Return the address of a page of Great Expectations; run: the name of the folder of the run's report.

        >>> Links().data_docs("orders", "scheduled__2026-11-20T03:00:00+00:00")
        '/txloom/dags/orders_cdc/data_docs/scheduled__2026-11-20T03%3A00%3A00%2B00%3A00/index.html'
        """
        return self.of(pipeline, f"data_docs/{quote(run, safe='')}/{quote(page, safe='')}")

    def airflow(self, path: str) -> str:
        """Return the address of one of Airflow's pages.

        >>> Links().airflow("dags/orders_cdc")
        '/dags/orders_cdc'
        """
        return f"{self.root}/{quote(path.lstrip('/'), safe='/?=&')}"

    def static(self, name: str, mark: str) -> str:
        """Return the address of a static file; mark: changes with the file's content, so that browsers may cache it."""
        return f"{self.home}static/{name}?v={mark}"


KEY = "key."
"""The prefix of the parameters that hold key columns: a key column may be called `table`."""


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Return an address with its query parameters; those that are None are left out."""
    given = {name: each for name, each in query.items() if each is not None}
    return f"{path}?{urlencode(given)}" if given else path
