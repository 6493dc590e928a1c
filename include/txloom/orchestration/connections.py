"""Pass Airflow connections to a step in its environment only, so that no rendered field shows them."""

from collections.abc import Iterable

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from txloom.config import connections_of, locate
from txloom.config.yaml.connections import variable


def environment(pipeline: str) -> dict[str, str]:
    """Return environment variables for a step: one for each connection that the declaration names.

    Called by running tasks only. A connection that Airflow does not have is left out: the step raises an error that
    names it, with file and line of the declaration. Airflow masks passwords in the task's log itself; here every text
    of an extra is masked too.
    """
    return held(connections_of(locate(pipeline)))


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
