"""Whether the earlier steps of a cycle worked by the present declaration: its file may be edited while a cycle runs.

A step that would work by another declaration than the steps before it leaves its work to the next cycle.
"""

from txloom.config.contents import digest_of, pipeline_content, watched_content
from txloom.config.models.pipeline import Pipeline
from txloom.storage.buffer.newest_batch import BufferState, buffer_state
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import LastMerge


def is_landed(pipeline: Pipeline, paths: TablePaths) -> bool:
    """Return whether the newest messages were decoded by a declaration; True where that was not kept."""
    watched = landing_plan.last_watched(paths)
    return watched is None or watched == digest_of(watched_content(pipeline))


def is_buffered(pipeline: Pipeline, seen: BufferState) -> bool:
    """Return whether a batch of the buffer worked by a declaration; True where that was not kept.

    pipeline: the declaration, without columns that tables took up.
    """
    return seen.declared.content in ("", digest_of(pipeline_content(pipeline)))


def is_merged(pipeline: Pipeline, paths: TablePaths, last: LastMerge) -> bool:
    """Return whether the current tables were merged by a declaration; True where that was not kept.

    A table that a declaration leaves out keeps its earlier stamp, so that the entry of the last merge has to agree too.

    Args:
        pipeline: the declaration, without columns that tables took up.
        paths: the tables of the pipeline.
        last: the last merge; if one of its stamps is "", the newest batch of the buffer decides.
    """
    content = digest_of(pipeline_content(pipeline))
    if last.declared not in (None, content):
        return False
    if "" not in last.stamps:
        return {stamp.rpartition("/")[2] for stamp in last.stamps} == {content}
    seen = buffer_state(paths)
    return seen is None or is_buffered(pipeline, seen)
