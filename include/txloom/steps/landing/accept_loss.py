"""accept_loss: continue behind lost records of Kafka, or lost files, because an operator says so; it is recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.landing.unreadable_files import close_readable
from txloom.steps.step import Counts, Step
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.landing import kafka_offsets, landing_plan, landing_tables, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.sources import file_positions
from txloom.storage.sources.kafka import Loss

STEP = "accept_loss"


def accept_loss(step: Step, *, topics: Sequence[str] = (), files: Sequence[str] = (), reason: str) -> Counts:
    """Accept what topics have lost, or files that cannot be read: landing continues behind it.

    The ledger has it, and a finding and every cut name it until a snapshot of all tables was loaded. A repeated call
    changes nothing more.

    Args:
        step: the pipeline, its tables and the run.
        topics: topics whose lost records are accepted.
        files: files that cannot be read, instead.
        reason: why, and who decided it.

    Returns:
        partitions, or files: how many were accepted now.

    Raises:
        ConfigurationError: for topics and files at once or neither, for a topic that is not the pipeline's or has lost
            nothing, and for a file that could be read.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    if bool(topics) == bool(files):
        raise ConfigurationError("name either topics (--topic) or files (--file) whose loss is accepted")
    if (pipeline.source.kafka is None) == bool(topics):
        raise ConfigurationError(_other_source(pipeline))
    landing_tables.create_tables(paths)
    if files:
        return {**_accept_files(paths, run_id, files, reason)}
    lost = kafka_offsets.losses(pipeline, paths)
    _refuse_unknown(topics, lost, {row["topic"] for row in kafka_offsets.given_up_now(paths)})
    accepted = [loss for loss in lost if loss.extent.topic in topics]
    counts = {"partitions": len({(loss.extent.topic, loss.extent.partition) for loss in accepted})}
    if accepted:
        detail = "; ".join(f"{loss} (accepted: {reason})" for loss in accepted)
        at = _written_down(paths, run_id, counts, detail, kafka_offsets.given_up(paths))
        kafka_offsets.give_up(paths, accepted, run_id, at, reason)
    return {**counts}


def _other_source(pipeline: Pipeline) -> str:
    if pipeline.source.kafka is None:
        return f"pipeline {pipeline.name} reads files: there are no topics"
    return f"pipeline {pipeline.name} reads Kafka: there are no files"


def _accept_files(paths: TablePaths, run_id: str, files: Sequence[str], reason: str) -> dict[str, int]:
    """Set files aside: landings leave them out until they change."""
    known = {position.file: position for position in file_positions.newest(paths, files).values()}
    unreadable = {position.file: position for position in file_positions.unreadable(paths)}
    for file in files:
        if file not in unreadable and (file not in known or known[file].lost is None):
            names_of = ", ".join(sorted(unreadable)) or "none"
            raise ConfigurationError(f"file {file!r} is not one that cannot be read; those are: {names_of}")
    accepted = [unreadable[file] for file in dict.fromkeys(files) if file in unreadable]
    counts = {"files": len(accepted)}
    if accepted:
        detail = "; ".join(f"{each.file}: {each.problem} (accepted: {reason})" for each in accepted)
        at = _written_down(paths, run_id, counts, detail, file_positions.set_aside(paths))
        file_positions.write(
            paths, landing_plan.newest(paths), [file_positions.accepted(each, reason) for each in accepted], at
        )
        left = [each for name, each in unreadable.items() if name not in files]
        close_readable(paths, left, run_id, f"set aside: {reason}")
    return counts


def _written_down(
    paths: TablePaths, run_id: str, counts: dict[str, int], detail: str, before: Sequence[dict[str, Any]]
) -> datetime:
    """Record a loss among the findings and in the ledger; return the time of the ledger's row."""
    behind = (loaded_snapshots.newest(paths) or 0) + 1
    findings.record(paths, [Finding(f.LOST, None, None, behind, None, detail)], run_id)
    return _entered(paths, run_id, counts, detail, {row["at"] for row in before})


def _refuse_unknown(topics: Sequence[str], lost: Sequence[Loss], before: set[str]) -> None:
    """Raise ConfigurationError for a topic that has lost nothing.

    before: topics whose loss is accepted already.
    """
    losing = {loss.extent.topic for loss in lost}
    for topic in topics:
        if topic not in losing | before:
            known = ", ".join(sorted(losing)) or "none"
            raise ConfigurationError(f"topic {topic!r} has lost nothing; topics with losses: {known}")


def _entered(paths: TablePaths, run_id: str, counts: dict[str, int], detail: str, done: set[datetime]) -> datetime:
    """Append a loss to the ledger, and return the time of its row.

    A row of a run that died before the loss was accepted is used again. done: the times of rows whose loss was
    accepted.
    """
    sql = f"select at from t where step = '{STEP}' and detail = {text_literal(detail)} order by at desc limit 1"
    before = small_tables.query(paths.table(names.LEDGER), sql)
    if before and before[0]["at"] not in done:
        at: datetime = before[0]["at"]
        return at
    now = datetime.now(UTC)
    write_ledger(paths.warehouse, paths.pipeline, Entry(run_id, STEP, now, counts, detail=detail))
    return now
