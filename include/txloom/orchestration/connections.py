"""Pass Airflow connections to a step in its environment only, so that no rendered field shows them."""

import os
import threading
from collections.abc import Iterable

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret
from cachetools import TTLCache

from txloom.config import connections_of, locate
from txloom.config.yaml.connections import LAKE, provide, variable

_KNOWN: TTLCache[str, bool] = TTLCache(1, 60)
_LOCK = threading.Lock()


def environment(pipeline: str) -> dict[str, str]:
    """Return environment variables for a step: one for each connection that the declaration names.

    Called by running tasks only. A connection that Airflow does not have is left out: the step raises an error that
    names it, with file and line of the declaration. Airflow masks passwords in the task's log itself; here every text
    of an extra is masked too.
    """
    return held([*connections_of(locate(pipeline)), *lake()])


def lake() -> list[str]:
    """Return the id of the connection that reaches the lake, in a list; [] where none is needed."""
    return [name] if (name := os.environ.get(LAKE)) else []


def reach_lake() -> None:
    """Let this process reach the lake; its environment stays as it is, because programs that it starts would get it.

    The connection is read anew once a minute, so that a changed password arrives in processes that live long.
    """
    with _LOCK:
        for name in lake():
            if name not in _KNOWN and (text := held([name]).get(variable(name))):
                provide(name, text)
                _KNOWN[name] = True


def held(names: Iterable[str]) -> dict[str, str]:
    """Return a variable for each of the named connections that Airflow has; their secrets are masked in the log."""
    environment: dict[str, str] = {}
    for name in names:
        try:
            connection: Connection = Connection.get(name)
        except AirflowNotFoundException:
            continue
        for secret in (connection.password, *connection.extra_dejson.values()):
            if isinstance(secret, str) and secret:
                mask_secret(secret)
        environment[variable(name)] = connection.as_json()
    return environment
