"""accept_loss: go on behind records of Kafka that are lost, because an operator says so; it is written down."""

from collections.abc import Sequence
from datetime import UTC, datetime

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage import books, findings, landing, loads, local, offsets
from txloom.storage.kafka import Loss
from txloom.storage.place import Place

STEP = "accept_loss"


def accept_loss(
    _spark: object, pipeline: Pipeline, *, warehouse: str, run_id: str, topics: Sequence[str], reason: str
) -> dict[str, int]:
    """Accept what is lost now of some topics: landing goes on behind it, that of an unfinished landing too.

    The ledger, a finding and every cut tell of it until a snapshot of all tables was loaded. Done twice it changes
    nothing more. Raises ConfigurationError for a topic that is not the pipeline's or has lost nothing.
    """
    if pipeline.source.kafka is None:
        raise ConfigurationError(f"pipeline {pipeline.name} reads files: there are no topics")
    place = Place(warehouse, pipeline.name)
    landing.create_tables(place)
    lost = offsets.losses(pipeline, place)
    _refuse_unknown(topics, lost, {row["topic"] for row in offsets.given_up_now(place)})
    accepted = [loss for loss in lost if loss.extent.topic in topics]
    counts = {"partitions": len({(loss.extent.topic, loss.extent.partition) for loss in accepted})}
    if accepted:
        detail = "; ".join(f"{loss} (accepted: {reason})" for loss in accepted)
        behind = (loads.newest(place) or 0) + 1
        findings.record(place, [Finding(f.LOST, None, None, behind, None, detail)], run_id)
        offsets.give_up(place, accepted, run_id, _entered(place, run_id, counts, detail), reason)
    return counts


def _refuse_unknown(topics: Sequence[str], lost: Sequence[Loss], before: set[str]) -> None:
    """Refuse a topic that has lost nothing; before: those whose loss was accepted a moment ago."""
    losing = {loss.extent.topic for loss in lost}
    for topic in topics:
        if topic not in losing | before:
            known = ", ".join(sorted(losing)) or "none"
            raise ConfigurationError(f"topic {topic!r} has lost nothing; topics with losses: {known}")


def _entered(place: Place, run_id: str, counts: dict[str, int], detail: str) -> datetime:
    """Enter a loss in the ledger and return when that was: once, though a run died before it was given up."""
    sql = f"select at from t where step = '{STEP}' and detail = {local.quoted(detail)} order by at desc limit 1"
    before = books.query(place.table(names.LEDGER), sql)
    if before and before[0]["at"] not in {row["at"] for row in offsets.given_up(place)}:
        at: datetime = before[0]["at"]
        return at
    now = datetime.now(UTC)
    books.write_ledger(place.warehouse, place.pipeline, books.Entry(run_id, STEP, now, counts, detail=detail))
    return now
