"""The health of pipelines: red, amber or green, with the reasons in words, worst first.

A problem is what alerts judge to be one (`txloom.quality.incidents`), with the limits that the pipeline declares. In
addition, open dead letters that are no incident make a pipeline amber, and failed tasks that nobody has cleared make it
red.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.config.models.alerts import Alerts
from txloom.config.models.pipeline import Pipeline
from txloom.config.stand_in import stand_in
from txloom.quality import incidents as rules
from txloom.quality.incidents import Facts, Incident, moment
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.health.facts import cut_of, facts, holder_of, lifecycles_of
from txloom.storage.health.remembered import Memory, keep, remembered, remembering
from txloom.storage.landing import connector_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import unread_snapshots
from txloom.storage.runs import lease
from txloom.storage.snapshots import rows_ahead
from txloom.storage.views.paging import open_tables
from txloom.storage.views.pipeline.changes import Changes, brief

RED, AMBER, GREEN, GREY = "red", "amber", "green", "grey"
COLORS = (RED, AMBER, GREEN, GREY)
"""Worst first; grey: nothing was ever landed, and no limit says that it should have been."""
UNREADABLE, REFUSED = "tables cannot be read", "declaration refused"
SEVERITIES = {"error": RED, "warn": AMBER}
_CREDENTIALS = re.compile(r"://[^/@\s]+@")
_COLORING = re.compile("\x1b\\[[0-9;]*m")
SNAPSHOT = "snapshot under way"
WAITS = (
    "Nothing, while the connector's snapshot runs: readers see all of it at once, when it is over. Where it is over at "
    "the source, ask the connector: its last row, or a transaction behind it, has not come."
)
AHEAD = "rows wait for the stream"
PASSED = (
    "Nothing, while the source commits. If the source is quiet, let a heartbeat write a row (heartbeat.action.query). "
    "To avoid the wait, let the connector keep its watermarks in a table, and name the table in "
    "source.signals.watermarks."
)
UNREAD = "snapshot cannot be read"
READABLE = (
    "Correct the declaration, or the value at the source, so that the rows can be read, and redrive them: then readers "
    "see the snapshot whole. Where they are dismissed, they see it without them."
)
LOG = logging.getLogger(__name__)
RECENT = timedelta(days=30)
AT_ONCE = 4
"""Pipelines that are read in parallel."""


@dataclass(frozen=True)
class Reason:
    """One thing that makes a pipeline red or amber; page: the path below Airflow's URL that shows more."""

    kind: str
    subject: str
    severity: str
    what: str
    todo: str
    since: datetime | None
    total: int
    rows: tuple[str, ...]
    page: str


@dataclass(frozen=True)
class Health:
    """The health of one pipeline; counts are None where tables could not be read, times where there are none yet."""

    pipeline: str
    color: str
    reasons: tuple[Reason, ...]
    dag_id: str = ""
    description: str = ""
    owner: str = ""
    schedule: str | None = None
    valid_through: int | None = None
    committed_at: datetime | None = None
    """When the source committed the newest transaction that readers see."""
    age_seconds: int | None = None
    """The age of what readers see, by the source's clock."""
    waiting: int | None = None
    waiting_since: datetime | None = None
    dead_letters: int | None = None
    cut_id: int | None = None
    published_at: datetime | None = None
    gaps: int | None = None
    needs_snapshot: tuple[str, ...] = ()
    lease: dict[str, Any] | None = None
    """The holder of the lease now: run_id, step, host, pid, acquired_at; silent_since: its process is gone, or hangs.
    """
    landed_at: datetime | None = None
    """When a landing last brought something new."""
    as_of: datetime | None = None
    empty_at: str = ""
    """The folder without any table, where there is none: nothing ran yet, or the warehouse is the wrong one."""


@dataclass(frozen=True)
class Overview:
    """All pipelines, worst first; counts: pipelines by color; changes: what changed since a moment, by pipeline."""

    rows: list[Health]
    counts: dict[str, int]
    as_of: datetime
    changes: dict[str, Changes] = field(default_factory=dict)


def overview(
    pipelines: Sequence[Pipeline],
    warehouse: str,
    *,
    refused: Mapping[str, str] | None = None,
    now: datetime | None = None,
    since: datetime | None = None,
) -> Overview:
    """Return the health of pipelines; refused: why declarations could not be read, by name; since: also changes."""
    at = now or datetime.now(UTC)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        read = list(threads.map(lambda each: _row(each, warehouse, at, since), pipelines))
    rows = [row for row, _ in read]
    changed = {row.pipeline: changes for row, changes in read if changes is not None}
    rows += [refused_health(name, why, warehouse, now=at) for name, why in (refused or {}).items()]
    rows.sort(key=lambda row: (COLORS.index(row.color), row.pipeline))
    return Overview(rows, {color: sum(row.color == color for row in rows) for color in COLORS}, at, changed)


def _row(pipeline: Pipeline, warehouse: str, now: datetime, since: datetime | None) -> tuple[Health, Changes | None]:
    """Return the health of a pipeline, and what changed since a moment where its tables can be read."""
    with remembering(TablePaths(warehouse, pipeline.name)):
        row = health(pipeline, warehouse, now=now)
        if since is None or any(each.kind == UNREADABLE for each in row.reasons):
            return row, None
        return row, brief(pipeline, warehouse, since=since, now=now)


def remember(pipeline: Pipeline, warehouse: str, earlier: Memory | None = None) -> None:
    """Write down what the overview reads, so that it opens no table that does not change later.

    Where that cannot be written, the overview reads the tables. earlier: what this process has read already.
    """
    paths, now = TablePaths(warehouse, pipeline.name), datetime.now(UTC)
    try:
        with remembering(paths, earlier) as memory:
            _health(pipeline, warehouse, now)
            brief(pipeline, warehouse, since=now - RECENT, now=now)
            keep(paths, memory)
    except Exception as error:  # noqa: BLE001 (no run fails because of what only makes a page quick)
        LOG.warning(f"{paths.table(names.OVERVIEW)} was not written: {trouble(error)}")


def health(pipeline: Pipeline, warehouse: str, *, now: datetime | None = None) -> Health:
    """Return the health of a pipeline; an error while its tables are read makes it red, and is not raised."""
    try:
        return _health(pipeline, warehouse, now or datetime.now(UTC))
    except Exception as error:  # noqa: BLE001 (one broken pipeline must not hide the others)
        todo = "Look whether the warehouse is there and may be read."
        reason = Reason(UNREADABLE, "", "error", trouble(error), todo, None, 0, (), "")
        return Health(pipeline.name, RED, (reason,), **_declared(pipeline))


def refused_health(name: str, why: str, warehouse: str, *, now: datetime | None = None) -> Health:
    """Return the health of a pipeline whose declaration is refused: red, beside what its tables show."""
    todo = (
        "Repair the YAML: `txloom check` names every mistake with its line. Until then its DAGs begin nothing new; "
        "tasks that run go on, and readers keep the last cut."
    )
    reason = Reason(REFUSED, "", "error", why, todo, None, 0, (), "")
    known = stand_in(name)
    if known is None:
        return Health(name, RED, (reason,))
    known_health = health(known, warehouse, now=now)
    return replace(known_health, color=RED, reasons=(reason, *known_health.reasons))


def trouble(error: Exception) -> str:
    """Return an error on one line, without credentials in URLs and without terminal colors.

    >>> trouble(OSError("s3://key:secret@host/lake is \\x1b[31maway\\x1b[0m:\\n  no route"))
    'OSError: s3://...@host/lake is away: no route'
    """
    text = " ".join(_COLORING.sub("", str(error)).split())
    return f"{type(error).__name__}: {_without_credentials(text)[:300]}"


def _without_credentials(text: str) -> str:
    return _CREDENTIALS.sub("://...@", text)


def _declared(pipeline: Pipeline) -> dict[str, Any]:
    declared = {name: getattr(pipeline, name) for name in ("description", "owner", "schedule")}
    return {"dag_id": names.cdc_dag_id(pipeline.name), **declared}


@open_tables
def _health(pipeline: Pipeline, warehouse: str, now: datetime) -> Health:
    paths = TablePaths(warehouse, pipeline.name)
    facts_of = facts(pipeline, paths, now)
    cut = cut_of(paths) or {}
    reasons = _reasons(pipeline, paths, facts_of)
    color = next((color for severity, color in SEVERITIES.items() if any(r.severity == severity for r in reasons)), "")
    return Health(
        pipeline.name,
        color or (GREEN if _has_run(facts_of, cut) else GREY),
        tuple(reasons),
        **_declared(pipeline),
        valid_through=facts_of.valid_through,
        committed_at=cut.get("committed_at"),
        age_seconds=None if facts_of.valid_at is None else int((now - facts_of.valid_at).total_seconds()),
        waiting=facts_of.waiting.total,
        waiting_since=facts_of.waiting.since,
        dead_letters=facts_of.dead_letters.total,
        cut_id=cut.get("cut_id"),
        published_at=cut.get("published_at"),
        gaps=len(cut["gaps"] or ()) if cut else None,
        needs_snapshot=tuple(findings.needing_snapshot(facts_of.findings)),
        lease=_held(paths, now),
        landed_at=facts_of.landed_at,
        as_of=facts_of.stepped_at,
        empty_at="" if _has_run(facts_of, cut) else _without_credentials(paths.table("").rstrip("/")),
    )


def _held(paths: TablePaths, now: datetime) -> dict[str, Any] | None:
    holder = holder_of(paths)
    if holder is None or holder.released_at is not None:
        return None
    return {**vars(holder), "silent_since": lease.silent_since(paths, holder, now)}


def _has_run(facts: Facts, cut: Mapping[str, Any]) -> bool:
    return facts.stepped_at is not None or bool(cut)


def _reasons(pipeline: Pipeline, paths: TablePaths, facts: Facts) -> list[Reason]:
    """Return the problems, errors first: those of alerts, failed tasks, and dead letters that are no incident."""
    reasons = rules.incidents(facts, pipeline.alerts or Alerts(), pipeline.name)
    known = [each for each in lifecycles_of(paths) if each.closed_at is None]
    reasons += [each.incident for each in known if each.incident.kind == rules.TASK]
    if facts.dead_letters.total and not any(each.kind == rules.DEAD for each in reasons):
        rows, dag = facts.dead_letters, names.dead_letters_dag_id(pipeline.name)
        what = f"{rows.total} dead letters are open." if rows.total > 1 else "1 dead letter is open."
        todo = f"{rows.todo} Then run the DAG {dag}.".strip()
        reasons.append(Incident(rules.DEAD, "", rows.since, "warn", what, todo, rows.total, rows.first, f"dags/{dag}"))
    reasons += _snapshot(pipeline, paths)
    order = list(SEVERITIES)
    reasons.sort(key=lambda each: order.index(each.severity) if each.severity in order else len(order))
    return [_reason(each) for each in reasons]


def _snapshot(pipeline: Pipeline, paths: TablePaths) -> Iterator[Incident]:
    """Yield the reasons why valid-through stands still: a connector's snapshot is landed, or cannot be read."""
    kind = connector_snapshots.SnapshotProgress
    progress = remembered("snapshots", kind, lambda: connector_snapshots.progress(paths))
    yield from _unread(pipeline, paths, progress.newest)
    yield from _ahead(pipeline, paths)
    if progress.snapshots.bound is None:
        return
    rows = progress.snapshots.rows
    many = "1 row has" if rows == 1 else f"{rows} rows have"
    ended = " It has ended; the next landing shows it." if progress.snapshots.is_ending else ""
    what = f"The source sends a snapshot; {many} landed. Valid-through stays at most {progress.snapshots.bound}.{ended}"
    page = f"dags/{names.cdc_dag_id(pipeline.name)}"
    yield Incident(SNAPSHOT, "", progress.since, "warn", what, WAITS, rows, (), page)


def _ahead(pipeline: Pipeline, paths: TablePaths) -> Iterator[Incident]:
    """Yield the reason why rows of an incremental snapshot are not shown yet."""
    kind = list[rows_ahead.Waiting]
    waiting = remembered("ahead", kind, lambda: rows_ahead.waiting(pipeline, paths))
    if waiting:
        rows, until = sum(each.rows for each in waiting), max(each.read_until for each in waiting)
        many, wait = ("1 row", "waits") if rows == 1 else (f"{rows} rows", "wait")
        what = f"{many} of an incremental snapshot may be ahead of the stream, and {wait} until the tables show "
        what += f"a commit after {moment(until + rows_ahead.CLOCKS_DIFFER)}."
        since = min(each.read_until for each in waiting)
        yield Incident(AHEAD, "", since, "warn", what, PASSED, rows, (), f"dags/{names.cdc_dag_id(pipeline.name)}")


def _unread(pipeline: Pipeline, paths: TablePaths, newest: int | None) -> Iterator[Incident]:
    """Yield the reason why a snapshot is not shown of which rows cannot be read; newest: the highest csn of one."""
    kind = list[unread_snapshots.Unread]
    rows = remembered("unread", kind, lambda: unread_snapshots.unread(paths, newest, buffer_state(paths)))
    page = f"dags/{names.dead_letters_dag_id(pipeline.name)}"
    for csn in sorted({each.csn for each in rows})[:1]:
        of_snapshot = [each for each in rows if each.csn == csn]
        total = sum(each.rows for each in of_snapshot)
        many = "1 row" if total == 1 else f"{total} rows"
        tables = ", ".join(f"{each.table or '?'}: {each.rows}" for each in of_snapshot)
        what = f"{many} of the source's snapshot at csn {csn} cannot be read ({tables}). "
        what += f"Valid-through stays at most {csn - 1}."
        since = min(each.since for each in of_snapshot)
        yield Incident(UNREAD, "", since, "error", what, READABLE, total, (), page)


def _reason(each: Incident) -> Reason:
    return Reason(
        *(each.kind, each.subject, each.severity, each.what, each.todo),
        *(each.since, each.total, each.rows, each.page),
    )
