"""Kafka Connect in one process, with one of Debezium's connectors in it."""

from pathlib import Path

from services import fetched
from services.broker import Broker
from services.mariadb import Mariadb
from services.postgres import Postgres
from services.process import Service, free_port, wait_until
from txloom.generate.services import connect
from txloom.generate.services.connect import DEBEZIUM, STREAMING


class Connect(Service, connect.Connect):
    """A worker that streams one database into the broker's topics."""

    def __init__(self, folder: Path, broker: Broker, postgres: Postgres, database: str = "shop") -> None:
        connect.Connect.__init__(self, folder, fetched.kafka(), free_port(), broker.address)
        self.broker, self.postgres, self.database = broker, postgres, database

    @property
    def slot(self) -> str:
        return self.connector.get("slot.name", f"debezium_{self.database}")

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

    def _connector(self) -> dict[str, str]:
        source = {
            "database.hostname": self.postgres.host,
            "database.port": str(self.postgres.port),
            "database.user": self.postgres.user,
            "database.password": "",
            "database.dbname": self.database,
            "slot.name": self.slot,
        }
        return super()._connector() | source | self.connector

    def _reads_log(self) -> bool:
        return self.postgres.psql(STREAMING.format(slot=self.slot)) == "1"


class MysqlConnect(Connect):
    """A worker that streams one database of a MariaDB or MySQL server."""

    def __init__(self, folder: Path, broker: Broker, server: Mariadb, database: str = "shop") -> None:
        connect.Connect.__init__(self, folder, fetched.kafka(), free_port(), broker.address)
        self.broker, self.server, self.database = broker, server, database

    def forget(self) -> None:
        """Kill the worker and take away its topics, and its place in the stream."""
        self._forget_topics()
        (self.folder / "schema_history").unlink(missing_ok=True)

    def _connector(self) -> dict[str, str]:
        source = {
            "connector.class": self.server.connector,
            # The server is that of all tests of a process: the connector is not to read what others made there.
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": "",
            "database.server.id": "7",
            "database.include.list": self.database,
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "schema_history"),
        }
        return DEBEZIUM | source | self.connector

    def _reads_log(self) -> bool:
        rows = self.server.sql("SHOW PROCESSLIST")
        return any(row[4].startswith("Binlog Dump") for row in rows)
