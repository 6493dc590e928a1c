"""Addresses of the page's own parts and of Airflow's pages beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from txloom.config import names

PREFIX = "/txloom"
"""Where the page lies below Airflow's own address."""


@dataclass(frozen=True)
class Links:
    """Addresses as they are behind Airflow's own: root is empty, or the path that `[api] base_url` has.

    >>> Links("/airflow").of("orders", "waiting", cause="a b", page=None)
    '/airflow/txloom/dags/orders_cdc/waiting?cause=a+b'
    """

    root: str = ""

    @property
    def home(self) -> str:
        """Return the overview's address."""
        return f"{self.root}{PREFIX}/"

    def of(self, pipeline: str, part: str = "", **query: Any) -> str:
        """Return the address of a pipeline's page, or of a part of it; what is None is left out."""
        path = f"{self.home}dags/{quote(names.cdc_dag_id(pipeline), safe='')}"
        return with_query(f"{path}/{part}" if part else path, query)

    def key(self, pipeline: str, table: str, key: Mapping[str, Any]) -> str:
        """Return the address of a row's story."""
        return self.of(pipeline, "key", table=table, **{f"{KEY}{name}": value for name, value in key.items()})

    def data_docs(self, pipeline: str, run: str, page: str = "index.html") -> str:
        """Return the address of one of Great Expectations' pages of a run; run: the name of its folder.

        >>> Links().data_docs("orders", "scheduled__2026-11-20T03:00:00+00:00")
        '/txloom/dags/orders_cdc/data_docs/scheduled__2026-11-20T03%3A00%3A00%2B00%3A00/index.html'
        """
        return self.of(pipeline, f"data_docs/{quote(run, safe='')}/{quote(page, safe='')}")

    def airflow(self, path: str) -> str:
        """Return the address of one of Airflow's own pages.

        >>> Links().airflow("dags/orders_cdc")
        '/dags/orders_cdc'
        """
        return f"{self.root}/{quote(path.lstrip('/'), safe='/?=&')}"

    def static(self, name: str, mark: str) -> str:
        """Return the address of a file of the page; mark: changes when it does."""
        return f"{self.home}static/{name}?v={mark}"


KEY = "key."
"""What begins the names of a request's columns of a key: a column may be called `table`."""


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Return an address with what is asked for."""
    given = {name: each for name, each in query.items() if each is not None}
    return f"{path}?{urlencode(given)}" if given else path
