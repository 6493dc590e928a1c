"""Records that go while a landing that was planned has not read them: never another topic's, never silently."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from services.broker import Broker
from shop import insert
from topics import TABLES, Topics
from txloom.errors import ConfigurationError, SourceLost
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_plan, landing_tables
from txloom.storage.sources import kafka

Lost = tuple[str, set[int], set[int]]
"""Why records are lost, the ids that the unfinished landing still takes, and those that the next one takes."""


def dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def died(topics: Topics, monkeypatch: pytest.MonkeyPatch, where: Any = landing_tables, write: str = "append") -> None:
    """Let a run die before one of its writes."""
    with monkeypatch.context() as broken:
        broken.setattr(where, write, dies)
        with pytest.raises(KeyboardInterrupt):
            topics.land("died")


def ids(topics: Topics, number: int | None = None) -> list[int]:
    """Return the ids of the rows that were landed, of all landings or of one."""
    where = "kind = 'row'" + (f" and landing = {number}" if number else "")
    rows = topics.query("change_events", f"select csn from t where {where} order by csn")
    return [row["csn"] for row in rows]


def send(topics: Topics, *csns: int) -> None:
    for csn in csns:
        topics.commit(csn, insert("orders", id=csn, note="a"))


@pytest.fixture
def topics(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Two transactions landed; three more planned as the second landing, in which the run died."""
    topics = Topics(None, tmp_path, broker)
    send(topics, 10, 20)
    topics.land()
    send(topics, 30, 40, 50)
    died(topics, monkeypatch)
    return topics


def some_age(topics: Topics) -> Lost:
    topics.broker.delete_records(topics.rows_topic, 0, 4)
    send(topics, 60)
    return "the records 2 to 3 aged out before they were landed", {50}, {60}


def all_age(topics: Topics) -> Lost:
    topics.broker.delete_records(topics.rows_topic, 0, 5)
    send(topics, 60)
    return "the records 2 to 4 aged out before they were landed", set(), {60}


def more_than_planned_ages(topics: Topics) -> Lost:
    send(topics, 60, 70)
    topics.broker.delete_records(topics.rows_topic, 0, 6)
    return "the records 2 to 5 aged out before they were landed", set(), {70}


def made_again(topics: Topics) -> Lost:
    """The new topic has other records under every offset that was planned."""
    before = topics.broker.topic_id(topics.rows_topic)
    topics.broker.delete_topic(topics.rows_topic)
    new = topics.broker.create_topic(topics.rows_topic)
    send(topics, *range(100, 108))
    why = f"the topic was deleted and created again (id {new}, before {before})"
    return f"{why}: whatever the old one held from offset 2 on is lost", set(), set(range(100, 108))


@pytest.mark.parametrize("lose", [some_age, all_age, more_than_planned_ages, made_again])
def test_an_unfinished_landing_takes_exactly_the_planned_records_that_are_left(
    topics: Topics, lose: Callable[[Topics], Lost]
) -> None:
    why, left, new = lose(topics)
    for _ in range(2):
        with pytest.raises(SourceLost) as refused:
            topics.land()
        assert str(refused.value) == (
            f"records of the source are lost; nothing was landed.\n{topics.rows_topic}[0]: {why}\n"
            "The way out: accept the loss by name (jobs/accept_loss.py --pipeline shop "
            f"--topic {topics.rows_topic} --reason TEXT), then load a snapshot (jobs/load_snapshot.py)"
        )
        assert ids(topics) == [10, 20]
    assert topics.accept(topics.rows_topic) == {"partitions": 1}
    assert topics.accept(topics.rows_topic) == {"partitions": 0}
    assert topics.land()["rows"] == len(new)
    assert (set(ids(topics, 2)), set(ids(topics, 3))) == (left, new)
    assert len(ids(topics)) == len({10, 20} | left | new), "nothing came twice"
    assert topics.land()["landed"] == 0
    given_up = topics.query("landed_offsets", "select landing, lost from t where lost is not null")
    assert given_up == [{"landing": 2, "lost": f"{topics.rows_topic}[0]: {why}; accepted: CHG-7"}]
    ledger = topics.query("ledger", "select detail from t where step = 'accept_loss'")
    assert ledger == [{"detail": f"{topics.rows_topic}[0]: {why} (accepted: CHG-7)"}]
    assert [finding[0] for finding in topics.findings()] == ["records were lost"]


def redriving(topics: Topics) -> None:
    redrive(step_of(topics.pipeline, topics.warehouse, "again"), Selection(everything=True))


def loading(topics: Topics) -> dict[str, int]:
    export = topics.folder / "export" / "orders"
    export.mkdir(parents=True)
    (export / "rows.jsonl").write_text('{"id": 1, "note": "loaded"}\n')
    return load_snapshot(step_of(topics.pipeline, topics.warehouse, "load", dies), Snapshot(str(export.parent), 15))


@pytest.mark.parametrize("step", [redriving, loading])
def test_no_other_step_finishes_the_landing_behind_a_loss_that_nobody_accepted(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch, step: Callable[[Topics], object]
) -> None:
    topics = Topics(None, tmp_path, broker)
    broker.produce(topics.rows_topic, [(None, "no JSON")])
    send(topics, 10)
    topics.land()
    send(topics, 20, 30)
    died(topics, monkeypatch)
    broker.delete_records(topics.rows_topic, 0, 3)
    with pytest.raises(SourceLost, match="the records 2 to 2 aged out before they were landed"):
        step(topics)
    assert ids(topics) == [10]


def test_a_landing_whose_events_are_written_needs_its_records_no_more(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(None, tmp_path, broker)
    send(topics, 10, 20)
    died(topics, monkeypatch, landing_tables, "write_clock")
    broker.delete_records(topics.rows_topic, 0, 2)
    assert topics.land()["landed"] == 0
    assert ids(topics) == [10, 20]
    landed = topics.query("ledger", "select batch, counts from t where step = 'land_events' order by batch")
    assert [(row["batch"], row["counts"]["rows"]) for row in landed] == [(1, 2), (2, 0)]


def test_a_plan_that_lies_in_one_of_its_two_tables_is_finished_before_a_snapshot_takes_the_next_number(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(None, tmp_path, broker)
    send(topics, 10, 20)
    died(topics, monkeypatch, landing_plan, "write_plan")
    assert loading(topics)["landing"] == 2
    assert ids(topics, 1) == [10, 20]
    assert topics.land()["landed"] == 0


@pytest.mark.parametrize("write", [1, 2, 3])
def test_accepting_that_dies_between_its_writes_is_done_once(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    why, left, new = some_age(topics)
    written, append = 0, small_tables.append

    def deadly(*given: Any, **named: Any) -> bool:
        nonlocal written
        done = append(*given, **named)
        written += 1
        if written == write:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as broken:
        broken.setattr(small_tables, "append", deadly)
        with pytest.raises(KeyboardInterrupt):
            topics.accept(topics.rows_topic)
    assert topics.accept(topics.rows_topic) == {"partitions": 0 if write == 3 else 1}
    (line,) = topics.query("ledger", "select at, detail from t where step = 'accept_loss'")
    (lost,) = topics.query("landed_offsets", "select at, lost from t where lost is not null")
    assert (why in line["detail"], line["at"]) == (True, lost["at"])
    assert len(topics.query("findings", "select * from t")) == 1
    topics.land()
    assert (set(ids(topics, 2)), set(ids(topics, 3))) == (left, new)


def test_a_topic_that_is_made_again_while_it_is_read_gives_nothing(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before the read saw the planned topic; what was read is another's."""
    read = kafka.read

    def slow(source: Any, pipeline: str, part: Any) -> Any:
        if part.topic == topics.rows_topic:
            made_again(topics)
        return read(source, pipeline, part)

    with monkeypatch.context() as racing:
        racing.setattr(kafka, "read", slow)
        with pytest.raises(SourceLost, match="the topic was deleted and created again"):
            topics.land()
    assert ids(topics) == [10, 20]
    topics.accept(topics.rows_topic)
    topics.land()
    assert (ids(topics, 2), ids(topics, 3)) == ([], list(range(100, 108)))


def test_a_topic_with_fewer_partitions_than_before_has_lost_those_that_are_gone(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(None, tmp_path, broker, partitions=2)
    rows = [topics.rows_of(csn, insert("orders", id=csn, note="a"))[0] for csn in (10, 20, 30)]
    broker.produce(topics.rows_topic, [(None, rows[0], None, 1)])
    topics.land()
    broker.produce(topics.rows_topic, [(None, rows[1], None, 1)])
    died(topics, monkeypatch)
    broker.delete_topic(topics.rows_topic)
    broker.create_topic(topics.rows_topic)
    broker.produce(topics.rows_topic, [(None, rows[2], None, 0)])
    with pytest.raises(SourceLost) as refused:
        topics.land()
    message = str(refused.value)
    assert f"{topics.rows_topic}[0]: the topic" in message and "held from offset 0 on is lost" in message
    assert f"{topics.rows_topic}[1]: the topic" in message and "held from offset 1 on is lost" in message
    assert topics.accept(topics.rows_topic) == {"partitions": 2}
    topics.land()
    assert ids(topics) == [10, 30]
    broker.add_partitions(topics.rows_topic, 2)
    broker.produce(topics.rows_topic, [(None, rows[1], None, 1)])
    topics.land()
    assert ids(topics) == [10, 20, 30]


def test_a_topic_is_known_by_its_id_before_anything_was_landed_of_it(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(None, tmp_path, broker)
    assert topics.land()["landed"] == 0
    broker.delete_topic(topics.rows_topic)
    broker.create_topic(topics.rows_topic)
    send(topics, 10)
    with pytest.raises(SourceLost, match="whatever the old one held from offset 0 on is lost"):
        topics.land()
    topics.accept(topics.rows_topic)
    topics.land()
    assert ids(topics) == [10]


def test_a_topic_that_is_gone_and_no_longer_declared_holds_up_landing_until_its_plan_is_given_up(
    topics: Topics,
) -> None:
    gone, topics.rows_topic = topics.rows_topic, f"{topics.rows_topic}.new"
    topics.broker.delete_topic(gone)
    topics.broker.create_topic(topics.rows_topic)
    topics.declare(TABLES)
    send(topics, 60)
    with pytest.raises(SourceLost) as refused:
        topics.land()
    assert f"{gone}[0]: the topic was deleted before the records 2 to 4 were landed" in str(refused.value)
    assert topics.accept(gone) == {"partitions": 1}
    topics.land()
    assert (ids(topics, 2), ids(topics, 3)) == ([], [60])
    with pytest.raises(ConfigurationError) as nothing:
        topics.accept(gone)
    assert str(nothing.value) == f"topic '{gone}' has lost nothing; topics with losses: none"


def test_a_pipeline_cannot_turn_to_files_before_its_last_landing_from_kafka_is_finished(topics: Topics) -> None:
    inbox = topics.folder / "inbox"
    from txloom.config.models.source import Files

    source = topics.pipeline.source.model_copy(update={"kafka": None, "files": Files(path=str(inbox))})
    kafka_pipeline, topics.pipeline = topics.pipeline, topics.pipeline.model_copy(update={"source": source})
    with pytest.raises(ConfigurationError) as refused:
        topics.land()
    assert str(refused.value) == (
        "a landing from Kafka was planned and not finished: put source.kafka back until land_events has run"
    )
    topics.pipeline = kafka_pipeline
    topics.land()
    assert ids(topics) == [10, 20, 30, 40, 50]


@pytest.mark.long
@pytest.mark.parametrize("read", [False, True], ids=["planned", "landed"])
def test_a_partition_that_lost_its_end_is_refused_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    """The broker's disk lost a segment: the topic and its id are the same, its records begin anew."""
    with Broker(tmp_path / "broker") as broker:
        topics = Topics(None, tmp_path, broker)
        send(topics, 10, 20)
        topics.land()
        send(topics, 30)
        topics.land() if read else died(topics, monkeypatch)
        broker.stop()
        (folder,) = (tmp_path / "broker" / "topics").glob(f"{topics.rows_topic}-0")
        for file in folder.glob("0*"):
            file.unlink()
        for file in (tmp_path / "broker" / "topics").glob("*-checkpoint"):
            file.unlink()
        shutil.rmtree(folder / "remote", ignore_errors=True)
        broker.start()
        with pytest.raises(SourceLost) as refused:
            topics.land()
        why = "it ends before offset 0, though it went up to 2: the brokers lost records"
        assert f"{topics.rows_topic}[0]: {why}\n" in str(refused.value)
        assert topics.accept(topics.rows_topic) == {"partitions": 1}
        send(topics, 40, 50)
        topics.land()
        assert ids(topics) == ([10, 20, 30, 40, 50] if read else [10, 20, 40, 50])
        assert topics.land()["landed"] == 0
