"""Airflow connections on their way to a step: in its environment alone, so that no rendered field shows them."""

from collections.abc import Iterable

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from txloom.config import connections_of, locate
from txloom.config.yaml.connections import variable


def environment(pipeline: str) -> dict[str, str]:
    """Return what a step's environment must hold: a variable for each connection that the declaration names.

    Only a running task asks. A connection that Airflow does not have is left out: the step names it, with file and line
    of the declaration. Airflow masks passwords in the task's log by itself; here all that an extra holds is masked too.
    """
    return held(connections_of(locate(pipeline)))


def held(names: Iterable[str]) -> dict[str, str]:
    """Return a variable for each of some connections that Airflow has; its secrets are masked in the log."""
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
