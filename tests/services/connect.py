"""Kafka Connect in one process, with one of Debezium's connectors in it."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services import fetched, jvm
from services.broker import Broker
from services.mariadb import Mariadb
from services.postgres import Postgres
from services.process import Service, ServiceFailed, free_port, wait_until

CONNECTOR = "debezium"
WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "plugin.discovery": "service_load",
    "topic.creation.enable": "true",
    "offset.flush.interval.ms": "1000",
}
DEBEZIUM = {
    "tasks.max": "1",
    "topic.prefix": "dev",
    "provide.transaction.metadata": "true",
    "decimal.handling.mode": "string",
    "tombstones.on.delete": "true",
    "skipped.operations": "none",
    "extended.headers.enabled": "true",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "1",
}
POSTGRESQL = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "slot.retry.delay.ms": "1000",
}
STREAMING = """
    SELECT count(*) FROM pg_stat_replication sender JOIN pg_replication_slots slot ON slot.active_pid = sender.pid
    WHERE slot.slot_name = '{slot}' AND sender.state IN ('catchup', 'streaming')
"""


class Connect(Service):
    """A worker that streams one database into the broker's topics.

    Its place in the stream outlives it once that is written down. Killed before, it begins with a snapshot again, and
    the transaction that it was in never gets its END.
    """

    name = "connect"

    def __init__(self, folder: Path, broker: Broker, postgres: Postgres, database: str = "shop") -> None:
        super().__init__(folder)
        self.broker = broker
        self.postgres = postgres
        self.database = database
        self.port = free_port()
        self.connector: dict[str, str] = {}
        self.worker: dict[str, str] = {}

    @property
    def slot(self) -> str:
        return self.connector.get("slot.name", f"debezium_{self.database}")

    @property
    def place(self) -> bytes:
        """What is written down of the place in the stream, empty at first."""
        offsets = self.folder / "offsets"
        return offsets.read_bytes() if offsets.exists() else b""

    def start(self, connector: Mapping[str, str] | None = None, worker: Mapping[str, str] | None = None) -> None:
        """Start the worker and wait until it streams; what is given goes over the settings, and stays for restarts."""
        self.connector |= connector or {}
        self.worker |= worker or {}
        settings = self.folder / "worker.properties"
        settings.write_text(
            "".join(f"{key}={value}\n" for key, value in self._worker(fetched.kafka() / "plugins").items())
        )
        declared = self.folder / "connector.json"
        declared.write_text(json.dumps({"name": CONNECTOR, "config": self._connector()}, indent=2))
        self._launch(jvm.command("org.apache.kafka.connect.cli.ConnectStandalone", settings, declared))
        self._wait(self._streams, "it streamed", within=150)

    def restart(self) -> None:
        """Kill the worker and start it as it was."""
        self.kill()
        self.start()

    def forget(self) -> None:
        """Kill the worker and take away its topics, its slot and its place in the stream."""
        self._forget_topics()
        slots = f"pg_replication_slots WHERE slot_name = '{self.slot}'"
        wait_until(lambda: self.postgres.psql(f"SELECT count(*) FROM {slots} AND active") == "0", "the slot to be free")
        self.postgres.psql(f"SELECT pg_drop_replication_slot(slot_name) FROM {slots}")

    def _forget_topics(self) -> None:
        self.kill()
        prefix = self._connector()["topic.prefix"]
        for topic in self.broker.topics():
            if topic == prefix or topic.startswith((f"{prefix}.", f"__debezium-heartbeat.{prefix}")):
                self.broker.delete_topic(topic)
        (self.folder / "offsets").unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """Return what the worker's REST interface says of the connector and its task."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/connectors/{CONNECTOR}/status", timeout=10
        ) as answer:
            said: dict[str, Any] = json.load(answer)
        return said

    def _worker(self, plugins: Path) -> dict[str, str]:
        places = {
            "bootstrap.servers": self.broker.address,
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.path": str(plugins),
            "offset.storage.file.filename": str(self.folder / "offsets"),
        }
        return WORKER | places | self.worker

    def _connector(self) -> dict[str, str]:
        source = {
            "database.hostname": self.postgres.host,
            "database.port": str(self.postgres.port),
            "database.user": self.postgres.user,
            "database.password": "",
            "database.dbname": self.database,
            "slot.name": self.slot,
        }
        return DEBEZIUM | POSTGRESQL | source | self.connector

    def _streams(self) -> bool:
        """Tell whether the task runs and reads the slot: a task runs before that, while it takes its snapshot."""
        try:
            states = self.status()
        except (OSError, urllib.error.HTTPError):
            return False
        for part in (states["connector"], *states["tasks"]):
            if part["state"] == "FAILED":
                raise ServiceFailed(f"the connector failed: {part['trace']}")
        running = bool(states["tasks"]) and all(task["state"] == "RUNNING" for task in states["tasks"])
        return running and self._reads_log()

    def _reads_log(self) -> bool:
        return self.postgres.psql(STREAMING.format(slot=self.slot)) == "1"


class MariadbConnect(Connect):
    """A worker that streams one database of a MariaDB server."""

    def __init__(self, folder: Path, broker: Broker, mariadb: Mariadb, database: str = "shop") -> None:
        Service.__init__(self, folder)
        self.broker, self.mariadb, self.database, self.port = broker, mariadb, database, free_port()
        self.connector: dict[str, str] = {}
        self.worker: dict[str, str] = {}

    def forget(self) -> None:
        """Kill the worker and take away its topics, and its place in the stream."""
        self._forget_topics()
        (self.folder / "schema_history").unlink(missing_ok=True)

    def _connector(self) -> dict[str, str]:
        source = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            # The server is that of all tests of a process: the connector is not to read what others made there.
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "database.hostname": self.mariadb.host,
            "database.port": str(self.mariadb.port),
            "database.user": self.mariadb.user,
            "database.password": "",
            "database.server.id": "7",
            "database.include.list": self.database,
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "schema_history"),
        }
        return DEBEZIUM | source | self.connector

    def _reads_log(self) -> bool:
        rows = self.mariadb.sql("SHOW PROCESSLIST")
        return any(row[4] == "Binlog Dump" for row in rows)
