"""A lake that is fed by a slot of a live PostgreSQL, and audited beside it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg2

from services.postgres import Postgres
from steps.audit.audited_lake import AuditedLake
from txloom.config import load

DATABASE = "audited"
"""The name of the database, and of its slot."""
NEW_SLOT = f"SELECT pg_create_logical_replication_slot('{DATABASE}', 'wal2json')"
SLOT = """
    SELECT data FROM pg_logical_slot_get_changes('audited', NULL, NULL, 'format-version', '2', 'include-xids', '1',
        'include-lsn', '1', 'include-timestamp', '1')
"""


class Shop(AuditedLake):
    """A lake that is fed by a slot of a live database."""

    def __init__(self, spark: Any, folder: Path, postgres: Postgres, declared: str) -> None:
        self.host, self.port = postgres.address.split(":")
        self.files = 0
        (folder / "inbox" / "shop").mkdir(parents=True)
        (folder / "shop.yaml").write_text(declared.format(inbox=folder / "inbox"))
        super().__init__(spark, folder, load(folder / "shop.yaml", connected=False))

    @property
    def airflow_connection(self) -> str:
        """The connection that the declaration names, as Airflow reads it from the environment."""
        about = {"conn_type": "postgres", "host": self.host, "port": int(self.port), "login": "postgres"}
        return json.dumps(about | {"schema": DATABASE})

    def connection(self, commit: str = "local") -> Any:
        """Open a connection; commit: whether a commit waits for the disk and a standby."""
        about = {"user": "postgres", "dbname": DATABASE, "options": f"-c synchronous_commit={commit}"}
        made = psycopg2.connect(host=self.host, port=self.port, **about)
        made.autocommit = True
        return made

    def sql(self, statement: str, commit: str = "local") -> list[tuple[Any, ...]]:
        with self.connection(commit).cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def deliver_changes(self) -> None:
        """Take what the slot has, and run a cycle.

        A file is written only where there is something: an empty one counts as unfinished, and holds back those behind
        it until it has not changed for `source.settle`.
        """
        if lines := [row[0] for row in self.sql(SLOT)]:
            self.files += 1
            file = self.folder / "inbox" / "shop" / f"{self.files:04}.jsonl"
            file.write_text("".join(f"{line}\n" for line in lines))
        self.run()

    def caught_up(self) -> None:
        """Let the source say something more, so that the lake shows all that came before."""
        self.sql("INSERT INTO visits VALUES ('heartbeat')")
        self.deliver_changes()

    def audit_live(self, wait: float = 120, **choice: Any) -> dict[str, Any]:
        """Audit while cycles run; wait: seconds within which rows that move have to come to rest."""
        with self.cycles():
            return self.audit(wait=timedelta(seconds=wait), **choice)

    def drop_slot(self) -> None:
        self.sql(f"SELECT pg_drop_replication_slot('{DATABASE}')")

    def differences(self, table: str) -> set[tuple[Any, ...]]:
        listed = self.results()[table]["differences"]
        return {(tuple(dict(d["key"]).values()), d["kind"], d["column"], d["lake"], d["source"]) for d in listed}
