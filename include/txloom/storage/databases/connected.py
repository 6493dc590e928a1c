"""Which source an Airflow connection reaches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from txloom.storage.databases import mysql, postgresql
from txloom.storage.databases.audit_source import Limits, LiveSource

MYSQL = ("mysql", "mariadb")


@contextmanager
def connected(fields: Mapping[str, Any], limits: Limits) -> Iterator[LiveSource]:
    """Connect to the database of a connection: MySQL or MariaDB where its type says so, else PostgreSQL.

    Args:
        fields: of the connection.
        limits: what may be asked of the database.

    Raises:
        SourceUnavailable: it does not answer.
        ConfigurationError: it cannot be compared with.
    """
    opened = mysql.connected if fields.get("conn_type") in MYSQL else postgresql.connected
    with opened(fields, limits) as source:
        yield source
