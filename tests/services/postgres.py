"""A PostgreSQL server whose changes can be decoded, and its databases."""

from pathlib import Path
from typing import ClassVar

from services import fetched
from services.process import Service, free_port
from txloom.generate.services import postgres


class Postgres(Service, postgres.Postgres):
    """A server that keeps its address and databases over stop, kill and start; everyone on this machine may come in."""

    settings: ClassVar = {**postgres.SETTINGS, "fsync": "off"}

    def __init__(self, folder: Path) -> None:
        postgres.Postgres.__init__(self, folder, fetched.postgres(), free_port())

    def fresh_database(self, name: str, schema: Path | str) -> None:
        """Make a database from a schema file (or its text); one of that name goes first, with its replication slots."""
        slots = f"pg_replication_slots WHERE database = '{name}'"
        self.psql(f"""
            SELECT pg_terminate_backend(active_pid, 10000) FROM {slots} AND active;
            SELECT pg_drop_replication_slot(slot_name) FROM {slots};
            DROP DATABASE IF EXISTS "{name}" WITH (FORCE);
            CREATE DATABASE "{name}";
        """)
        self.psql(schema.read_text() if isinstance(schema, Path) else schema, name)
