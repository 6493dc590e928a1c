"""land_events: append new events of the source to change_events, and a clock row."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Kafka
from txloom.events import formats
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.follow_snapshots import follow_snapshots
from txloom.steps.landing.land_ahead import land_ahead
from txloom.steps.landing.producer_checks import after_landing
from txloom.steps.landing.redecode import finish_redecoding, redecode_undecided
from txloom.steps.landing.unreadable_files import note_unreadable
from txloom.steps.step import Counts, Step
from txloom.storage.edits.refused_edits import refuse_other_csns
from txloom.storage.landing import (
    connector_snapshots,
    decoding,
    kafka_offsets,
    landing_plan,
    landing_tables,
    partition_watermarks,
)
from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_plan, files, kafka
from txloom.storage.sources.files import Inbox, Unchanged
from txloom.storage.sources.splits import LandingPlan, capped, fitting

LOG = logging.getLogger(__name__)


def land_events(step: Step) -> Counts:
    """Land every new record, or every new whole file, of the source, and a clock row even where nothing is new.

    Tasks decode large landings (`txloom.storage.spark.tasks`). A landing is first planned (in landed_files) and then
    written. One that an earlier run planned and did not finish is finished before a new one is planned, so that a
    repeated call lands nothing twice.

    Returns:
        landing: the number of the new landing; counts of its events by kind.

    Raises:
        SourceUnavailable: if the source cannot be read.
        SourceLost: if records that were not landed no longer exist.
        ConfigurationError: if the csns of an edited source cannot be compared with those that were landed.
    """
    landing_tables.create_tables(step.paths)
    plan = _last_planned(step.pipeline, step.paths)
    step = _read_as_landed(step, plan)
    last = redecode_undecided(step, follow_snapshots(step, _finish_planned(step, plan)), plan)
    return _finish(step, _plan(step, land_ahead(step, last) + 1))


def finish_last(step: Step) -> int:
    """Finish the landing that was planned last, if its run died; return its number, 0 for none."""
    plan = _last_planned(step.pipeline, step.paths)
    step = _read_as_landed(step, plan)
    return _finish_planned(step, plan)


def _read_as_landed(step: Step, plan: Sequence[dict[str, Any]]) -> Step:
    """Return the step with a source that knows its former names; refuse a source with csns of another kind.

    plan: the rows of the plan of the newest landing.
    """
    reading = landing_plan.last_reading(step.paths, plan) if plan else None
    refuse_other_csns(step.pipeline, step.paths, reading)
    return replace(step, pipeline=landing_plan.with_former(step.pipeline, reading))


def _finish_planned(step: Step, plan: Sequence[dict[str, Any]]) -> int:
    """Finish a planned landing, if its run died; return its number, 0 without a plan."""
    if not plan:
        return 0
    last: int = plan[0]["landing"]
    if landing_plan.is_redecoding(plan) and landing_tables.last_finished(step.paths) < last:
        finish_redecoding(step, landing_plan.landing_of(step.paths, plan))
        return last
    parts = kafka_offsets.planned(step.paths, last) if step.pipeline.source.kafka else ()
    _finish(step, landing_plan.landing_of(step.paths, plan, parts))
    return last


def _last_planned(pipeline: Pipeline, paths: TablePaths) -> Sequence[dict[str, Any]]:
    """Return the plan of the newest landing, completed where its run died between writing its two tables.

    Raises SourceLost if records that the plan names no longer exist.
    """
    if pipeline.source.kafka is None:
        kafka_offsets.refuse_unread(paths)
        return landing_plan.last_planned(paths)
    newest = kafka_offsets.planned_last(paths)
    if newest is not None and newest["landing"] > landing_plan.newest(paths):
        landing_plan.write_plan(paths, newest["landing"], [newest])
    if kafka_offsets.unread(paths):
        kafka.refuse_losses(pipeline.name, kafka_offsets.losses(pipeline, paths))
    return landing_plan.last_planned(paths)


def _plan(step: Step, number: int) -> LandingPlan:
    """Plan a new landing and store the plan."""
    if step.pipeline.source.kafka is not None:
        return _plan_topics(step, step.pipeline.source.kafka, number)
    return _plan_files(step, number)


def _plan_files(step: Step, number: int) -> LandingPlan:
    """Plan which files a new landing takes, from which byte on and up to which, and store the plan."""
    pipeline, paths = step.pipeline, step.paths
    assert pipeline.source.files is not None
    inbox, now = Inbox.of(pipeline), time.time_ns()
    root, unchanged = inbox.root, Unchanged(now, pipeline.source.files.settle, pipeline.completeness.patience)
    folders, there = files.topics(root), files.list_files(root)
    before = landing_plan.without_position(paths)
    is_finished = partial(inbox.is_finished, unchanged)
    known = file_plan.KnownFiles.of(paths, root, there, before, is_ordered=formats.is_ordered(pipeline))
    in_order = partial(formats.is_in_commit_order, pipeline)
    new = file_plan.plan(root, there, known, is_finished, pipeline.source.format, in_order)
    for file, count in new.waiting.items():
        LOG.info(f"info: {file} is still written: {count} later files of its topic wait for it")
    tasks = fitting(new.tasks) if formats.is_by_position(pipeline) else new.tasks
    at = datetime.fromtimestamp(now // 1000 / 1e6, UTC)
    if new.left_out or len(tasks) < len(new.tasks):
        connector_snapshots.note_left_out(pipeline, paths, number, at)
    partition_watermarks.announce(pipeline, paths, number, at, [(folder, None) for folder in folders])
    about = {"landing": number, "run_id": step.run_id, "at": at}
    base, watched = landing_plan.watched_rows(pipeline, about)
    rows = [{**base, **landing_plan.planned_file(task)} for task in tasks] or [base]
    landing_plan.write_plan(paths, number, [*rows, *watched])
    return LandingPlan(number, at, tuple(tasks), landing_plan.followed(paths, tasks, number), reads_source=True)


def _plan_topics(step: Step, source: Kafka, number: int) -> LandingPlan:
    """Plan which records a new landing takes, and store the plan; raise SourceLost where some no longer exist."""
    pipeline, paths = step.pipeline, step.paths
    topics = kafka.topics_of(pipeline)
    extents, reached = kafka.extents(source, topics), kafka_offsets.reached(paths)
    kafka.refuse_losses(pipeline.name, kafka.losses(extents, reached))
    at = datetime.now(UTC)
    partition_watermarks.announce(pipeline, paths, number, at, [(each.topic, each.partition) for each in extents])
    about = {"landing": number, "run_id": step.run_id, "at": at}
    taken = kafka.ranges(extents, reached, source)
    taken = capped(taken) if formats.is_by_position(pipeline) else taken
    if kafka.leaves_out(extents, taken):
        connector_snapshots.note_left_out(pipeline, paths, number, at)
    parts = kafka_offsets.write_plan(paths, about, taken)
    base, watched = landing_plan.watched_rows(pipeline, about)
    landing_plan.write_plan(paths, number, [base, *watched])
    return LandingPlan(number, at, tuple(landing_plan.tasks_of(parts)), reads_source=True)


def _reader(pipeline: Pipeline) -> decoding.Reader:
    source = pipeline.source.kafka
    return Inbox.of(pipeline) if source is None else kafka.Topics(source, pipeline.name)


def _finish(step: Step, planned: LandingPlan) -> Counts:
    """Write the events of a planned landing, then close it; {} where that was done before."""
    pipeline, paths = step.pipeline, step.paths
    if landing_tables.last_finished(paths) >= planned.number:
        return {}
    if planned.splits:
        new = partial(formats.SourceDecoder, pipeline, holds_ahead=True)
        ordered = formats.is_ordered(pipeline)
        landing_tables.write_events(step.session, new, _reader(pipeline), planned, paths, ordered=ordered)
        after_landing(pipeline, paths, planned.number, step.run_id)
        if pipeline.source.kafka is None:
            note_unreadable(paths, step.run_id)
    return close(step, planned)
