"""dry-run: what a pipeline would make of a sample of its source, in a warehouse that is thrown away.

The steps are those of a cycle. The source is only read: of files a copy is taken, of Kafka's topics so many records as
one landing may take.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from txloom.config.models.pipeline import Pipeline
from txloom.config.project import PROJECT
from txloom.errors import ExpectationFailed, TxloomError
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.step import Counts, Step
from txloom.storage.paths import TablePaths
from txloom.storage.sources.files import SourceFile, list_files
from txloom.storage.stores.places import below, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "dry-run"
RECORDS = 100_000
"""Records of Kafka's topics that are taken."""
LINES = (".json", ".jsonl", ".csv")
BYTES = 50_000_000
"""Bytes of files that are taken."""


def dry_run(pipeline: Pipeline, scratch: Path, session: "Callable[[], SparkSession]") -> Mapping[str, Counts]:
    """Land, buffer, merge and check a sample; return the counts of each step.

    Args:
        pipeline: the declaration; not of snapshots, whose extracts are compared by date.
        scratch: a folder for the sample and its tables.
        session: returns a Spark session.

    Raises:
        TxloomError: a step cannot go on; of expectations that fail none is raised.
    """
    taken = sampled(pipeline, scratch)
    step = Step(taken, TablePaths(str(scratch / "lake"), pipeline.name), RUN, session)
    counts = dict[str, Counts]()
    for each in (land_events, buffer_transactions, merge_current):
        counts[each.__name__] = each(step)
    if taken.expectations:
        try:
            counts["check_expectations"] = check_expectations(step)
        except ExpectationFailed:
            counts["check_expectations"] = {}
    return counts


def sampled(pipeline: Pipeline, scratch: Path) -> Pipeline:
    """Return the pipeline with a sample as its source.

    Raises TxloomError for a source of extracts.
    """
    source = pipeline.source
    if source.snapshots is not None:
        raise TxloomError("extracts are compared by date: run jobs/diff_snapshot.py with another --warehouse")
    if source.kafka is not None:
        kafka = source.kafka.model_copy(update={"messages_per_run": min(source.kafka.messages_per_run, RECORDS)})
        return pipeline.model_copy(update={"source": source.model_copy(update={"kafka": kafka})})
    assert source.files is not None
    inbox = scratch / "inbox"
    _copy(str(below(PROJECT, source.files.path)), inbox)
    files = source.files.model_copy(update={"path": str(inbox)})
    return pipeline.model_copy(update={"source": source.model_copy(update={"files": files})})


def _copy(root: str, inbox: Path) -> None:
    """Copy the oldest files of each topic, so many bytes of all together; of a file that is too large its beginning."""
    inbox.mkdir(parents=True)
    by_topic: dict[str, list[SourceFile]] = {}
    for file in sorted(list_files(root), key=lambda each: (each.modified, each.file)):
        by_topic.setdefault(file.topic, []).append(file)
    for topic, files in by_topic.items():
        left = BYTES // len(by_topic)
        (inbox / topic).mkdir()
        for file in files:
            if left <= 0:
                break
            if content := _beginning(root, file, left):
                (inbox / file.file).write_bytes(content)
            left -= file.size


def _beginning(root: str, file: SourceFile, most: int) -> bytes:
    """Return a file, or its first whole lines where it is larger; one that is compressed or has no lines as a whole."""
    with place(root, file.file).open("rb") as stream:
        if file.size <= most or not file.file.endswith(LINES):
            return bytes(stream.read())
        content = bytes(stream.read(most))
        return content[: content.rfind(b"\n") + 1]
