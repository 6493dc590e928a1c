"""Kafka through a real broker: what comes, what is gone, and what is refused by name (docs/faults.md 36, 37)."""

import time
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from lake import Lake
from services.broker import Broker
from shop import insert, update
from topics import Topics
from txloom.errors import ConfigurationError, SourceLost, SourceUnavailable
from txloom.quality import findings as f
from txloom.steps.landing.land_events import land_events
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.landing import decoding, landing_tables


@pytest.fixture
def topics(spark: Any, tmp_path: Path, broker: Broker) -> Topics:
    """Return a shop with topics of its own."""
    return Topics(spark, tmp_path, broker)


def land(lake: Lake) -> dict[str, int]:
    return lake.run((land_events,))["land_events"]


@pytest.mark.stream
@pytest.mark.parametrize(
    "spread", [pytest.param(False, id="in this process"), pytest.param(True, id="by Spark", marks=pytest.mark.long)]
)
def test_records_are_landed_once_with_partition_and_offset(
    spark: Any, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, spread: bool
) -> None:
    if spread:
        monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)
    topics = Topics(spark, tmp_path, broker, partitions=3)
    for csn in (10, 20, 30):
        topics.commit(csn, insert("orders", id=csn, note="a"), insert("orders", id=csn + 1, note="b"))
    broker.produce(topics.rows_topic, [("gone", None), (None, "no JSON")])
    counts = topics.run()["land_events"]
    assert [counts[name] for name in ("landed", "rows", "metadata", "tombstones", "poison")] == [11, 6, 3, 1, 1]
    assert topics.shown("orders", "id") == [(10,), (11,), (20,), (21,), (30,), (31,)]
    placed = topics.query("change_events", 'select distinct topic, partition, "offset" from t where topic is not null')
    assert len(placed) == 11
    (poison,) = topics.query("dead_letters", 'select topic, partition, "offset", file from t')
    assert poison["file"] is None and poison["topic"] == topics.rows_topic
    assert land(topics)["landed"] == 0
    topics.commit(40, update("orders", {"id": 10}, id=10, note="c"))
    topics.run()
    assert ("c" in {note for _, note in topics.shown("orders", "id", "note")}) is True


def test_a_run_takes_no_more_than_it_may(topics: Topics) -> None:
    kafka = topics.pipeline.source.kafka.model_copy(update={"messages_per_run": 4})
    source = topics.pipeline.source.model_copy(update={"kafka": kafka})
    topics.pipeline = topics.pipeline.model_copy(update={"source": source})
    for csn in range(10, 20):
        topics.commit(csn, insert("orders", id=csn, note="a"))
    taken = [land(topics)["landed"] for _ in range(6)]
    assert sum(taken) == 20 and 0 < max(taken) <= 6


def test_valid_through_is_what_every_partition_of_the_metadata_has_shown(
    spark: Any, tmp_path: Path, broker: Broker
) -> None:
    """What only one of two partitions has shown lies beside what the other may still bring (promise 4)."""
    topics = Topics(spark, tmp_path, broker, of_metadata=2)
    reached = []
    for csn, partition in ((10, 0), (30, 0), (20, 1), (40, 1), (50, 0)):
        topics.send(*topics.rows_of(csn, insert("orders", id=csn, note="a")))
        broker.produce(topics.metadata_topic, [(None, topics.metadata_of(csn, orders=1), None, partition)])
        topics.run()
        cuts = topics.query("cuts", "select valid_through from t order by cut_id desc limit 1")
        reached.append(cuts[0]["valid_through"] if cuts else 0)
        assert topics.shown("orders", "id") == [(shown,) for shown in (10, 20, 30, 40, 50) if shown <= reached[-1]]
    assert reached == [0, 0, 20, 30, 40]
    assert topics.query("cuts", "select amends from t where cardinality(amends) > 0") == []


def test_partitions_that_are_added_are_read_from_their_beginning(topics: Topics) -> None:
    topics.commit(10, insert("orders", id=1, note="a"))
    topics.run()
    topics.broker.add_partitions(topics.rows_topic, 3)
    topics.broker.produce(topics.rows_topic, [(None, topics.rows_of(20, insert("orders", id=2, note="b"))[0], None, 2)])
    topics.send(topics.metadata_of(20, orders=1))
    topics.run()
    assert topics.shown("orders", "id") == [(1,), (2,)]


def test_what_an_open_transaction_of_a_producer_wrote_waits_and_what_was_aborted_never_comes(topics: Topics) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": topics.broker.address, "transactional.id": topics.rows_topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics.rows_topic, topics.rows_of(10, insert("orders", id=1, note="aborted"))[0])
    producer.flush()
    assert land(topics)["landed"] == 0
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topics.rows_topic, topics.rows_of(20, insert("orders", id=2, note="kept"))[0])
    producer.commit_transaction(30)
    topics.send(topics.metadata_of(20, orders=1))
    topics.run()
    assert topics.shown("orders", "id", "note") == [(2, "kept")]
    assert land(topics)["landed"] == 0


def test_a_missing_topic_is_named_at_once(topics: Topics) -> None:
    topics.broker.delete_topic(topics.rows_topic)
    begun = time.monotonic()
    with pytest.raises(SourceUnavailable) as refused:
        land(topics)
    assert str(refused.value) == (
        f"topic {topics.rows_topic} does not exist at {topics.broker.address}: create it, or correct "
        "source.kafka.topics"
    )
    assert time.monotonic() - begun < 15


@pytest.mark.long
def test_a_broker_that_is_down_or_hangs_is_named_within_15_seconds_and_the_next_run_goes_on(
    spark: Any, tmp_path: Path
) -> None:
    with Broker(tmp_path / "broker") as broker:
        topics = Topics(spark, tmp_path, broker)
        topics.commit(10, insert("orders", id=1, note="a"))
        topics.run()
        for fail, repair in ((broker.pause, broker.resume), (broker.kill, broker.start)):
            fail()
            begun = time.monotonic()
            with pytest.raises(SourceUnavailable, match=broker.address):
                land(topics)
            assert time.monotonic() - begun < 15
            repair()
        topics.commit(20, insert("orders", id=2, note="b"))
        topics.run()
        assert topics.shown("orders", "id") == [(1,), (2,)]


def lose_by_age(topics: Topics) -> str:
    topics.broker.delete_records(topics.rows_topic, 0, 4)
    return "the records 2 to 3 aged out before they were landed"


def lose_by_recreation(topics: Topics) -> str:
    """The new topic holds more records than the old one, so that its end tells nothing."""
    topics.broker.delete_topic(topics.rows_topic)
    topics.broker.create_topic(topics.rows_topic)
    for csn in range(100, 110):
        topics.commit(csn, insert("orders", id=csn, note="new"))
    return "the topic was deleted and created again"


@pytest.mark.parametrize("lose", [lose_by_age, lose_by_recreation])
def test_records_that_are_gone_are_never_skipped_until_somebody_accepts_it_by_name(topics: Topics, lose: Any) -> None:
    for csn in (10, 20):
        topics.commit(csn, insert("orders", id=csn, note="a"))
    topics.run()
    for csn in (30, 40, 50):
        topics.commit(csn, insert("orders", id=csn, note="a"))
    why = lose(topics)
    for _ in range(2):
        with pytest.raises(SourceLost) as refused:
            land(topics)
        assert why in str(refused.value) and f"--topic {topics.rows_topic} --reason TEXT" in str(refused.value)
    with pytest.raises(ConfigurationError, match="has lost nothing; topics with losses: "):
        topics.accept(topics.metadata_topic)
    assert topics.accept(topics.rows_topic) == {"partitions": 1}
    topics.run()
    expected = {(10,), (20,), (50,)} if lose is lose_by_age else {(10,), (20,), *((csn,) for csn in range(100, 110))}
    shown = set(topics.shown("orders", "id"))
    assert shown <= expected, "what waits below holds up what lies above"
    assert (f.LOST, None, None, 21, True) in [(*finding[:3], 21, finding[4]) for finding in topics.findings()]
    (cut,) = topics.query("cuts", "select gaps from t order by cut_id desc limit 1")
    (gap,) = cut["gaps"]
    assert gap["cause"].startswith(f"{topics.rows_topic}[0]: ") and gap["cause"].endswith("; accepted: CHG-7")
    (line,) = topics.query("ledger", "select detail from t where step = 'accept_loss'")
    assert why in line["detail"]
    (topics.folder / "export" / "orders").mkdir(parents=True)
    (topics.folder / "export" / "orders" / "rows.jsonl").write_text('{"id": 1, "note": "loaded"}\n')
    step = step_of(topics.pipeline, topics.warehouse, "load", lambda: topics.spark)
    load_snapshot(step, Snapshot(str(topics.folder / "export"), 200))
    topics.run()
    assert (topics.shown("orders", "id"), topics.findings()) == ([(1,)], [])
    (cut,) = topics.query("cuts", "select gaps from t order by cut_id desc limit 1")
    assert cut["gaps"] == []


def test_a_landing_that_died_is_repeated_with_the_same_records(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.commit(10, insert("orders", id=1, note="a"))

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(landing_tables, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            land(topics)
    topics.commit(20, insert("orders", id=2, note="b"))
    topics.run()
    assert topics.shown("orders", "id") == [(1,), (2,)]
    places = topics.query("landed_offsets", 'select landing, "first", "until" from t order by 1, 2')
    assert [row["landing"] for row in places] == [1, 1, 2, 2]
