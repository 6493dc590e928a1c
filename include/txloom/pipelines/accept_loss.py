"""accept_loss: go on behind records of Kafka that are lost, because an operator says so; it is written down."""

from collections.abc import Sequence
from datetime import UTC, datetime

from txloom.config.models import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage import books, findings, kafka, landing, loads, offsets
from txloom.storage.place import Place


def accept_loss(
    _spark: object, pipeline: Pipeline, *, warehouse: str, run_id: str, topics: Sequence[str], reason: str
) -> dict[str, int]:
    """Accept what is lost now of some topics: the next landing begins behind it.

    The ledger, a finding and every cut tell of it until a snapshot of all tables was loaded. Raises ConfigurationError
    for a topic that is not the pipeline's or has lost nothing.
    """
    if pipeline.source.kafka is None:
        raise ConfigurationError(f"pipeline {pipeline.name} reads files: there are no topics")
    place = Place(warehouse, pipeline.name)
    landing.create_tables(place)
    own = kafka.topics_of(pipeline)
    lost = kafka.losses(kafka.extents(pipeline.source.kafka, own), offsets.reached(place))
    for topic in topics:
        if topic not in {loss.extent.topic for loss in lost}:
            known = ", ".join(sorted({loss.extent.topic for loss in lost})) or "none"
            raise ConfigurationError(f"topic {topic!r} has lost nothing; topics with losses: {known}")
    accepted = [loss for loss in lost if loss.extent.topic in topics]
    at = datetime.now(UTC)
    detail = "; ".join(f"{loss} (accepted: {reason})" for loss in accepted)
    behind = (loads.newest(place) or 0) + 1
    findings.record(place, [Finding(f.LOST, None, None, behind, None, detail)], run_id)
    offsets.give_up(place, accepted, run_id, at, reason)
    counts = {"partitions": len(accepted)}
    books.write_ledger(warehouse, pipeline.name, books.Entry(run_id, "accept_loss", at, counts, detail=detail))
    return counts
