"""The records of Kafka's topics that each landing takes, and those that an operator accepted as lost.

A row of `landed_offsets` is a plan (`lost` is null) or an accepted loss, which comes behind the plan of the landing
whose number it has. There are three kinds of loss: records that aged out (the same topic id, first below until), an end
that the brokers lost (the same id, until at or below first), and another topic under the name (another id). What
remains of a plan, and where the next one begins, is computed from the rows in their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.sources import kafka
from txloom.storage.sources.kafka import Loss, Reached
from txloom.storage.sources.splits import Range
from txloom.storage.system_tables import LANDED_OFFSETS

Row = dict[str, Any]
_RANGE = 'topic, topic_id, partition, "first", "until"'


def reached(paths: TablePaths) -> dict[tuple[str, int], Reached]:
    """Return by topic and partition up to where records were planned or accepted as lost, and what of it is unread."""
    newest = "row_number() over (partition by topic, partition order by landing desc) as n"
    sql = f"select landing, {_RANGE} from (select *, {newest} from t where lost is null) where n = 1"
    plans = {_key(row): row for row in small_tables.query(paths.table(names.LANDED_OFFSETS), sql)}
    reached_by_partition = {key: Reached(row["topic_id"], row["until"]) for key, row in plans.items()}
    for row in _losses(paths):
        if (plan := plans.get(_key(row))) is not None and row["landing"] >= plan["landing"]:
            reached_by_partition[_key(row)] = _behind(row, reached_by_partition[_key(row)])
    for part in unread(paths):
        reached_by_partition[part.topic, part.partition] = replace(
            reached_by_partition[part.topic, part.partition], unread=part.first
        )
    return reached_by_partition


def unread(paths: TablePaths) -> list[Range]:
    """Return the ranges of the newest landing that are planned and not read yet; [] where its reading is finished.

    That is where its run died, or its records are gone from the brokers.
    """
    newest = planned_last(paths)
    if newest is None or newest["landing"] <= landing_tables.last_read(paths):
        return []
    return planned(paths, newest["landing"])


def planned_last(paths: TablePaths) -> Row | None:
    """Return landing, run_id and at of the newest plan; None before there was one."""
    sql = "select landing, run_id, at from t where lost is null order by landing desc limit 1"
    rows = small_tables.query(paths.table(names.LANDED_OFFSETS), sql)
    return rows[0] if rows else None


def planned(paths: TablePaths, number: int) -> list[Range]:
    """Return the ranges that a landing takes: planned, and not accepted as lost since."""
    sql = f"select {_RANGE} from t where landing = {number} and lost is null order by topic, partition"
    plan = [Range(**row) for row in small_tables.query(paths.table(names.LANDED_OFFSETS), sql)]
    lost = [row for row in _losses(paths) if row["landing"] == number]
    kept = [_left(part, [row for row in lost if _key(row) == (part.topic, part.partition)]) for part in plan]
    return [part for part in kept if part.first < part.until]


def _left(part: Range, lost: Iterable[Row]) -> Range:
    """Return what remains of a planned range after losses that were accepted since."""
    for row in lost:
        if row["topic_id"] != part.topic_id:
            part = replace(part, first=part.until) if row["first"] < part.until else part
        elif row["first"] < row["until"]:
            part = replace(part, first=max(part.first, row["until"]))
        else:
            part = replace(part, until=min(part.until, row["until"]))
    return part


def _behind(row: Row, before: Reached) -> Reached:
    """Return where the next plan begins behind an accepted loss."""
    aged = row["topic_id"] == before.topic_id and row["first"] < row["until"]
    return Reached(row["topic_id"], max(before.until, row["until"]) if aged else row["until"])


def _losses(paths: TablePaths) -> list[Row]:
    """Return the accepted losses, in the order in which they apply."""
    sql = f'select landing, at, {_RANGE} from t where lost is not null order by landing, at, topic, partition, "first"'
    return small_tables.query(paths.table(names.LANDED_OFFSETS), sql)


def _key(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def losses(pipeline: Pipeline, paths: TablePaths) -> list[Loss]:
    """Return the records that were not landed yet and that the brokers do not hold any more.

    Raises SourceUnavailable where the brokers cannot be read.
    """
    return kafka.losses(*extents_and_reached(pipeline, paths))


def extents_and_reached(pipeline: Pipeline, paths: TablePaths) -> tuple[list[Range], dict[tuple[str, int], Reached]]:
    """Return the ranges that the brokers hold now of a pipeline's topics, and how far plans have reached in them."""
    assert pipeline.source.kafka is not None
    topics, known = kafka.topics_of(pipeline), reached(paths)
    former = {topic for (topic, _), each in known.items() if each.unread is not None} - {*topics}
    return kafka.extents(pipeline.source.kafka, topics, former), known


def refuse_unread(paths: TablePaths) -> None:
    """Raise ConfigurationError where a landing from Kafka is planned and not finished.

    It is called where the declaration has no `source.kafka`, so that nothing could finish the landing.
    """
    if unread(paths):
        raise ConfigurationError(
            "a landing from Kafka was planned and not finished: put source.kafka back until land_events has run"
        )


def write_plan(paths: TablePaths, about: Mapping[str, Any], parts: Sequence[Range]) -> list[Range]:
    """Record the ranges that a landing takes; where the landing has a plan already nothing is written.

    Args:
        paths: where the tables are.
        about: the columns landing, run_id and at.
        parts: the ranges.

    Returns:
        the ranges that the landing takes by its recorded plan.
    """
    rows = [{**about, **vars(part)} for part in parts]
    write_id = names.write_id(paths.pipeline, names.LANDED_OFFSETS, 0)
    small_tables.append(paths.table(names.LANDED_OFFSETS), rows, LANDED_OFFSETS, once=(write_id, about["landing"]))
    return planned(paths, about["landing"])


def give_up(paths: TablePaths, lost: Sequence[Loss], run_id: str, at: datetime, reason: str) -> None:
    """Record that an operator accepted losses, with the reason that was given: landing goes on behind them."""
    rows = [
        {
            "landing": _newest(paths),
            "run_id": run_id,
            "at": at,
            "topic": loss.extent.topic,
            "topic_id": loss.extent.topic_id,
            "partition": loss.extent.partition,
            "first": loss.since,
            "until": loss.until,
            "lost": f"{loss}; accepted: {reason}",
        }
        for loss in lost
    ]
    small_tables.append(paths.table(names.LANDED_OFFSETS), rows, LANDED_OFFSETS)


def _newest(paths: TablePaths) -> int:
    """Return the number of the landing that was planned last."""
    plan = planned_last(paths)
    return max(landing_plan.newest(paths), plan["landing"] if plan else 0)


def given_up_now(paths: TablePaths) -> list[Row]:
    """Return the losses that were accepted since the newest landing was planned."""
    return [row for row in _losses(paths) if row["landing"] == _newest(paths)]


def given_up(paths: TablePaths) -> list[Row]:
    """Return topic, partition, first, until, lost and at of the accepted losses, oldest first."""
    columns = 'topic, partition, "first", "until", lost, at'
    sql = f"select {columns} from t where lost is not null order by at, topic, partition"
    return small_tables.query(paths.table(names.LANDED_OFFSETS), sql)
