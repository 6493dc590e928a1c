"""Reading a range while the broker stops: it ends in time, and says where it stood."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from services.broker import Broker
from txloom.config.models.source import Kafka
from txloom.errors import ConfigurationError, SourceLost, SourceUnavailable
from txloom.storage.sources import kafka
from txloom.storage.sources.divided_splits import in_pieces
from txloom.storage.sources.splits import RECORD_BYTES, Messages, Range, Task

RECORDS, SILENCE = 2000, 4.0
SMALL = {"fetch.message.max.bytes": "20000", "queued.min.messages": "1", "queued.max.messages.kbytes": "20"}
"""Makes the client fetch little ahead, so that much is still at the broker when it stops."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AT_ONCE", 100)


@pytest.fixture(scope="module")
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that may be stopped, because nothing else needs it."""
    with Broker(tmp_path_factory.mktemp("own")) as started:
        yield started


def begun(broker: Broker, topic: str) -> tuple[Range, Iterator[Messages], list[int]]:
    """Return a range, the rest of its blocks, and the offsets that came first."""
    made = broker.create_topic(topic)
    broker.produce(topic, [(None, "x" * 1000) for _ in range(RECORDS)])
    part = Range(topic, made, 0, 0, RECORDS)
    blocks = kafka.read(Kafka(brokers=broker.address, topics=(topic,), options=SMALL), "shop", part)
    first = list(next(blocks).positions)
    assert 0 < len(first) < RECORDS
    return part, blocks, first


def ended(blocks: Iterator[Messages], first: list[int]) -> tuple[str, int, float]:
    """Read on until it is refused: what was said, the offset that was not read any more, and how long it took."""
    at, since = first[-1] + 1, time.monotonic()
    try:
        for block in blocks:
            assert list(block.positions) == list(range(at, at + len(block.positions))), "in order, each once"
            at += len(block.positions)
    except SourceUnavailable as refused:
        return str(refused), at, time.monotonic() - since
    raise AssertionError("it was read to its end")


@pytest.mark.long
@pytest.mark.parametrize(("stop", "repair"), [(Broker.pause, Broker.resume), (Broker.kill, Broker.start)])
def test_a_broker_that_stops_while_it_is_read_is_named_in_time_with_the_offset(
    fresh_broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    stop: Callable[[Broker], Any],
    repair: Callable[[Broker], Any],
) -> None:
    monkeypatch.setattr(kafka, "SILENCE", SILENCE)
    topic = f"stopped.{stop.__name__}"
    part, blocks, first = begun(fresh_broker, topic)
    stop(fresh_broker)
    said, at, took = ended(blocks, first)
    assert at < RECORDS
    assert said.startswith(
        f"{topic}[0]: no record for 4 s from offset {at} on, though {RECORDS} was the end when this landing was "
        f"planned ({fresh_broker.address}; "
    )
    assert SILENCE <= took < SILENCE + 6
    repair(fresh_broker)
    again = kafka.read(Kafka(brokers=fresh_broker.address, topics=(topic,), options=SMALL), "shop", part)
    assert sum(len(block.positions) for block in again) == RECORDS


def test_a_topic_that_goes_while_it_is_read_is_named_in_time(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "SILENCE", SILENCE)
    _, blocks, first = begun(broker, "gone.amid")
    broker.delete_topic("gone.amid")
    said, at, took = ended(blocks, first)
    assert said.startswith(f"gone.amid[0]: no record for 4 s from offset {at} on")
    assert took < SILENCE + 6


class Failing(Consumer):
    """A client whose broker answers, but only with errors that may pass."""

    def consume(self, *_: object, **__: object) -> list[Message]:
        time.sleep(0.1)
        return [Message(error=KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, "not the leader", retriable=True))]


def test_errors_that_come_again_and_again_are_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "SILENCE", 1.0)
    monkeypatch.setattr(kafka, "Consumer", Failing)
    part, since = Range("rows", "id", 3, 40, 90), time.monotonic()
    with pytest.raises(SourceUnavailable) as refused:
        list(kafka.read(Kafka(brokers="localhost:1", topics=("rows",)), "shop", part))
    assert str(refused.value) == (
        "rows[3]: no record for 1 s from offset 40 on, though 90 was the end when this landing was planned "
        "(localhost:1; the last error: not the leader)"
    )
    assert time.monotonic() - since < 15, "one second of silence ends it, not one second for each error"


def test_what_a_reader_does_with_a_block_is_no_silence(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "SILENCE", 0.8)
    _, blocks, _ = begun(broker, "slow.reader")
    time.sleep(2.0)
    assert next(blocks).positions


def test_a_range_that_ends_before_its_plan_is_lost_and_not_whole(broker: Broker) -> None:
    made = broker.create_topic("short")
    broker.produce("short", [(None, "x")])
    part = Range("short", made, 0, 0, 3)
    with pytest.raises(SourceLost) as refused:
        list(kafka.read(Kafka(brokers=broker.address, topics=("short",)), "shop", part))
    assert str(refused.value) == (
        "short[0] from offset 0: it ends before offset 1, though 3 was the end when this landing was planned; "
        "run land_events again for the way out"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security.protocol": "hunter2"}, 'Invalid value "***" for configuration property "security.protocol"'),
        ({"sasl.passwrd": "hunter2"}, 'No such configuration property: "sasl.passwrd"'),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "hunter2"},
            "Failed to create consumer: Unsupported SASL mechanism: ***",
        ),
    ],
)
def test_a_setting_that_the_client_refuses_is_named_without_its_value(options: dict[str, str], said: str) -> None:
    part = Range("rows", "id", 0, 0, 1)
    with pytest.raises(ConfigurationError) as refused:
        list(kafka.read(Kafka(brokers="localhost:1", topics=("rows",), options=options), "shop", part))
    assert str(refused.value) == f"source.kafka.options: {said}"


def test_pieces_of_a_topic_hold_its_records_once(broker: Broker) -> None:
    """Positions of aborted transactions and of markers are in the range, too."""
    made = broker.create_topic("pieces")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "pieces"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for each in range(5):
            producer.produce("pieces", f"{number}.{each}")
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    ((first, until),) = broker.offsets("pieces")
    source = kafka.Topics(Kafka(brokers=broker.address, topics=("pieces",)), "shop")
    task = Task(1, "pieces", "", 0, Range("pieces", made, 0, first, until))

    def records(tasks: Iterable[Task]) -> Iterator[tuple[int, bytes | None]]:
        for each in tasks:
            for block in source.messages(each):
                yield from zip(block.positions, block.values, strict=True)

    whole = list(records([task]))
    assert len(whole) == 15
    for most in (4, 7):
        cut_in_pieces = in_pieces(lambda: None, [task], source, most * RECORD_BYTES)
        assert len(cut_in_pieces) > 4
        assert list(records(cut_in_pieces)) == whole
