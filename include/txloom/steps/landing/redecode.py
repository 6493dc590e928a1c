"""Decode undecided transactions again where a declaration watches other tables than the buffer knows.

A landing decodes messages by the declaration of its time: rows of a table that was not watched are not counted, and
metadata counts watched tables only. When tables are added, removed, renamed, or get another source or key, the messages
of transactions that wait are landed once more, as the declaration says now, and replace what the buffer holds of them.
So a transaction is decided by one declaration. Rows of transactions that were released before are not landed again:
histories take them up (`txloom.steps.settling.settle`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.contents import digest_of, watched_content
from txloom.config.models.pipeline import Pipeline
from txloom.events import formats
from txloom.events.formats import SourceDecoder
from txloom.steps.landing.close_landing import close
from txloom.steps.step import Step
from txloom.storage.buffer.newest_batch import BufferState, buffer_state
from txloom.storage.declarations import undecided
from txloom.storage.declarations.source_samples import source_samples, watched_sources
from txloom.storage.landing import landing_plan, landing_tables
from txloom.storage.sources import file_positions
from txloom.storage.sources.splits import LandingPlan

LOG = logging.getLogger(__name__)


def redecode_undecided(step: Step, last: int, plan: Sequence[Mapping[str, Any]]) -> int:
    """Land the messages of undecided transactions again if an edit decodes them differently since the last landing.

    The edit changed the watched tables, or the names of topics or fields. If it names the topic of the metadata again,
    after a time in which the declaration named none, metadata that was refused meanwhile is decoded too.

    Such a landing is written for each change, also where nothing waits: it is the border between messages that were
    decoded by one declaration and by the next. A repeated call lands nothing more.

    Args:
        step: the pipeline, its tables and the run.
        last: the number of the last landing, which is finished.
        plan: the rows of the plan of the newest landing; none before the first.

    Returns:
        the number of the last landing, which may be a new one.
    """
    if not plan:
        return last
    watched = plan[0]["watched"] or landing_plan.last_watched(step.paths)
    is_read_so = landing_plan.is_read_so(step.pipeline, landing_plan.last_reading(step.paths, plan))
    if watched == digest_of(watched_content(step.pipeline)) and is_read_so:
        return last
    return land_edit(step, last + 1)


def land_edit(step: Step, number: int) -> int:
    """Land the messages of undecided transactions again, or write an empty landing; return its number.

    The buffer follows an edit of the declaration when it takes in this landing.

    Args:
        step: the pipeline, its tables and the run.
        number: the number of the landing.
    """
    step = replace(step, pipeline=landing_plan.as_landed(step.pipeline, step.paths))
    landing = LandingPlan(number, datetime.now(UTC), ())
    about = {"landing": landing.number, "run_id": step.run_id, "at": landing.at}
    row = landing_plan.watched_row(step.pipeline)
    landing_plan.write_plan(step.paths, landing.number, [about | row])
    finish_redecoding(step, landing)
    return landing.number


def finish_redecoding(step: Step, landing: LandingPlan) -> None:
    """Write a planned landing of messages that are decoded again, and close it; a repeated call writes nothing.

    Args:
        step: the pipeline, with what its source was declared as before, its tables and the run.
        landing: the landing.
    """
    pipeline, paths, seen = step.pipeline, step.paths, buffer_state(step.paths)
    waiting = undecided.Undecided(paths)
    messages = _messages(pipeline, seen, waiting)
    new = partial(SourceDecoder, pipeline, again=True)
    decode = partial(landing_tables.decode_again, new, number=landing.number, paths=paths)
    decoded: Iterable[pa.Table] = map(decode, messages)
    if formats.is_ordered(pipeline):
        decoded = _with_open_transactions(step, landing.number, list(decoded))
    else:
        decoded = chain(decoded, _refused_metadata(pipeline, waiting, decode))
    count = landing_tables.land_redecoded(decoded, landing, paths)
    close(step, replace(landing, redecodes=True))
    if count:
        LOG.info(
            f"the watched tables changed: {count} messages of undecided transactions are decoded again "
            f"(landing {landing.number})"
        )


def _refused_metadata(
    pipeline: Pipeline, waiting: undecided.Undecided, decode: Callable[[pa.Table], pa.Table]
) -> Iterator[pa.Table]:
    """Yield the metadata that was landed while the declaration did not name its topic, and that is still needed.

    Its messages were refused, because a row names its table. The metadata of finished transactions is left out.

    Args:
        pipeline: the declaration.
        waiting: the undecided transactions.
        decode: decodes messages again, by the declaration.
    """
    topics = {each.transaction_topic for each in (pipeline.source, *pipeline.source.former)} - {None}
    if pipeline.source.transaction_topic is None:
        return
    refused = waiting.refused([each for each in topics if each is not None])
    if not refused.num_rows:
        return
    events = decode(refused)
    metadata = events.filter(pc.equal(events.column("kind"), pa.scalar("metadata")))
    if metadata.num_rows and (new := waiting.without_metadata(metadata)).num_rows:
        yield new


def _with_open_transactions(step: Step, landing: int, decoded: list[pa.Table]) -> list[pa.Table]:
    """Let the files of an ordered source go on inside the transactions as they were decoded again; return these."""
    rows: dict[tuple[str, int], list[tuple[int, str | None]]] = {}
    for events in decoded:
        is_row = pc.and_(pc.is_valid(events.column("pos")), pc.is_valid(events.column("csn")))
        for row in events.filter(is_row).select(["xid", "csn", "pos", "table"]).to_pylist():
            rows.setdefault((row["xid"], row["csn"]), []).append((row["pos"], row["table"]))
    positions = file_positions.inside_transactions(step.paths)
    file_positions.write(step.paths, landing, [file_positions.recounted(each, rows) for each in positions])
    return decoded


def _messages(pipeline: Pipeline, seen: BufferState | None, waiting: undecided.Undecided) -> Iterator[pa.Table]:
    """Yield the messages of undecided transactions in parts, each in the order in which it is decoded."""
    is_ordered = formats.is_ordered(pipeline)
    transactions = waiting.transactions(seen)
    events = waiting.deliveries(transactions) if is_ordered else waiting.messages(transactions)
    if events.num_rows:
        yield events
    if not is_ordered:
        samples = source_samples(waiting.paths, undecided.UNWATCHED)
        yield from waiting.unwatched(sorted(watched_sources(pipeline, samples)), transactions)
