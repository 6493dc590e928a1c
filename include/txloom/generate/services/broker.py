"""A Kafka broker: KRaft, one node, which is its own controller."""

import base64
import subprocess
import uuid
from pathlib import Path

from txloom.generate.services import java_programs
from txloom.generate.services.process import Service, ServiceFailed, listens, tied

# A broker that was killed is let in again when its last session has run out.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={topics}
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
log.cleaner.dedupe.buffer.size=4194304
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
"""


class Broker(Service):
    """A broker that keeps its address and topics over stop, kill and start; only this machine reaches it.

    Args:
        folder: of its topics and its log.
        kafka: the folder with Kafka's `libs`.
        port: of clients.
        controller: the port of its controller.
    """

    name = "broker"

    def __init__(self, folder: Path, kafka: Path, port: int, controller: int) -> None:
        """Start nothing yet."""
        super().__init__(folder)
        self.kafka, self.port, self.controller = kafka, port, controller
        self.settings = ""
        """More lines of its properties; of two lines for one setting the later one holds."""
        self._cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    @property
    def topics_folder(self) -> Path:
        """The folder that has one for each partition of each topic."""
        return self.folder / "topics"

    def start(self) -> None:
        """Start it, the first time after it has got its folder, and wait until it listens."""
        properties = self.folder / "server.properties"
        server_properties = PROPERTIES.format(port=self.port, controller=self.controller, topics=self.topics_folder)
        properties.write_text(server_properties + self.settings)
        if not (self.topics_folder / "meta.properties").exists():
            self.format(properties, self.log, "--standalone")
        self._launch(java_programs.command(self.kafka, "kafka.Kafka", properties))
        self._wait(lambda: listens(self.port), f"it listened on port {self.port}")

    def format(self, properties: Path, log: Path, *options: str) -> None:
        """Give the empty folder of a node the id of this cluster; `--standalone` for its first controller."""
        arguments = ("format", *options, f"--cluster-id={self._cluster}", "-c", properties)
        with log.open("ab") as log_file:
            format_folder = tied(java_programs.command(self.kafka, "kafka.tools.StorageTool", *arguments))
            ran = subprocess.run(format_folder, stdout=log_file, stderr=log_file, check=False)
        if ran.returncode:
            raise ServiceFailed(f"the broker's folder could not be formatted; the end of {log}:\n{self.tail()}")
