"""A shop whose messages come through the topics of a real broker."""

from pathlib import Path
from typing import Any

from called import step_of
from services.broker import Broker
from shop import Shop
from txloom.config import load
from txloom.steps.landing.accept_loss import accept_loss
from txloom.steps.landing.land_events import land_events

TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
targets: {mirrors: ["*"]}
"""


class Topics(Shop):
    """A shop whose messages come through two topics of a broker, named for the test."""

    def __init__(self, spark: Any, folder: Path, broker: Broker, partitions: int = 1, of_metadata: int = 1) -> None:
        self.broker = broker
        self.rows_topic, self.metadata_topic = f"{folder.name}.rows", f"{folder.name}.metadata"
        broker.create_topic(self.rows_topic, partitions)
        broker.create_topic(self.metadata_topic, of_metadata)
        super().__init__(spark, folder, TABLES, patience="2h")

    def declared(self, folder: Path, tables: str) -> Any:
        file = folder / "shop.yaml"
        kafka = f"{{brokers: '{self.broker.address}', topics: [{self.rows_topic}]}}"
        source = f"{{format: goldengate, kafka: {kafka}, transaction_topic: {self.metadata_topic}}}"
        file.write_text(f"name: shop\nsource: {source}\ncompleteness: {{rule: counts, patience: 2h}}\n{tables}")
        return load(file)

    def send(self, *messages: str) -> None:
        for topic, key in ((self.rows_topic, '"op_type"'), (self.metadata_topic, '"data_collections"')):
            self.broker.produce(topic, [(None, message) for message in messages if key in message])

    def accept(self, *topics: str) -> dict[str, Any]:
        return accept_loss(step_of(self.pipeline, self.warehouse, "accepted"), topics=topics, reason="CHG-7")

    def land(self, run_id: str = "landed") -> dict[str, int]:
        """Land what is new, in this process."""
        return land_events(step_of(self.pipeline, self.warehouse, run_id, no_session))


def no_session() -> Any:
    raise AssertionError("so little needs no Spark")
