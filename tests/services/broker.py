"""A Kafka broker (KRaft, one node) and what a test does to its topics."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from services import jvm
from services.fetched import kafka
from services.process import Service, ServiceFailed, free_port, wait_until
from txloom.generate.services import broker

PATIENCE = 30
"""Seconds that a request may take, on a machine that is busy."""
AT_ONCE = 10_000
"""Messages that are under way together; a producer's queue has a limit."""
LEADER_MOVES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH)
"""Errors of a broker that has only just started, after which a client asks again."""


class Message(NamedTuple):
    """What a producer sends; without partition its key chooses one."""

    key: str | bytes | None
    value: str | bytes | None
    headers: Mapping[str, str | bytes | None] | None = None
    partition: int | None = None


class Record(NamedTuple):
    """What a consumer gets; timestamp is milliseconds since the epoch."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Broker(Service, broker.Broker):
    """A broker that keeps its address and topics over stop, kill and start; topics come only by `create_topic`."""

    def __init__(self, folder: Path) -> None:
        broker.Broker.__init__(self, folder, kafka(), free_port(), free_port())

    def start(self) -> None:
        super().start()
        self._wait(self._serves, "it served metadata")

    def create_topic(self, name: str, partitions: int = 1, node: int | None = None, **config: object) -> str:
        """Make a topic whose partitions can be written at once, and return its id; retention_ms=1 is retention.ms.

        node: the one broker that keeps it.
        """
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        where: dict[str, Any] = (
            {"replication_factor": 1} if node is None else {"replica_assignment": [[node]] * partitions}
        )
        self._ask(lambda admin: admin.create_topics([NewTopic(name, partitions, config=settings, **where)]))
        self._wait_for_leaders(name, partitions)
        return self.topic_id(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self._ask(lambda admin: admin.delete_topics([name]))
        wait_until(lambda: name not in self.topics(), f"topic {name} to be gone", PATIENCE)

    def topics(self) -> list[str]:
        """List the topics that are there."""
        return sorted(self._admin.list_topics(timeout=PATIENCE).topics)

    def nodes(self) -> list[int]:
        """List the brokers that the cluster has now."""
        return sorted(self._admin.list_topics(timeout=PATIENCE).brokers)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker that leads a partition, or None while none does."""
        leader = int(self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions[partition].leader)
        return None if leader < 0 else leader

    def topic_id(self, name: str) -> str:
        """Return the id that a topic has from its creation to its deletion."""
        described = self._ask(lambda admin: admin.describe_topics(TopicCollection([name])))
        return str(described[name].topic_id)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions from now on."""
        self._ask(lambda admin: admin.create_partitions([NewPartitions(name, total)]))
        self._wait_for_leaders(name, total)

    def produce(self, topic: str, messages: Iterable[Message | Sequence[Any]]) -> list[tuple[int, int]]:
        """Write messages, or tuples like them, and return the partition and offset of each."""
        landed: dict[int, tuple[int, int]] = {}
        failed: list[KafkaError] = []
        producer = Producer(self._client(acks="all", **{"delivery.timeout.ms": PATIENCE * 1000}))

        def report(number: int, error: KafkaError | None, written: Any) -> None:
            if error:
                failed.append(error)
            else:
                landed[number] = (written.partition(), written.offset())

        for number, given in enumerate(messages):
            message = Message(*given)
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list((message.headers or {}).items()),
                partition=-1 if message.partition is None else message.partition,
                on_delivery=lambda error, written, number=number: report(number, error, written),
            )
            if number % AT_ONCE == 0:
                producer.flush()
        producer.flush()
        if failed:
            raise ServiceFailed(f"{len(failed)} messages were not written to {topic}: {failed[0]}")
        return [landed[number] for number in sorted(landed)]

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Let the records of a partition below an offset be gone, as retention does."""
        self._ask(lambda admin: admin.delete_records([TopicPartition(topic, partition, before_offset)]))

    def offsets(self, topic: str) -> list[tuple[int, int]]:
        """Return the first offset that is there and the next one to be written, of each partition (none: no topic)."""
        partitions = self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        ends = (self._offsets(topic, len(partitions), end) for end in (OffsetSpec.earliest(), OffsetSpec.latest()))
        return list(zip(*ends, strict=True))

    def read(self, topic: str, *, committed: bool = True) -> list[Record]:
        """Return all that a topic holds now, partition by partition; a topic that is not there holds nothing.

        committed: without what open and aborted transactions wrote.
        """
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {"isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        settings |= {"group.id": "tests", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
        with closing(Consumer(self._client(**settings))) as consumer:
            # Asked to begin at the beginning, it waits half a second before it asks where that is.
            starts = [
                TopicPartition(topic, partition, first) for partition, (first, _) in enumerate(self.offsets(topic))
            ]
            consumer.assign(starts)
            unread, until = {start.partition for start in starts}, time.monotonic() + PATIENCE
            records: list[Record] = []
            while unread:
                message = consumer.poll(PATIENCE)
                if message is None:
                    raise ServiceFailed(f"nothing came from {topic} within {PATIENCE} s")
                if (error := message.error()) is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif error.code() not in LEADER_MOVES or time.monotonic() > until:
                    raise KafkaException(error)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def join(self, folder: Path) -> "Member":
        """Return another broker of this one's cluster, not started yet."""
        return Member(folder, self)

    def _serves(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _client(self, **settings: object) -> dict[str, Any]:
        quick = {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
        return {"bootstrap.servers": self.address, "log_level": 0, **quick, **settings}

    @functools.cached_property
    def _admin(self) -> AdminClient:
        """One client for all requests: a new one may need seconds until it has found the broker."""
        return AdminClient(self._client())

    def _ask(self, request: Callable[[AdminClient], Mapping[Any, Any]]) -> dict[Any, Any]:
        """Send a request and wait for every part of its answer; again, while the broker has only just started."""
        retrying = Retrying(
            retry=retry_if_exception(_leader_moves), wait=wait_fixed(0.2), stop=stop_after_delay(PATIENCE), reraise=True
        )
        return retrying(lambda: {key: future.result(PATIENCE) for key, future in request(self._admin).items()})

    def _offsets(self, topic: str, partitions: int, end: OffsetSpec) -> list[int]:
        ends = {TopicPartition(topic, partition): end for partition in range(partitions)}
        isolation = IsolationLevel.READ_UNCOMMITTED
        offsets = self._ask(lambda admin: admin.list_offsets(ends, isolation_level=isolation))
        return [offsets[partition].offset for partition in ends]

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """A topic is known a moment before its partitions take writes."""

        def led() -> bool:
            try:
                return len(self.offsets(topic)) == partitions
            except KafkaException:
                return False

        wait_until(led, f"the {partitions} partitions of {topic}", PATIENCE)


def _leader_moves(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in LEADER_MOVES


MEMBER = """\
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={topics}
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
"""


class Member(Service):
    """The second broker of a cluster; it keeps its address and topics over stop, kill and start."""

    name = "member"

    def __init__(self, folder: Path, first: Broker) -> None:
        super().__init__(folder)
        self._first, self.port = first, free_port()

    def start(self) -> None:
        properties, topics = self.folder / "member.properties", self.folder / "topics"
        if not (topics / "meta.properties").exists():
            properties.write_text(MEMBER.format(controller=self._first.controller, port=self.port, topics=topics))
            self._first.format(properties, self.log)
        self._launch(jvm.command("kafka.Kafka", properties))
        self._wait(lambda: len(self._first.nodes()) == 2, "the cluster let it in")


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
