"""The `kafka` transport: which records exist, whether all planned ones are still there, and reading them.

Offsets are planned before anything is read, so that a run that dies is repeated with the same records. A topic is
identified by its id beside its name: one that was deleted and created again has other records under the same offsets.
Records that cannot be read any more are refused by name; only an operator can accept the loss (jobs/accept_loss.py).
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Kafka
from txloom.errors import ConfigurationError, SourceLost, SourceUnavailable
from txloom.storage.sources.splits import Messages, Range, Task

TIMEOUT = 10.0
"""Seconds that a request to the brokers may take."""
SILENCE = 30.0
"""Seconds to wait for a record that is known to exist."""
AT_ONCE, PATIENCE = 20_000, 0.2
"""Records of a block, and the seconds to wait for so many."""
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
END = KafkaError._PARTITION_EOF
READING = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
T = TypeVar("T")
MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,
)
"""Errors for a partition that has no leader at the moment; librdkafka returns the last one while it looks for leaders.
"""
MOVES = 20
"""How often a partition without a leader is tried again, half a second apart: a broker comes back within seconds."""
EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


class _LeaderMoves(SourceUnavailable):
    """A partition is getting another leader; a later try succeeds."""


@dataclass(frozen=True)
class Reached:
    """Up to which offset a partition was planned (exclusive), the topic's id then, and the first unread offset.

    unread: the first record that a landing planned and did not read; None: everything was read.
    """

    topic_id: str
    until: int
    unread: int | None = None

    @property
    def needed(self) -> int:
        """Return the first offset that has to be readable."""
        return self.until if self.unread is None else self.unread


@dataclass(frozen=True)
class Loss:
    """Records of a partition that cannot be landed any more, from `since` to before `until`, and why."""

    extent: Range
    since: int
    until: int
    why: str

    def __str__(self) -> str:
        """Return the loss as messages name it."""
        return f"{self.extent.topic}[{self.extent.partition}]: {self.why}"


def topics_of(pipeline: Pipeline) -> list[str]:
    """Return the topics of a pipeline: those of its rows, and the one of its transaction metadata."""
    assert pipeline.source.kafka is not None
    topic = pipeline.source.transaction_topic
    return list(dict.fromkeys([*pipeline.source.kafka.topics, *([topic] if topic else [])]))


def extents(kafka: Kafka, topics: Sequence[str], former: Collection[str] = ()) -> list[Range]:
    """Return the offsets that every partition of some topics holds now.

    former: topics that are no longer declared and may not exist. A partition that is getting another leader is tried
    again for ten seconds. Raises SourceUnavailable that names what is missing.
    """
    for _ in range(MOVES):
        try:
            return _extents(kafka, topics, former)
        except _LeaderMoves:
            time.sleep(0.5)
    return _extents(kafka, topics, former)


def _extents(kafka: Kafka, topics: Sequence[str], former: Collection[str]) -> list[Range]:
    admin = client(AdminClient, kafka)
    ids: dict[str, str] = {}
    partitions: list[TopicPartition] = []
    for topic, description in _described(kafka, admin, {*topics, *former}, optional=set(former) - {*topics}):
        ids[topic] = str(description.topic_id)
        partitions += [TopicPartition(topic, partition.id) for partition in description.partitions]
    first, end = (_offsets(kafka, admin, partitions, spec) for spec in (EARLIEST, LATEST))
    return [
        Range(topic, ids[topic], partition, first[topic, partition], end[topic, partition])
        for topic, partition in ((each.topic, each.partition) for each in partitions)
    ]


def _described(
    kafka: Kafka, admin: AdminClient, topics: Collection[str], optional: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    futures = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=TIMEOUT)
    for topic, future in futures.items():
        if not (topic in optional and _is_missing(future.exception())):
            yield topic, _result(kafka, future, topic)


def _offsets(
    kafka: Kafka, admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    futures = admin.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT
    )
    offsets = {
        (each.topic, each.partition): _result(kafka, future, each.topic).offset for each, future in futures.items()
    }
    for (topic, partition), offset in offsets.items():
        # Measured: for a partition that just got a leader, librdkafka can return -1001 and no error.
        if offset < 0:
            raise _LeaderMoves(f"{kafka.brokers}: the brokers know no offsets yet of {topic}[{partition}]")
    return offsets


def losses(extents: Iterable[Range], reached: Mapping[tuple[str, int], Reached]) -> list[Loss]:
    """Return the planned or expected records that cannot be landed any more.

    extents: what the partitions hold now. reached: up to where each was planned.

    >>> held = Range("rows", "id-2", 0, 40, 90)
    >>> [str(loss) for loss in losses([held], {("rows", 0): Reached("id-2", 10)})]
    ['rows[0]: the records 10 to 39 aged out before they were landed']
    """
    held = {(each.topic, each.partition): each for each in extents}
    ids = {each.topic: each.topic_id for each in held.values()}
    lost: list[Loss] = []
    for (topic, partition), known in sorted(reached.items()):
        if topic in ids:
            none = Range(topic, ids[topic], partition, 0, 0)
            lost += _losses(held.get((topic, partition), none), known)
        elif known.unread is not None:
            none = Range(topic, known.topic_id, partition, known.until, known.until)
            why = f"the topic was deleted before the records {known.unread} to {known.until - 1} were landed"
            lost.append(Loss(none, known.unread, known.until, why))
    return lost


def _losses(each: Range, known: Reached) -> Iterator[Loss]:
    if known.topic_id != each.topic_id:
        why = f"the topic was deleted and created again (id {each.topic_id}, before {known.topic_id})"
        why += f": whatever the old one held from offset {known.needed} on is lost"
        yield Loss(each, known.needed, each.first, why)
        return
    if known.needed < each.first:
        why = f"the records {known.needed} to {each.first - 1} aged out before they were landed"
        yield Loss(each, known.needed, each.first, why)
    if known.until > each.until:
        why = f"it ends before offset {each.until}, though it went up to {known.until - 1}: the brokers lost records"
        yield Loss(each, known.until, each.until, why)


def refuse_losses(pipeline: str, lost: Sequence[Loss]) -> None:
    """Raise SourceLost that names what is lost and the way out; return where nothing is."""
    if lost:
        listed = "\n".join(str(loss) for loss in lost)
        topics = " ".join(f"--topic {topic}" for topic in sorted({loss.extent.topic for loss in lost}))
        raise SourceLost(
            f"records of the source are lost; nothing was landed.\n{listed}\n"
            f"The way out: accept the loss by name (jobs/accept_loss.py --pipeline {pipeline} {topics} --reason TEXT), "
            "then load a snapshot (jobs/load_snapshot.py)"
        )


@dataclass(frozen=True)
class Topics:
    """The topics of a pipeline, for reading planned ranges."""

    kafka: Kafka
    pipeline: str

    def messages(self, task: Task) -> Iterator[Messages]:
        """Yield the records of a range in blocks; positions are offsets."""
        assert task.part is not None
        part = task.part
        if task.piece is not None:
            part = replace(part, first=task.piece.start, until=task.piece.until)
        return read(self.kafka, self.pipeline, part)

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Raise SourceLost where a topic is not the planned one: it was created again while it was read by its name."""
        parts = [task.part for task in tasks if task.part is not None]
        admin = client(AdminClient, self.kafka)
        ids = {
            topic: str(description.topic_id)
            for topic, description in _described(self.kafka, admin, {part.topic for part in parts})
        }
        reached = {(part.topic, part.partition): Reached(part.topic_id, part.until, part.first) for part in parts}
        held = [replace(part, topic_id=ids[part.topic]) for part in parts]
        refuse_losses(self.pipeline, losses(held, reached))


def read(kafka: Kafka, pipeline: str, part: Range) -> Iterator[Messages]:
    """Yield the records of a range in blocks; positions are offsets. Records of aborted transactions are left out.

    Raises SourceUnavailable after SILENCE seconds without a record, and SourceLost where records are gone.
    """
    consumer = client(Consumer, kafka, **{"group.id": f"txloom-{pipeline}"}, **READING)
    try:
        consumer.assign([TopicPartition(part.topic, part.partition, part.first)])
        at, last_record, trouble = part.first, time.monotonic(), ""
        while True:
            records = consumer.consume(min(AT_ONCE, part.until - at), PATIENCE)
            of_range, done, passing = _in_range(part, records)
            trouble = passing or trouble
            if of_range:
                yield Messages(
                    [r.offset() for r in of_range],
                    [r.value() for r in of_range],
                    [_headers(r.headers()) for r in of_range],
                )
                at, last_record, trouble = of_range[-1].offset() + 1, time.monotonic(), ""
            if done:
                return
            if time.monotonic() - last_record > SILENCE:
                raise SourceUnavailable(_silent(kafka, part, at, trouble))
    finally:
        consumer.close()


def _silent(kafka: Kafka, part: Range, at: int, trouble: str) -> str:
    cause = f"the last error: {trouble}" if trouble else "no error either"
    return (
        f"{part.topic}[{part.partition}]: no record for {SILENCE:.0f} s from offset {at} on, though {part.until} was "
        f"the end when this landing was planned ({kafka.brokers}; {cause})"
    )


def _in_range(part: Range, records: Sequence[Any]) -> tuple[list[Any], bool, str]:
    """Return the records within a range, whether the range is complete, and the last error that may pass by itself."""
    of_range: list[Any] = []
    passing = ""
    for record in records:
        error = record.error()
        if error is None and record.offset() < part.until:
            of_range.append(record)
        if error is None and record.offset() >= part.until - 1:
            return of_range, True, passing
        if error is not None and error.code() == END:
            if record.offset() < part.until:
                raise SourceLost(
                    f"{part}: it ends before offset {record.offset()}, though {part.until} was the end when this "
                    "landing was planned; run land_events again for the way out"
                )
            return of_range, True, passing
        if error is not None:
            passing = _passing(part, error)
    return of_range, False, passing


def _passing(part: Range, error: KafkaError) -> str:
    """Return the text of a retriable error; raises SourceLost or SourceUnavailable for any other."""
    if error.code() in GONE:
        raise SourceLost(f"{part}: aged out while it was read: {error.str()}; run land_events again for the way out")
    if not error.retriable():
        raise SourceUnavailable(f"{part}: {error.str()}")
    return str(error.str())


def ranges(extents: Sequence[Range], reached: Mapping[tuple[str, int], Reached], kafka: Kafka) -> list[Range]:
    """Return the new records that a landing takes: of each partition the same share, about `messages_per_run` in all.

    A partition that no landing has seen is included even when it is empty: from then on its topic is known by its id.
    """
    new = []
    for each in extents:
        known = reached.get((each.topic, each.partition))
        new.append(each if known is None else replace(each, first=known.until))
    total = sum(part.until - part.first for part in new)
    share = min(1.0, kafka.messages_per_run / total) if total else 1.0
    cut = [replace(part, until=part.first + _share(part, share)) for part in new]
    return [part for part in cut if part.until > part.first or (part.topic, part.partition) not in reached]


def leaves_out(extents: Iterable[Range], taken: Iterable[Range]) -> bool:
    """Return whether a landing that takes some ranges leaves records for the next one.

    >>> held = [Range("rows", "id-1", 0, 0, 9), Range("rows", "id-1", 1, 0, 9)]
    >>> leaves_out(held, held), leaves_out(held, [replace(held[0], until=5), held[1]])
    (False, True)
    """
    ends = {(each.topic, each.partition): each.until for each in extents}
    return any(part.until < ends[part.topic, part.partition] for part in taken)


def _share(part: Range, share: float) -> int:
    size = part.until - part.first
    return min(size, int(size * share) + 1)


def _headers(pairs: Sequence[tuple[str, bytes | None]] | None) -> dict[str, str] | None:
    decoded = {name: value.decode("utf-8", "backslashreplace") for name, value in pairs or () if value is not None}
    return decoded or None


def _settings(kafka: Kafka) -> dict[str, Any]:
    timeout = int(TIMEOUT * 1000)
    defaults = {"bootstrap.servers": kafka.brokers, "socket.timeout.ms": timeout, "log_level": 0, "error_cb": _quiet}
    return {**defaults, **kafka.options}


def client(kind: Callable[[dict[str, Any]], T], kafka: Kafka, **more: Any) -> T:
    """Create a client; raises ConfigurationError that shows no value of an option, because it may be a secret."""
    try:
        return kind({**_settings(kafka), **more})
    except KafkaException as error:
        message = str(error.args[0].str())
    for value in sorted(kafka.options.values(), key=len, reverse=True):
        message = message.replace(value, "***")
    raise ConfigurationError(f"source.kafka.options: {message}")


def _quiet(_error: KafkaError) -> None:
    """Ignore errors of connections: each request raises its errors itself."""


def _is_missing(error: BaseException | None) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in MISSING


def _result(kafka: Kafka, answer: Any, topic: str) -> Any:
    """Return the result of a request to the brokers.

    Raises SourceUnavailable; for a topic that does not exist, it names the key of the declaration.
    """
    try:
        return answer.result()
    except KafkaException as error:
        if _is_missing(error):
            declared = "source.kafka.topics" if topic in kafka.topics else "source.transaction_topic"
            raise SourceUnavailable(
                f"topic {topic} does not exist at {kafka.brokers}: create it, or correct {declared}"
            ) from error
        kind = _LeaderMoves if error.args[0].code() in MOVING else SourceUnavailable
        raise kind(f"{kafka.brokers}: {error.args[0].str()} (topic {topic})") from error
