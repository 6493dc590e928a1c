"""The declaration of maintenance: how tables are kept in shape, and how long their contents are kept."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from txloom.config.models.base import Model
from txloom.config.models.fields import Count, Cron, Retention


class Optimize(Model):
    """When small files are merged into larger ones."""

    small_file_bytes: Annotated[Count, Field(description="The size below which a file counts as small")] = (
        32 * 1024 * 1024
    )
    min_small_files: Annotated[
        Count, Field(description="The number of small files from which a table is optimized")
    ] = 8


class History(Model):
    """When rows of history are taken away that later ones supersede."""

    keep: Annotated[
        Retention | None,
        Field(description="How far back mirrors reproduce every state, such as 400d; by default for ever"),
    ] = None


class Vacuum(Model):
    """When files that no version needs any more are deleted."""

    retain: Annotated[
        Retention, Field(description="How long old versions, and the cuts that need them, stay readable")
    ] = timedelta(days=7)


class ChangeEvents(Model):
    """When events that were released forget what they said."""

    keep: Annotated[
        Retention | None,
        Field(
            description="How long the messages of released events are kept after their landing, such as 90d; that they "
            "came is never forgotten; by default for ever"
        ),
    ] = None


class Reports(Model):
    """When the accounts of single runs are taken away."""

    keep: Annotated[
        Retention,
        Field(
            description="How long the ledger, results and reports of checks, statistics, backfills, incidents are kept"
        ),
    ] = timedelta(days=400)


class Maintenance(Model):
    """How the tables are kept in shape."""

    schedule: Annotated[Cron | None, Field(description="When maintenance runs, as cron; nothing: by hand")] = None
    change_events: Annotated[ChangeEvents, Field(description="How long landed messages are kept")] = ChangeEvents()
    history: Annotated[History, Field(description="How far back history reproduces every state")] = History()
    reports: Annotated[Reports, Field(description="How long the accounts of single runs are kept")] = Reports()
    optimize: Annotated[Optimize, Field(description="When small files are merged")] = Optimize()
    vacuum: Annotated[Vacuum, Field(description="When old files are deleted")] = Vacuum()
