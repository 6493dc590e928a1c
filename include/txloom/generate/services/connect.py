"""Kafka Connect in one process, with one of Debezium's connectors in it."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txloom.generate.services import java_programs
from txloom.generate.services.process import Service, ServiceFailed

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
    """A worker that streams one database into a broker's topics; only this machine reaches it.

    Its place in the stream outlives it once that is written down. Killed before, it begins with a snapshot again, and
    the transaction that it was in never gets its END.

    Args:
        folder: of its settings, its place in the stream and its log.
        kafka: the folder with Kafka's `libs`, and the connectors in `plugins`.
        port: of its REST interface.
        brokers: the broker's address.
    """

    name = "connect"

    def __init__(self, folder: Path, kafka: Path, port: int, brokers: str) -> None:
        """Start nothing yet."""
        super().__init__(folder)
        self.kafka, self.port, self.brokers = kafka, port, brokers
        self.connector: dict[str, str] = {}
        self.worker: dict[str, str] = {}

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
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._worker().items()))
        declared = self.folder / "connector.json"
        declared.write_text(json.dumps({"name": CONNECTOR, "config": self._connector()}, indent=2))
        self._launch(
            java_programs.command(self.kafka, "org.apache.kafka.connect.cli.ConnectStandalone", settings, declared)
        )
        self._wait(self._streams, "it streamed", within=150)

    def status(self) -> dict[str, Any]:
        """Return what the worker's REST interface says of the connector and its task."""
        with urllib.request.urlopen(connector_url(self.port, "status"), timeout=10) as answer:
            said: dict[str, Any] = json.load(answer)
        return said

    def _worker(self) -> dict[str, str]:
        places = {
            "bootstrap.servers": self.brokers,
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.path": str(self.kafka / "plugins"),
            "offset.storage.file.filename": str(self.folder / "offsets"),
        }
        return WORKER | places | self.worker

    def _connector(self) -> dict[str, str]:
        return DEBEZIUM | POSTGRESQL | self.connector

    def _streams(self) -> bool:
        """Tell whether the task runs and reads the log: a task runs before that, while it takes its snapshot."""
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
        """Tell whether the connector follows the database's log."""
        raise NotImplementedError


def connector_url(port: int, path: str) -> str:
    """Return the address of a part of the connector in a worker's REST interface.

    >>> connector_url(8083, "status")
    'http://127.0.0.1:8083/connectors/debezium/status'
    """
    return f"http://127.0.0.1:{port}/connectors/{CONNECTOR}/{path}"
