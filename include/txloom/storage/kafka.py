"""The `kafka` transport: which records are there, whether all that was landed before is still theirs, and reading them.

Offsets are planned before anything is read, so that a run which dies is repeated with the same records. A topic is
known by its id beside its name: one that was deleted and created again has other records under the same offsets. What
cannot be read any more is refused by name; only an operator accepts it (jobs/accept_loss.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from txloom.config.models import Kafka, Pipeline
from txloom.errors import SourceLost, SourceUnavailable
from txloom.storage.tasks import Messages, Range, Task

TIMEOUT = 10.0
"""Seconds that a request to the brokers may take."""
SILENCE = 30.0
"""Seconds without a record that is known to be there."""
AT_ONCE = 20_000
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
END = KafkaError._PARTITION_EOF
EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Reached:
    """Up to where a partition was landed (exclusive), and the id that its topic had then."""

    topic_id: str
    until: int


@dataclass(frozen=True)
class Loss:
    """Records of a partition that cannot be landed any more: from one offset to before another, and why."""

    extent: Range
    since: int
    until: int
    why: str

    def __str__(self) -> str:
        """Say what is lost."""
        return f"{self.extent.topic}[{self.extent.partition}]: {self.why}"


def topics_of(pipeline: Pipeline) -> list[str]:
    """Return the topics of a pipeline: its rows' and the one of its transaction metadata."""
    assert pipeline.source.kafka is not None
    topic = pipeline.source.transaction_topic
    return list(dict.fromkeys([*pipeline.source.kafka.topics, *([topic] if topic else [])]))


def extents(kafka: Kafka, topics: Sequence[str]) -> list[Range]:
    """Return what every partition of some topics holds now; raises SourceUnavailable that names what is missing."""
    admin = AdminClient(_settings(kafka))
    ids: dict[str, str] = {}
    partitions: list[TopicPartition] = []
    for topic, found in admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT).items():
        description = _told(kafka, found, topic)
        ids[topic] = str(description.topic_id)
        partitions += [TopicPartition(topic, partition.id) for partition in description.partitions]
    first, end = (_offsets(kafka, admin, partitions, spec) for spec in (EARLIEST, LATEST))
    return [
        Range(topic, ids[topic], partition, first[topic, partition], end[topic, partition])
        for topic, partition in ((each.topic, each.partition) for each in partitions)
    ]


def _offsets(
    kafka: Kafka, admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    asked = admin.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT
    )
    return {(each.topic, each.partition): _told(kafka, found, each.topic).offset for each, found in asked.items()}


def losses(found: Iterable[Range], reached: Mapping[tuple[str, int], Reached]) -> list[Loss]:
    """Return what cannot be landed any more of what was not landed yet.

    >>> held = Range("rows", "id-2", 0, 40, 90)
    >>> [str(loss) for loss in losses([held], {("rows", 0): Reached("id-2", 10)})]
    ['rows[0]: the records 10 to 39 aged out before they were landed']
    """
    lost = []
    for each in found:
        known = reached.get((each.topic, each.partition))
        if known is None:
            continue
        if known.topic_id != each.topic_id:
            why = f"the topic was deleted and created again (id {each.topic_id}, before {known.topic_id})"
            why += f": whatever came behind offset {known.until - 1} of the old one is lost"
            lost.append(Loss(each, known.until, each.first, why))
        elif known.until < each.first:
            why = f"the records {known.until} to {each.first - 1} aged out before they were landed"
            lost.append(Loss(each, known.until, each.first, why))
        elif known.until > each.until:
            why = f"it ends at offset {each.until - 1}, though {known.until - 1} was landed: the brokers lost records"
            lost.append(Loss(each, known.until, each.until, why))
    return lost


def refuse_losses(pipeline: str, found: Sequence[Loss]) -> None:
    """Raise SourceLost that says what is lost and what the way out is."""
    if found:
        told = "\n".join(str(loss) for loss in found)
        topics = " ".join(f"--topic {topic}" for topic in sorted({loss.extent.topic for loss in found}))
        raise SourceLost(
            f"records of the source are lost; nothing was landed.\n{told}\n"
            f"The way out: accept the loss by name (jobs/accept_loss.py --pipeline {pipeline} {topics} --reason TEXT), "
            "then load a snapshot (jobs/load_snapshot.py)"
        )


@dataclass(frozen=True)
class Topics:
    """The topics of a pipeline, for reading what was planned."""

    kafka: Kafka
    pipeline: str

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield the records of a range in blocks; places are offsets."""
        assert task.part is not None
        return read(self.kafka, self.pipeline, task.part)


def read(kafka: Kafka, pipeline: str, part: Range) -> Iterator[Messages]:
    """Yield the records of a range in blocks; places are offsets. Aborted transactions are not read."""
    consumer = Consumer(
        {
            **_settings(kafka),
            "group.id": f"txloom-{pipeline}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(part.topic, part.partition, part.first)])
        waited = 0.0
        while True:
            records = consumer.consume(AT_ONCE, 1.0)
            waited = 0.0 if records else waited + 1.0
            if waited > SILENCE:
                raise SourceUnavailable(f"{part}: no record for {SILENCE:.0f} s, though there are some")
            own, done = _own(part, records)
            if own:
                yield Messages(
                    [r.offset() for r in own], [r.value() for r in own], [_headers(r.headers()) for r in own]
                )
            if done:
                return
    finally:
        consumer.close()


def _own(part: Range, records: Sequence[Any]) -> tuple[list[Any], bool]:
    """Return the records that lie inside a range, and whether it is over."""
    own: list[Any] = []
    for record in records:
        error = record.error()
        if error is not None and error.code() == END:
            return own, True
        if error is not None and error.code() in GONE:
            raise SourceLost(
                f"{part}: aged out while it was read: {error.str()}; run land_events again for the way out"
            )
        if error is not None and not error.retriable():
            raise SourceUnavailable(f"{part}: {error.str()}")
        if error is None and record.offset() < part.until:
            own.append(record)
        if error is None and record.offset() >= part.until - 1:
            return own, True
    return own, False


def ranges(found: Sequence[Range], reached: Mapping[tuple[str, int], Reached], kafka: Kafka) -> list[Range]:
    """Return what a landing takes: what is new, of each partition a share of at most `messages_per_run` together."""
    new = []
    for each in found:
        known = reached.get((each.topic, each.partition))
        new.append(each if known is None else replace(each, first=known.until))
    total = sum(part.until - part.first for part in new)
    share = min(1.0, kafka.messages_per_run / total) if total else 1.0
    cut = [replace(part, until=part.first + _share(part, share)) for part in new]
    return [part for part in cut if part.until > part.first]


def _share(part: Range, share: float) -> int:
    size = part.until - part.first
    return min(size, int(size * share) + 1)


def _headers(told: Sequence[tuple[str, bytes | None]] | None) -> dict[str, str] | None:
    found = {name: value.decode("utf-8", "backslashreplace") for name, value in told or () if value is not None}
    return found or None


def _settings(kafka: Kafka) -> dict[str, Any]:
    timeout = int(TIMEOUT * 1000)
    own = {"bootstrap.servers": kafka.brokers, "socket.timeout.ms": timeout, "log_level": 0, "error_cb": _quiet}
    return {**own, **kafka.options}


def _quiet(_error: KafkaError) -> None:
    """Let errors of connections reach whoever asked for something, and nobody else."""


def _told(kafka: Kafka, answer: Any, topic: str) -> Any:
    """Return what the brokers answered, or say what is wrong."""
    try:
        return answer.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code in MISSING:
            raise SourceUnavailable(
                f"topic {topic} does not exist at {kafka.brokers}: create it, or correct source.kafka.topics"
            ) from error
        raise SourceUnavailable(f"{kafka.brokers}: {error.args[0].str()} (topic {topic})") from error
