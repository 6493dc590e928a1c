"""repair: load the rows that an audit found to differ, as the source had them at that moment, and no others.

They become a transaction at the audit's csn, like a snapshot of just these rows: changes at or below the csn, whenever
they come, do not change them, later ones do. The audit proved that no change of such a row lies between its csn and the
cut that it compared, so that a repair may come at any time after it, and twice.

Before a row is landed the database is asked for it once more (`second_look`): a row that it has is never deleted. A
table of which more than `audit.repair.max_share` would be deleted or changed needs a person who allows the number.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.events.envelope import BEHIND
from txloom.events.formats import SourceDecoder
from txloom.events.images.reader import ImageReader
from txloom.quality import masking
from txloom.steps.audit.declared_source import declared_source
from txloom.steps.audit.differing_rows import Chosen, chosen_tables
from txloom.steps.audit.repair_limit import Share, exceeding, refusal
from txloom.steps.audit.second_look import SecondLook, look_again
from txloom.steps.landing.close_landing import close
from txloom.steps.landing.internal_transaction import REPAIR, InternalTransaction
from txloom.steps.landing.land_events import finish_last
from txloom.steps.step import Counts, Step
from txloom.storage.checks.audited_rows import AuditedTable, Repair
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list
from txloom.storage.landing import change_events, landing_plan, landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan, Task

LOG = logging.getLogger(__name__)


SIDES = {"D": "before", "U": "after", "r": "after"}
"""The image that a change has, by operation."""
LANDING_ROWS = 1_000_000
"""Positions that each landing has for its rows: what a later landing says of a row at the same csn stands."""


def repair(step: Step, chosen: Chosen, allowed_rows: int | None = None) -> Counts:
    """Land the rows that an audit found to differ; the next buffer_transactions and merge_current apply them.

    A row of which the database now says something else than the audit is left out, and so is one that cannot be read
    as declared; each is logged with the reason. A repeated call lands nothing more.

    Args:
        step: the pipeline, its tables and the run.
        chosen: which audits and tables.
        allowed_rows: how many rows a person allows to be deleted or changed, in all tables of which these are more than
            `audit.repair.max_share`; None: nobody was asked.

    Returns:
        tables, rows, changed_since (rows that the source no longer says the same of), left_out (rows that cannot be
        read), more (rows that differ and that audit_results does not list), landing and last_landing, if any.

    Raises:
        ConfigurationError: the audit found no row to differ in these tables; or too large a share of a table would be
            deleted or changed.
        SourceUnavailable: the database does not answer, or is at an earlier csn than the audit was.
    """
    audits = chosen_tables(step.pipeline, step.paths, chosen)
    landing_tables.create_tables(step.paths)
    last = finish_last(step)
    known = loaded_topics(step.paths)
    parts = [each for audited in audits for each in _parts(audited) if each.topic not in known]
    chosen_rows = sum(len(each.rows) for each in parts)
    certain, changed_since = _certain(step, audits, parts)
    parts = [part for part in certain if part.rows]
    _refuse_large_share(step, audits, parts, allowed_rows)
    landings = land_parts(step, parts, last + 1)
    rows = sum(landings.values())
    LOG.info(f"[repair] {rows} of {chosen_rows} rows landed; those of earlier calls are not landed again")
    if rows:
        LOG.info(f"[repair] to undo it: jobs/repair.py --undo {step.run_id}")
    counts: Counts = {
        "tables": len({each.table for each in parts}),
        "rows": rows,
        "changed_since": changed_since,
        "left_out": chosen_rows - changed_since - rows,
        "more": sum(each.unlisted for each in audits),
    }
    return counts | first_and_last(landings)


def first_and_last(landings: Mapping[int, int]) -> Counts:
    """Return the numbers of the first and the last landing as counts, where there are any."""
    return {"landing": min(landings), "last_landing": max(landings)} if landings else {}


@dataclass(frozen=True)
class Part:
    """Rows of a table as of one moment, and the topic under which their landing is planned."""

    table: str
    topic: str
    csn: int
    at: datetime | None
    rows: Sequence[Repair]


def _certain(step: Step, audits: Sequence[AuditedTable], parts: Sequence[Part]) -> tuple[list[Part], int]:
    """Ask the database once more; return the rows of which it says what the audit did, and how many it does not.

    Rows that an audit compared with files are returned as they are: files do not change.
    """
    live = {each.table: each for each in audits if each.snapshot is None}
    if not any(part.table in live for part in parts):
        return list(parts), 0
    pipeline, certain, changed_since = effective_pipeline(step.pipeline, step.paths), list[Part](), 0
    with declared_source(step.pipeline) as source:
        for part in parts:
            audited = live.get(part.table)
            if audited is None:
                certain.append(part)
                continue
            is_whole = audited.differing == len(audited.repairs)
            look = look_again(source, step.pipeline.table(part.table), part.rows, is_whole=is_whole)
            _log_left_out(pipeline, part, look)
            certain.append(replace(part, rows=look.certain))
            changed_since += len(look.left)
    return certain, changed_since


def _log_left_out(pipeline: Pipeline, part: Part, look: SecondLook) -> None:
    for row, reason in [*look.left, *look.unreadable]:
        LOG.warning(f"[repair] {part.table}: a row is left out: {reason}: {row_key(pipeline, part.table, row)}")


def _refuse_large_share(
    step: Step, audits: Sequence[AuditedTable], parts: Sequence[Part], allowed_rows: int | None
) -> None:
    """Raise ConfigurationError where more of a table would be deleted or changed than is declared and was allowed."""
    shares = []
    for audited in audits:
        going = sum(row.op != "r" for part in parts for row in part.rows if part.table == audited.table)
        shares.append(Share.of(step.pipeline, step.paths, audited, going))
    large = exceeding(shares)
    if sum(each.number for each in large) > (allowed_rows or 0):
        raise ConfigurationError(refusal(large, allowed_rows))


def _parts(audited: AuditedTable) -> list[Part]:
    in_order = sorted(audited.repairs, key=attrgetter("csn"))
    by_csn = [(csn, list(rows)) for csn, rows in groupby(in_order, attrgetter("csn"))]
    topic = f"{REPAIR}{audited.run_id}"
    return [Part(audited.table, f"{topic}:{csn}:{audited.table}", csn, rows[0].at, rows) for csn, rows in by_csn]


def loaded_topics(paths: TablePaths) -> set[str]:
    """Return the topics whose rows were landed: a landing whose run died after planning it stays empty."""
    is_repair = f"starts_with(topic, '{REPAIR}')"
    planned = small_tables.query(paths.landed_files, f"select landing, topic from t where {is_repair}")
    if not planned:
        return set()
    xids = text_list({f"{REPAIR}{row['landing']}" for row in planned})
    where = f"kind = 'metadata' and xid in ({xids})"
    landed = {row["landing"] for row in small_tables.query(paths.change_events, f"select landing from t where {where}")}
    return {row["topic"] for row in planned if row["landing"] in landed}


def land_parts(step: Step, parts: Sequence[Part], first: int) -> dict[int, int]:
    """Land rows, those of one csn as one transaction; return how many each landing has.

    first: the number of the first landing.
    """
    moments = [list(some) for _, some in groupby(sorted(parts, key=attrgetter("csn", "table")), attrgetter("csn"))]
    return {number: _land(step, some, number) for number, some in enumerate(moments, first)}


def _land(step: Step, parts: Sequence[Part], number: int) -> int:
    """Land the rows of one moment as one transaction; return how many there are of those that can be read."""
    at = LandingPlan(number, datetime.now(UTC), ())
    when = parts[0].at
    time = None if when is None else when.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    pipeline = effective_pipeline(step.pipeline, step.paths)
    load = InternalTransaction(pipeline, at, f"{REPAIR}{number}", parts[0].csn, time)
    begin, line, events, counts = BEHIND + number * LANDING_ROWS, 1, list[pa.Table](), dict[str, int]()
    for part in parts:
        some = _events(load, part, line, begin)
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


def _events(load: InternalTransaction, part: Part, line: int, begin: int) -> pa.Table:
    """Return rows as rows of change_events, without those that cannot be read.

    line: of the first. begin: the position in front of the transaction's rows.
    """
    reader, decoder = ImageReader(load.pipeline.table(part.table)), SourceDecoder(load.pipeline)
    messages = [
        load.message(part.table, row.op, begin + line + number, **{SIDES[row.op]: row.image.encode()})
        for number, row in enumerate(part.rows)
    ]
    lines, task = range(line, line + len(messages)), Task(0, names.LOAD, "", 0)
    events = load.landed(decoder, messages, task, lines)
    if problems := load.problems(events, reader, messages):
        for number, problem in problems.items():
            key = row_key(load.pipeline, part.table, part.rows[number])
            LOG.warning(f"[repair] {part.table}: a row is left out: {problem}: {key}")
        good = [number for number in range(len(messages)) if number not in problems]
        events = load.landed(decoder, [messages[each] for each in good], task, [lines[each] for each in good])
    return events


def row_key(pipeline: Pipeline, name: str, row: Repair) -> str:
    """Return the key of a row as text; values of secret columns are masked."""
    table, values = pipeline.table(name), json.loads(row.image)
    key = {each: values[table.column(each).source] for each in table.key}
    return masking.key_text(key, masking.secret_names(pipeline))
