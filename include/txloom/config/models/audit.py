"""The declaration of an audit: which database the lake is compared with, and what may be asked of it."""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import ConnectionId, Count, Duration, Schedule, Share

SMALLEST_ROWS = 100
"""A table with fewer rows counts as one with so many, so that a few rows of a tiny table can be repaired."""


class Repair(Model):
    """What a repair (jobs/repair.py) may do to a table without a person who approves the number of rows."""

    max_share: Annotated[
        Share,
        Field(
            description="The largest share of a table's rows that a repair deletes or changes, such as 10%; "
            "a table of fewer than 100 rows counts as 100"
        ),
    ] = "10%"

    def limit(self, rows: int) -> int:
        """Return how many rows of a table with so many rows a repair may delete or change.

        >>> Repair().limit(200), Repair().limit(3), Repair(max_share="0%").limit(200)
        (20, 10, 0)
        """
        return int(Decimal(self.max_share.removesuffix("%")) * max(rows, SMALLEST_ROWS) / 100)


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
    repair: Annotated[Repair, Field(description="How much of a table a repair may delete or change")] = Repair()
