"""A partition whose broker is away is waited for, and named when that broker does not come back."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import OffsetSpec

from services.broker import Broker, Member
from services.process import wait_until
from txloom.config.models.source import Kafka
from txloom.errors import SourceUnavailable
from txloom.storage.sources import kafka
from txloom.storage.sources.splits import Range

RECORDS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Member]]:
    """Two brokers; the second one may be killed, and alone keeps the topic rows."""
    with (
        Broker(tmp_path_factory.mktemp("first")) as first,
        first.join(tmp_path_factory.mktemp("second")) as second,
    ):
        first.create_topic("rows", node=2)
        first.produce("rows", [(None, "x")] * RECORDS)
        yield first, second


@pytest.fixture
def away(cluster: tuple[Broker, Member]) -> tuple[Broker, Member]:
    """The cluster, its second broker killed, as soon as it knows that."""
    first, second = cluster
    second.kill()
    wait_until(lambda: first.leader("rows", 0) is None, "the partition to have no leader")
    return cluster


@pytest.mark.long
def test_a_broker_that_comes_back_in_a_moment_is_waited_for(
    away: tuple[Broker, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = away
    monkeypatch.setattr(kafka, "MOVES", 120)
    with ThreadPoolExecutor(1) as beside:  # the broker is this thread's: it dies with the thread that starts it
        future = beside.submit(kafka.extents, Kafka(brokers=first.address, topics=("rows",)), ["rows"])
        second.start()
        extents = future.result()
    assert extents == [Range("rows", first.topic_id("rows"), 0, 0, RECORDS)]


@pytest.mark.long
def test_a_partition_that_no_broker_leads_is_named_in_time(
    away: tuple[Broker, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = away
    monkeypatch.setattr(kafka, "MOVES", 6)
    begun = time.monotonic()
    with pytest.raises(SourceUnavailable) as refused:
        kafka.extents(Kafka(brokers=first.address, topics=("rows",)), ["rows"])
    assert 3 <= time.monotonic() - begun < 30
    assert str(refused.value) == f"{first.address}: Failed to query partition leaders: No leaders found (topic rows)"


def test_no_offset_is_an_answer_that_is_asked_for_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "MOVES", 1)
    broker.create_topic("empty")
    monkeypatch.setattr(kafka, "LATEST", OffsetSpec.for_timestamp(1))  # of a record that is not there: -1, no error
    with pytest.raises(SourceUnavailable) as refused:
        kafka.extents(Kafka(brokers=broker.address, topics=("empty",)), ["empty"])
    assert str(refused.value) == f"{broker.address}: the brokers know no offsets yet of empty[0]"
