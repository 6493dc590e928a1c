"""repair: load the rows that an audit found to differ, as the source had them at that moment, and no others.

They become a transaction at the audit's csn, like a snapshot of just these rows: changes at or below the csn, whenever
they come, do not change them, later ones do. The audit proved that no change of such a row lies between its csn and the
cut that it compared, so that a repair may come at any time after it, and twice.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.envelope import BEHIND
from txloom.events.formats import SourceDecoder
from txloom.events.images.reader import ImageReader
from txloom.quality import masking
from txloom.steps.audit.differing_rows import Chosen, chosen_tables
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.internal_transaction import REPAIR, InternalTransaction
from txloom.steps.landing.land_events import finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.checks.audited_rows import AuditedTable, Repair
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list
from txloom.storage.landing import change_events, landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan, Task
from txloom.storage.targets.undeclared_columns import effective_pipeline

LOG = logging.getLogger(__name__)


SIDES = {"D": "before", "U": "after", "r": "after"}
"""The image that a change has, by operation."""


def repair(step: Step, chosen: Chosen) -> Counts:
    """Land the rows that an audit found to differ; the next buffer_transactions and merge_current apply them.

    A row that cannot be read as declared is left out, and logged with the reason. A repeated call lands nothing more.

    Returns:
        tables, rows, left_out (rows), more (rows that differ and that audit_results does not list), landing and
        last_landing, where there are any.

    Raises:
        ConfigurationError: the audit found no row to differ in these tables.
    """
    audits = chosen_tables(step.paths, chosen)
    landing_tables.create_tables(step.paths)
    last = finish_last(step)
    loaded = _loaded(step.paths)
    parts = [each for audited in audits for each in _parts(audited) if each.topic not in loaded]
    moments = [list(some) for _, some in groupby(sorted(parts, key=attrgetter("csn", "table")), attrgetter("csn"))]
    landings = range(last + 1, last + 1 + len(moments))
    rows = [_land(step, some, number) for number, some in zip(landings, moments, strict=True)]
    chosen_rows = sum(len(each.rows) for each in parts)
    LOG.info(f"[repair] {sum(rows)} of {chosen_rows} rows landed; those of earlier calls are not landed again")
    counts: Counts = {
        "tables": len({each.table for each in parts}),
        "rows": sum(rows),
        "left_out": chosen_rows - sum(rows),
        "more": sum(each.differing - len(each.repairs) for each in audits),
    }
    return counts | ({"landing": landings[0], "last_landing": landings[-1]} if landings else {})


@dataclass(frozen=True)
class _Part:
    """Rows of a table that an audit saw at one moment, and the topic under which their landing is planned."""

    table: str
    topic: str
    csn: int
    at: datetime | None
    rows: Sequence[Repair]


def _parts(audited: AuditedTable) -> list[_Part]:
    in_order = sorted(audited.repairs, key=attrgetter("csn"))
    by_csn = [(csn, list(rows)) for csn, rows in groupby(in_order, attrgetter("csn"))]
    topic = f"{REPAIR}{audited.run_id}"
    return [_Part(audited.table, f"{topic}:{csn}:{audited.table}", csn, rows[0].at, rows) for csn, rows in by_csn]


def _loaded(paths: TablePaths) -> set[str]:
    """Return the topics whose rows were landed: a landing whose run died after planning it stays empty."""
    is_repair = f"starts_with(topic, '{REPAIR}')"
    planned = small_tables.query(paths.landed_files, f"select landing, topic from t where {is_repair}")
    if not planned:
        return set()
    xids = text_list({f"{REPAIR}{row['landing']}" for row in planned})
    where = f"kind = 'metadata' and xid in ({xids})"
    landed = {row["landing"] for row in small_tables.query(paths.change_events, f"select landing from t where {where}")}
    return {row["topic"] for row in planned if row["landing"] in landed}


def _land(step: Step, parts: Sequence[_Part], number: int) -> int:
    """Land the rows of one moment as one transaction; return how many there are of those that can be read."""
    at = LandingPlan(number, datetime.now(UTC), ())
    when = parts[0].at
    time = None if when is None else when.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    pipeline = effective_pipeline(step.pipeline, step.paths)
    load = InternalTransaction(pipeline, at, f"{REPAIR}{number}", parts[0].csn, time)
    line, events, counts = 1, list[pa.Table](), dict[str, int]()
    for part in parts:
        some = _events(load, part, line)
        line += len(part.rows)
        counts[part.table] = some.num_rows
        events.append(some)
    counts = {table: count for table, count in counts.items() if count}
    landing_plan.write_topics(step.paths, at, step.run_id, [part.topic for part in parts])
    if counts:
        every = pa.concat_tables([*events, load.landed_metadata(counts, line)])
        landing_tables.append(change_events.with_compact_events(every, at), at, step.paths)
    close(step, at)
    return sum(counts.values())


def _events(load: InternalTransaction, part: _Part, line: int) -> pa.Table:
    """Return rows as rows of change_events, without those that cannot be read; line: of the first."""
    reader, decoder = ImageReader(load.pipeline.table(part.table)), SourceDecoder(load.pipeline)
    messages = [
        load.message(part.table, row.op, BEHIND + line + number, **{SIDES[row.op]: row.image.encode()})
        for number, row in enumerate(part.rows)
    ]
    lines, task = range(line, line + len(messages)), Task(0, names.LOAD, "", 0)
    events = load.landed(decoder, messages, task, lines)
    if problems := load.problems(events, reader, messages):
        for number, problem in problems.items():
            LOG.warning(f"[repair] {part.table}: a row is left out: {problem}: {_key(load.pipeline, part, number)}")
        good = [number for number in range(len(messages)) if number not in problems]
        events = load.landed(decoder, [messages[each] for each in good], task, [lines[each] for each in good])
    return events


def _key(pipeline: Pipeline, part: _Part, number: int) -> str:
    table, row = pipeline.table(part.table), json.loads(part.rows[number].image)
    key = {name: row[table.column(name).source] for name in table.key}
    return masking.key_text(key, masking.secret_names(pipeline))
