"""check_source: whether the source can be landed now. It writes nothing and needs no Spark."""

import logging
from collections import Counter

from txloom.config.models.pipeline import Pipeline
from txloom.steps.step import Counts, Step
from txloom.storage.landing import kafka_offsets, landing_plan
from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_positions, files, kafka
from txloom.storage.sources.file_plan import KnownFiles
from txloom.storage.sources.files import Inbox

LOG = logging.getLogger(__name__)


def check_source(step: Step) -> Counts:
    """Check everything that land_events needs of its source, and count what is new there.

    Files that cannot be read are logged and stop nothing.

    Returns:
        topics and waiting: how many topics there are, and how many records or files are new; partitions,
        partitions_added and waiting.TOPIC of Kafka; bytes of files.

    Raises:
        SourceUnavailable: if a folder, a broker or a topic does not exist or does not answer.
        SourceLost: if records that were not landed no longer exist; also those that an unfinished landing has planned.
    """
    count = _folders if step.pipeline.source.kafka is None else _topics
    return {**count(step.pipeline, step.paths)}


def _topics(pipeline: Pipeline, paths: TablePaths) -> dict[str, int]:
    extents, known = kafka_offsets.extents_and_reached(pipeline, paths)
    kafka.refuse_losses(pipeline.name, kafka.losses(extents, known))
    before = {topic for topic, _ in known}
    added = [each for each in extents if each.topic in before and (each.topic, each.partition) not in known]
    for each in added:
        LOG.info(f"info: {each.topic}[{each.partition}] is new: landing begins at its first record")
    waiting = Counter(dict.fromkeys(kafka.topics_of(pipeline), 0))
    for each in extents:
        at = known.get((each.topic, each.partition))
        waiting[each.topic] += each.until - (each.first if at is None else at.needed)
    counts = {"topics": len(waiting), "partitions": len(extents), "partitions_added": len(added)}
    return counts | {"waiting": waiting.total()} | {f"waiting.{topic}": waiting[topic] for topic in sorted(waiting)}


def _folders(pipeline: Pipeline, paths: TablePaths) -> dict[str, int]:
    kafka_offsets.refuse_unread(paths)
    root = Inbox.of(pipeline).root
    listed = files.list_files(root)
    positions = file_positions.newest(paths, (file.file for file in listed))
    known = KnownFiles(positions, landing_plan.without_position(paths))
    for position in file_positions.unreadable(paths):
        LOG.warning(f"warn: {position.file} cannot be read: {position.problem}")
    new = [file for file in listed if known.is_new(root, file)]
    return {
        "topics": len({file.topic for file in listed}),
        "waiting": len(new),
        "bytes": sum(file.size for file in new),
    }
