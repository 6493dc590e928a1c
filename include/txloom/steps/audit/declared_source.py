"""Open the database that a pipeline declares for its audits."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import Unfit
from txloom.config.yaml.connections import fields
from txloom.errors import ConfigurationError
from txloom.storage.databases.audit_source import Limits, LiveSource
from txloom.storage.databases.connected import connected


@contextmanager
def declared_source(pipeline: Pipeline) -> Iterator[LiveSource]:
    """Connect to the database of `audit.connection`, within the limits that the declaration sets.

    Raises:
        ConfigurationError: no database is declared, its connection is not there, or it cannot be compared with.
        SourceUnavailable: it does not answer.
    """
    declared = pipeline.audit
    if declared is None or declared.connection is None:
        raise ConfigurationError(
            f"{pipeline.name} declares no database to compare with: add `audit: {{connection: ...}}`, or say "
            "--snapshot FOLDER"
        )
    try:
        connection = fields(declared.connection, os.environ)
    except Unfit as problem:
        raise ConfigurationError(f"audit.connection: {problem}") from None
    limits = Limits(declared.rows_per_second, declared.statement_timeout.total_seconds())
    with connected(connection, limits) as source:
        yield source
