"""Signals to a Debezium connector, and its notifications: both are topics beside those of its rows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Kafka, Signals
from txloom.errors import SourceUnavailable
from txloom.storage.sources import kafka

READ = ("SUCCEEDED", "EMPTY")
"""How the scan of a table ends that was read to its end."""
SECONDS = 30.0
"""How long the brokers may take to accept a signal."""


@dataclass(frozen=True)
class SnapshotState:
    """What the connector said of a snapshot.

    Args:
        is_over: whether it ended, well or not.
        tables: the status of each table's scan, by the name that the connector has for it.
        problem: why it ended early; None: it did not.
        said: how many notifications it sent.
        newest: when it sent the last one, by its clock; None: unknown.
    """

    is_over: bool
    tables: dict[str, str]
    problem: str | None = None
    said: int = 0
    newest: datetime | None = None


def request(pipeline: Pipeline, request_id: str, tables: Sequence[str]) -> None:
    """Ask the connector for an incremental snapshot.

    Args:
        pipeline: a pipeline that declares signals.
        request_id: the id that its notifications will have.
        tables: regular expressions of the names that the tables have there.

    Raises SourceUnavailable where the brokers do not take the signal.
    """
    _send(pipeline, request_id, "execute-snapshot", {"data-collections": list(tables), "type": "INCREMENTAL"})


def stop(pipeline: Pipeline, request_id: str) -> None:
    """Tell the connector to give up the incremental snapshot that it is reading, if any.

    request_id: of the request that is given up. Raises SourceUnavailable where the brokers do not take the signal.
    """
    _send(pipeline, f"{request_id}-stop", "stop-snapshot", {"type": "INCREMENTAL"})


def _send(pipeline: Pipeline, signal_id: str, kind: str, data: dict[str, Any]) -> None:
    brokers, signals = _declared(pipeline)
    value = json.dumps({"id": signal_id, "type": kind, "data": data})
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = kafka.client(Producer, brokers, **{"message.timeout.ms": int(SECONDS * 1000)})
    try:
        producer.produce(signals.topic, value.encode(), prefix(pipeline).encode(), on_delivery=report)
        left = producer.flush(SECONDS)
    except KafkaException as error:
        raise SourceUnavailable(f"{brokers.brokers}: {error.args[0].str()} (topic {signals.topic})") from error
    if failed or left:
        why = failed[0].str() if failed else "no answer"
        raise SourceUnavailable(f"{brokers.brokers}: the signal was not taken: {why} (topic {signals.topic})")


def prefix(pipeline: Pipeline) -> str:
    """Return the topic.prefix of the connector: the key of its signals."""
    _, signals = _declared(pipeline)
    return signals.prefix or str(pipeline.source.transaction_topic).removesuffix(".transaction")


def state_of(pipeline: Pipeline, request_id: str) -> SnapshotState:
    """Return what the connector said of a snapshot so far; raises SourceUnavailable where the topic cannot be read."""
    brokers, signals = _declared(pipeline)
    tables, is_over, problem = dict[str, str](), False, None
    notices = [each for each in _notices(brokers, pipeline.name, signals.notifications) if each.get("id") == request_id]
    for notice in notices:
        about = notice.get("additional_data") or {}
        kind = notice.get("type")
        if kind == "TABLE_SCAN_COMPLETED":
            tables[str(about.get("scanned_collection"))] = str(about.get("status"))
        elif kind == "COMPLETED":
            is_over = True
        elif kind in ("ABORTED", "SKIPPED"):
            is_over, problem = True, f"the connector says {kind}: ask again"
    times = [each["timestamp"] for each in notices if isinstance(each.get("timestamp"), int)]
    newest = datetime.fromtimestamp(max(times) / 1000, UTC) if times else None
    return SnapshotState(is_over, tables, problem, len(notices), newest)


def _notices(brokers: Kafka, pipeline: str, topic: str) -> list[dict[str, Any]]:
    notices = []
    for part in kafka.extents(brokers, [], former=[topic]):
        if part.until == part.first:
            continue
        for messages in kafka.read(brokers, pipeline, part):
            notices += [json.loads(value) for value in messages.values if value]
    return [notice.get("payload", notice) if "schema" in notice else notice for notice in notices]


def _declared(pipeline: Pipeline) -> tuple[Kafka, Signals]:
    source = pipeline.source
    assert source.kafka is not None and source.signals is not None
    return source.kafka, source.signals
