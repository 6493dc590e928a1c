"""Whether a cycle has anything to do: without this check a schedule would start a JVM every few minutes for nothing.

A cycle is skipped only when nothing is new at the source and time alone decides about nothing that txloom holds. Steps
that an earlier cycle did not finish are work too.
"""

from datetime import UTC, datetime

from txloom.config import names
from txloom.config.contents import digest_of, pipeline_content
from txloom.config.models.pipeline import Pipeline
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import reading
from txloom.storage.delta.sql import instant_literal
from txloom.storage.landing import (
    connector_snapshots,
    landing_plan,
    landing_tables,
    partition_watermarks,
    requested_snapshots,
)
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.watermark import gone
from txloom.storage.snapshots import rows_ahead


def reasons(pipeline: Pipeline, warehouse: str, waiting: int) -> list[str]:
    """Return why a cycle has something to do; []: it has nothing to do.

    Args:
        pipeline: the declaration.
        warehouse: where its tables are.
        waiting: how many records or files the source has that are new.
    """
    with reading():
        return _reasons(pipeline, TablePaths(warehouse, pipeline.name), waiting)


def _reasons(pipeline: Pipeline, paths: TablePaths, waiting: int) -> list[str]:
    why = [f"{waiting} new at the source"] if waiting else []
    why += unfinished(paths)
    why += _redeclared(pipeline, paths)
    why += [f"current table {name} is gone" for name in gone(paths, pipeline.current_tables)]
    why += _due(pipeline, paths, datetime.now(UTC))
    progress = connector_snapshots.progress(paths)
    if progress.snapshots.is_ending:
        why.append("a snapshot of the source has ended, and is shown by one more landing")
    if progress.initial is not None and _is_dismissed(paths, progress.initial):
        why.append("dead letters of the source's snapshot were dismissed")
    if pipeline.source.signals is not None and (under_way := requested_snapshots.open_requests(paths)):
        why.append(f"a snapshot of {', '.join(under_way[0].tables)} was asked for and is not loaded yet")
    if any(rows_ahead.is_certain(pipeline, paths, each) for each in rows_ahead.waiting(pipeline, paths)):
        why.append("rows of an incremental snapshot no longer have to wait")
    if pipeline.completeness.complete_now == "redrive" and (complete := open_letters.complete_now(paths)):
        why.append(f"{len(complete)} dead transactions are complete now")
    return why


def _redeclared(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return that the declaration changed since the newest batch, as a list of one or no reason."""
    seen = buffer_state(paths)
    content = digest_of(pipeline_content(pipeline))
    return ["the declaration changed"] if seen is not None and seen.declared.content != content else []


def _is_dismissed(paths: TablePaths, initial: int) -> bool:
    """Return whether somebody dismissed dead letters since the newest cut, which does not show a whole snapshot yet."""
    cut = newest_cut(paths, "valid_through, published_at")
    if cut is not None and cut["valid_through"] >= initial:
        return False
    since = "true" if cut is None else f"at > {instant_literal(cut['published_at'])}"
    return bool(small_tables.query(paths.table(names.DISMISSALS), f"select 1 as n from t where {since} limit 1"))


def unfinished(paths: TablePaths) -> list[str]:
    """Return the first step that earlier cycles did not finish, as a list of one or no reason."""
    last = landing_plan.newest(paths)
    if not last:
        return ["it never ran"]
    if landing_tables.last_finished(paths) < last:
        return [f"landing {last} is not finished"]
    seen = buffer_state(paths)
    if seen is None or seen.landing < last:
        return [f"landing {last} is not buffered"]
    merged = small_tables.newest(paths.table(names.LEDGER), "valid_through, counts, detail", "step = 'merge_current'")
    if merged is None or merged["detail"] is not None or merged["counts"]["release"] < seen.release:
        return ["what was released is not merged"]
    cut = newest_cut(paths, "valid_through")
    if cut is None or cut["valid_through"] < merged["valid_through"]:
        return [f"valid-through {merged['valid_through']} is not published"]
    return []


def _due(pipeline: Pipeline, paths: TablePaths, now: datetime) -> list[str]:
    """Return what time alone may decide by now: patience that ends, a silent partition that is no longer waited for."""
    waiting = small_tables.query(paths.table(names.PENDING_TRANSACTIONS), "select count(*) as n from t")
    why = []
    if waiting and waiting[0]["n"] and pipeline.completeness.rule != "progress":
        why.append(f"{waiting[0]['n']} transactions wait")
    idle = partition_watermarks.idle_after(pipeline)
    clocks = small_tables.query(paths.change_events, "select max(landed_at) as at from t where kind = 'clock'")
    if idle is not None and clocks:
        at = [datetime.fromtimestamp(row["at"] / 1e6, UTC) for row in partition_watermarks.as_rows(paths, pipeline)]
        silent = sum(clocks[0]["at"] - each < idle <= now - each for each in at)
        why += [f"{silent} partitions have been silent for {idle}"] if silent else []
    return why
