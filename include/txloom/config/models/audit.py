"""The declaration of an audit: which database the lake is compared with, and what may be asked of it."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import ConnectionId, Count, Duration, Schedule


class Audit(Model):
    """How the lake is compared with the live source (jobs/audit.py): PostgreSQL 14 or newer, MySQL 8, MariaDB 10.5.

    Without a connection (`audit: {}`) only with a snapshot folder, which each run names.
    """

    connection: Annotated[
        ConnectionId | None,
        Field(
            description="The Airflow connection of the database, type postgres or mysql; a user that may read suffices"
        ),
    ] = None
    schedule: Annotated[
        Schedule | None,
        Field(description="When it runs, as cron, such as 0 4 * * 0; nothing: by hand; needs a connection"),
    ] = None
    rows_per_second: Annotated[
        Count, Field(description="The most rows that it reads in a second, on average, such as 100000")
    ] = 200_000
    statement_timeout: Annotated[
        Duration, Field(description="How long one statement may take in the database, such as 5m")
    ] = timedelta(minutes=5)
    wait: Annotated[
        Duration,
        Field(description="How long it waits until the lake shows the moment of the database's snapshot, such as 15m"),
    ] = timedelta(minutes=15)
