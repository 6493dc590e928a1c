"""Land rows again, with their tables, after they waited for the stream to pass the moment of their read (ADR 55)."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from txloom.config import names
from txloom.events.formats import SourceDecoder
from txloom.steps.landing.close_landing import close
from txloom.steps.step import Step
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.landing import change_events, landing_plan, landing_tables
from txloom.storage.snapshots import rows_ahead
from txloom.storage.snapshots.rows_ahead import Waiting
from txloom.storage.sources.splits import LandingPlan

LOG = logging.getLogger(__name__)
TOPIC = f"{names.SYSTEM_PREFIX}rows_ahead"
"""The topic in the plans of landings that land such rows again."""


def land_ahead(step: Step, last: int) -> int:
    """Land the waiting rows again that the current tables may show now; return the number of the last landing.

    If a run dies during the landing, the rows still wait, and the next run lands them; rows that were landed twice are
    duplicates.

    last: the number of the last landing before, which is finished.
    """
    for each in rows_ahead.waiting(step.pipeline, step.paths):
        if rows_ahead.is_certain(step.pipeline, step.paths, each):
            last += 1
            _land(step, each, last)
    return last


def _land(step: Step, each: Waiting, number: int) -> None:
    """Land the waiting rows of one landing again, and record that they no longer wait."""
    paths, landing = step.paths, LandingPlan(number, datetime.now(UTC), ())
    landing_plan.write_topics(paths, landing, step.run_id, [TOPIC])
    messages = rows_ahead.messages(paths, each.landing)
    if messages.num_rows:
        new = partial(SourceDecoder, step.pipeline, again=True)
        decoded = landing_tables.decode_again(new, messages, number, paths)
        rows = change_events.landed_again(decoded, landing)
        known = finished_before(paths, rows)
        landing_tables.append(change_events.with_compact_events(rows, landing, known=known), landing, paths)
    rows_ahead.note_landed(paths, landing, each.landing)
    close(step, replace(landing, lands_ahead=True))
    LOG.info(
        f"{each.rows} rows of an incremental snapshot (landing {each.landing}) are taken in (landing {number}): "
        "the stream has passed the moment at which the connector read them"
    )
