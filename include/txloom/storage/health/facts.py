"""Read the facts on a pipeline's health from its tables, for the rules in `txloom.quality.incidents`; no Spark."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.quality.dead_letters import plain
from txloom.quality.findings import INCOMPLETE
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import SAMPLE, Facts, PendingStep, Rows
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings, results
from txloom.storage.dead_letters import open_letters
from txloom.storage.dead_letters.listing import listing
from txloom.storage.declarations.incomplete import current_tables_of, with_present_hints
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.recent_files import newest_since
from txloom.storage.delta.sql import instant_literal, int_list
from txloom.storage.health import incidents
from txloom.storage.health.remembered import remembered
from txloom.storage.landing import landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.watermark import gone_of
from txloom.storage.runs import lease
from txloom.storage.runs.ledger import CARRIED

LANDED = f"counts['landed'] > 0 and run_id <> '{CARRIED}'"
LANDS, MERGES = "step = 'land_events'", "step = 'merge_current' and detail is null"
BALANCE, BALANCED = "step = 'balance'", ("at", "balanced", "detail")


def facts(pipeline: Pipeline, paths: TablePaths, now: datetime) -> Facts:
    """Return the facts as of now; what is remembered of tables that did not change is not read again."""
    alerts = pipeline.alerts
    cut = cut_of(paths) or {}
    ledger, pending = remembered("progress", tuple[dict[str, Any], PendingStep | None], lambda: _progress(paths))
    waiting, newest = _all_waiting(paths)
    open_now = with_present_hints(pipeline, paths, open_findings(paths))
    return Facts(
        now=now,
        valid_through=cut.get("valid_through"),
        valid_at=cut.get("committed_at") or cut.get("published_at"),
        published_at=cut.get("published_at"),
        landed_at=ledger.get("landed_at"),
        judged_at=max((at for at in (ledger.get("checked"), judged_at(paths)) if at is not None), default=None),
        pending_steps=pending,
        lease=_lease(paths),
        waiting=waiting,
        stuck=_stuck(paths, now, alerts.stuck_after if alerts is not None else None, waiting, newest),
        dead_letters=dead_letters_of(pipeline, paths),
        expectations=failing_expectations(pipeline, paths),
        findings=open_now,
        unbalanced=_unbalanced(ledger),
        gone=gone_of(paths, pipeline.current_tables, dict(cut.get("versions") or ())),
        held=_held(pipeline, open_now),
        stepped_at=ledger.get("stepped"),
    )


def _held(pipeline: Pipeline, open_now: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the current tables that are not complete, where the declaration holds cuts until they are."""
    if pipeline.targets.incomplete != "hold":
        return ()
    return current_tables_of(pipeline, [row["table"] for row in open_now if row["code"] == INCOMPLETE])


def cut_of(paths: TablePaths) -> dict[str, Any] | None:
    """Return the newest cut."""
    cut: dict[str, Any] | None = remembered("cut", dict[str, Any] | None, lambda: newest_cut(paths))
    return cut


def holder_of(paths: TablePaths) -> lease.Lease | None:
    """Return the holder of the lease, or the last one."""
    holder: lease.Lease | None = remembered("lease", lease.Lease | None, lambda: lease.newest(paths))
    return holder


def _all_waiting(paths: TablePaths) -> tuple[Rows, datetime | None]:
    kind = tuple[Rows, datetime | None]
    waiting: tuple[Rows, datetime | None] = remembered("waiting", kind, lambda: _waiting(paths, None))
    return waiting


def newest_waiting(paths: TablePaths) -> datetime | None:
    """Return when the newest of the waiting transactions came; None where none waits."""
    return _all_waiting(paths)[1]


def dead_letters_of(pipeline: Pipeline, paths: TablePaths) -> Rows:
    """Return the open dead letters."""
    source = pipeline.source.format
    rows: Rows = remembered(f"dead letters of {source}", Rows, lambda: _dead_letters(paths, source))
    return rows


def judged_at(paths: TablePaths) -> datetime | None:
    """Return when a cycle last found its source in order."""
    at: datetime | None = remembered("judged", datetime | None, lambda: incidents.judged_at(paths))
    return at


def open_findings(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the open findings."""
    rows: list[dict[str, Any]] = remembered("findings", list[dict[str, Any]], lambda: findings.open_findings(paths))
    return rows


def newest_results(paths: TablePaths) -> dict[str, dict[str, Any]]:
    """Return the newest result of each expectation that was judged."""
    kind = dict[str, dict[str, Any]]
    rows: dict[str, dict[str, Any]] = remembered("expectations", kind, lambda: results.newest(paths, judged=True))
    return rows


def lifecycles_of(paths: TablePaths) -> list[IncidentLifecycle]:
    """Return the recorded incidents."""
    known: list[IncidentLifecycle] = remembered(
        "incidents", list[IncidentLifecycle], lambda: incidents.lifecycles(paths)
    )
    return known


def _progress(paths: TablePaths) -> tuple[dict[str, Any], PendingStep | None]:
    """Return what the ledger shows, and the first step that has work to do."""
    ledger = _ledger(paths, (newest_cut(paths) or {}).get("valid_through"))
    return ledger, next(_pending_steps(paths, ledger), None)


def _one(paths: TablePaths, table: str, sql: str) -> dict[str, Any]:
    return next(iter(small_tables.query(paths.table(table), sql)), {})


def _ledger(paths: TablePaths, shown: int | None) -> dict[str, Any]:
    """Return what the ledger shows; it has a file for each step of each run until maintenance joins them.

    stepped: when a step last ended. checked: when a landing last succeeded. landed_at: when something new was last
    landed; while nothing ever was, when the first landing ran. behind, above: since when something waits to be
    buffered, and to be published. release: of the last good merge. balance_*: of the newest balance. shown:
    valid-through of the newest cut.
    """
    if not exists(paths.table(names.LEDGER)):
        return {}
    redrives = open_letters.redrives(paths)
    not_redriven = f" and batch not in ({int_list(redrives)})" if redrives else ""
    seen = buffer_state(paths)
    order = small_tables.latest(paths.table(names.LEDGER))
    newest = {
        "stepped": "max(at)",
        "checked": f"max(at) filter (where {LANDS})",
        "landed": f"max(at) filter (where {LANDS} and {LANDED}{not_redriven})",
        "release": f"first_value(counts['release'] order by {order}) filter (where {MERGES})",
    }
    newest |= {f"balance_{name}": f"first_value({name} order by {order}) filter (where {BALANCE})" for name in BALANCED}
    behind = f"{LANDS} and batch > {seen.landing if seen else 0}"
    above = f"{MERGES} and valid_through > {0 if shown is None else shown}"
    first = {
        "begun": f"min(at) filter (where {LANDS})",
        "behind": f"min(at) filter (where {behind})",
        "above": f"min(at) filter (where {above})",
    }
    newest_lines = _newest_lines(paths, newest, first, f"({behind}) or ({above})")
    return newest_lines | {"landed_at": newest_lines["landed"] or newest_lines["begun"]}


def _newest_lines(paths: TablePaths, newest: dict[str, str], first: dict[str, str], waits: str) -> dict[str, Any]:
    """Return the columns from the newest rows where these are enough, and for `first` from the rows that still wait."""
    since = newest_since(opened(paths.table(names.LEDGER)))
    everything = _one(paths, names.LEDGER, _judged_expectations({**newest, **first})) if since is None else None
    if everything is not None:
        return everything
    assert since is not None
    recent = _one(paths, names.LEDGER, f"{_judged_expectations(newest)} where at >= {instant_literal(since)}")
    if any(recent[name] is None for name in ("checked", "landed", "release", "balance_at")):
        return _one(paths, names.LEDGER, _judged_expectations({**newest, **first}))
    return recent | {"begun": None} | _one(paths, names.LEDGER, f"{_judged_expectations(first)} where {waits}")


def _judged_expectations(columns: dict[str, str]) -> str:
    return f"select {', '.join(f'{sql} as {name}' for name, sql in columns.items())} from t"


def _pending_steps(paths: TablePaths, ledger: dict[str, Any]) -> Iterator[PendingStep]:
    """Yield the steps that have work to do, and since when it waits, in the order of a run."""
    finished = landing_tables.last_finished(paths)
    yield from _late(paths, names.LANDED_FILES, "at", f"landing > {finished}", "A landing was not finished")
    if (behind := ledger.get("behind")) is not None:
        yield PendingStep("What was landed was not buffered", behind)
    unmerged = f"release > {ledger.get('release') or 0} and status = 'released'"
    yield from _late(paths, names.TRANSACTIONS, "finished_at", unmerged, "What was released was not merged")
    if (above := ledger.get("above")) is not None:
        yield PendingStep("What was merged was not published", above)


def _late(paths: TablePaths, table: str, moment: str, where: str, what: str) -> Iterator[PendingStep]:
    since = _one(paths, table, f"select min({moment}) as at from t where {where}").get("at")
    if since is not None:
        yield PendingStep(what, since)


def _lease(paths: TablePaths) -> PendingStep | None:
    holder = holder_of(paths)
    if holder is None or holder.released_at is not None:
        return None
    what = f"Run {plain(holder.run_id)} ({holder.step}, process {holder.pid} on {holder.host}) held the lease"
    return PendingStep(what, holder.acquired_at)


def _waiting(paths: TablePaths, before: datetime | None) -> tuple[Rows, datetime | None]:
    """Return the transactions that wait since before a time (None: all), and when the newest of them came."""
    where = "true" if before is None else f"first_landed_at < {instant_literal(before)}"
    sums = "count(*) as n, min(first_landed_at) as since, max(first_landed_at) as newest"
    summed = _one(paths, names.PENDING_TRANSACTIONS, f"select {sums} from t where {where}")
    if not summed.get("n"):
        return Rows(), None
    columns = "transaction_id, cause, expected, received"
    sql = f"select {columns} from t where {where} order by first_landed_at, csn, transaction_id limit {SAMPLE}"
    first = tuple(_missing(row) for row in small_tables.query(paths.table(names.PENDING_TRANSACTIONS), sql))
    return Rows(summed["n"], summed["since"], first), summed["newest"]


def _stuck(paths: TablePaths, now: datetime, longer: timedelta | None, waiting: Rows, newest: datetime | None) -> Rows:
    """Return the transactions that wait for longer than a limit; reads them only where these are not all or none."""
    if longer is None or newest is None or waiting.since is None or waiting.since >= now - longer:
        return Rows()
    return waiting if newest < now - longer else _waiting(paths, now - longer)[0]


def _missing(row: dict[str, Any]) -> str:
    """Return what a transaction waits for: received and expected rows by table."""
    expected, received = row["expected"] or {}, row["received"] or {}
    tables = sorted({*expected, *received})
    have = [f"{name} {received.get(name, 0)}" + (f"/{expected[name]}" if name in expected else "") for name in tables]
    return plain(f"{row['transaction_id']}: {row['cause'] or 'waits'}; {', '.join(have)}")


def _dead_letters(paths: TablePaths, source_format: str) -> Rows:
    listed = listing(paths, source_format=source_format)
    first = tuple(
        f"{group.cause}: {group.events} events of {group.transactions} transactions, such as {group.examples[0]}"
        for group in listed.groups[:SAMPLE]
    )
    since = min((group.since for group in listed.groups if group.since is not None), default=None)
    return Rows(listed.events, since, first, listed.groups[0].hint if listed.groups else "")


def failing_expectations(pipeline: Pipeline, paths: TablePaths) -> list[dict[str, Any]]:
    """Return the newest result of each declared expectation that failed when it was last judged."""
    declared = {each.id for each in pipeline.expectations}
    newest = sorted(newest_results(paths).items())
    failed = [row for name, row in newest if name in declared and not row["success"]]
    return [row | {"first": _sample(row["sample"])} for row in failed]


def _sample(text: str) -> list[str]:
    """Return failing rows in words, without txloom's columns."""
    rows = json.loads(text or "[]")[:SAMPLE]
    shown = [{name: value for name, value in row.items() if not name.startswith(names.SYSTEM_PREFIX)} for row in rows]
    return [plain(", ".join(f"{name}={value}" for name, value in row.items())) for row in shown]


def _unbalanced(ledger: dict[str, Any]) -> PendingStep | None:
    wrong = ledger.get("balance_balanced") is False
    return PendingStep(ledger["balance_detail"], ledger["balance_at"]) if wrong else None
