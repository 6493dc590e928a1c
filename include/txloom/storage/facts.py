"""What a pipeline's tables say about how it fares, for the rules in `txloom.quality.incidents`; no Spark."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.quality.incidents import SAMPLE, Facts, Rows, Undone
from txloom.quality.letters import plain
from txloom.storage import books, dead, findings, incidents, lease, local
from txloom.storage.listing import listing
from txloom.storage.place import Place
from txloom.storage.progress import snapshot

LANDED = "counts['landed'] > 0"


def facts(pipeline: Pipeline, place: Place, now: datetime) -> Facts:
    """Return what the tables say now."""
    alerts = pipeline.alerts
    cut = _one(place, names.CUTS, "select * from t order by cut_id desc limit 1")
    looks = _one(place, names.LEDGER, "select max(at) as at from t where step = 'land_events'").get("at")
    stuck = alerts.stuck_after if alerts is not None else None
    return Facts(
        now=now,
        valid_through=cut.get("valid_through"),
        valid_at=cut.get("committed_at") or cut.get("published_at"),
        landed_at=_landed_at(place),
        looked_at=max((at for at in (looks, incidents.looked_at(place)) if at is not None), default=None),
        undone=next(_undone(place), None),
        lease=_lease(place),
        waiting=_waiting(place, now, None),
        stuck=_waiting(place, now, stuck) if stuck is not None else Rows(),
        letters=_letters(place),
        expectations=_expectations(pipeline, place),
        findings=findings.open_findings(place),
        unbalanced=_unbalanced(place),
    )


def _one(place: Place, table: str, sql: str) -> dict[str, Any]:
    return next(iter(books.query(place.table(table), sql)), {})


def _landed_at(place: Place) -> datetime | None:
    """Return when something new was landed; while nothing ever was, when the first landing looked for it."""
    redrives = books.query(place.landed_files, f"select landing from t where topic = '{dead.REDRIVE}'")
    own = f" and batch not in ({local.numbers([row['landing'] for row in redrives])})" if redrives else ""
    sql = f"select coalesce(max(case when {LANDED}{own} then at end), min(at)) as at from t where step = 'land_events'"
    found: datetime | None = _one(place, names.LEDGER, sql).get("at")
    return found


def _undone(place: Place) -> Iterator[Undone]:
    """Yield what waits for a step, and since when it waits, the earliest step first."""
    landed = books.last_written(place.table(names.LEDGER), names.write_id(place.pipeline, "land_events", 0))
    yield from _late(place, names.LANDED_FILES, "at", f"landing > {landed}", "A landing was not finished")
    seen = snapshot(place)
    behind = f"step = 'land_events' and batch > {seen.landing if seen else 0}"
    yield from _late(place, names.LEDGER, "at", behind, "What was landed was not buffered")
    good = (
        "select valid_through, counts from t where step = 'merge_current' and detail is null order by at desc limit 1"
    )
    merged = _one(place, names.LEDGER, good)
    release = merged["counts"]["release"] if merged else 0
    unmerged = f"release > {release} and status = 'released'"
    yield from _late(place, names.TRANSACTIONS, "finished_at", unmerged, "What was released was not merged")
    shown = _one(place, names.CUTS, "select max(valid_through) as csn from t").get("csn")
    above = f"step = 'merge_current' and detail is null and valid_through > {0 if shown is None else shown}"
    yield from _late(place, names.LEDGER, "at", above, "What was merged was not published")


def _late(place: Place, table: str, moment: str, where: str, what: str) -> Iterator[Undone]:
    since = _one(place, table, f"select min({moment}) as at from t where {where}").get("at")
    if since is not None:
        yield Undone(what, since)


def _lease(place: Place) -> Undone | None:
    holder = lease.newest(place)
    if holder is None or holder.released_at is not None:
        return None
    told = f"Run {plain(holder.run_id)} ({holder.step}, process {holder.pid} on {holder.host}) held the lease"
    return Undone(told, holder.acquired_at)


def _waiting(place: Place, now: datetime, longer: timedelta | None) -> Rows:
    where = "true"
    if longer is not None:
        where = f"first_landed_at < to_timestamp_micros({int((now - longer).timestamp() * 1_000_000)})"
    sums = f"select count(*) as n, min(first_landed_at) as since from t where {where}"
    found = _one(place, names.PENDING_TRANSACTIONS, sums)
    if not found.get("n"):
        return Rows()
    columns = "transaction_id, cause, expected, received"
    sql = f"select {columns} from t where {where} order by first_landed_at, csn, transaction_id limit {SAMPLE}"
    first = tuple(_missing(row) for row in books.query(place.table(names.PENDING_TRANSACTIONS), sql))
    return Rows(found["n"], found["since"], first)


def _missing(row: dict[str, Any]) -> str:
    """Say what a transaction waits for: the rows that came, of those expected, by table."""
    expected, received = row["expected"] or {}, row["received"] or {}
    tables = sorted({*expected, *received})
    have = [f"{name} {received.get(name, 0)}" + (f"/{expected[name]}" if name in expected else "") for name in tables]
    return plain(f"{row['transaction_id']}: {row['cause'] or 'waits'}; {', '.join(have)}")


def _letters(place: Place) -> Rows:
    found = listing(place)
    first = tuple(
        f"{group.cause}: {group.events} events of {group.transactions} transactions, such as {group.examples[0]}"
        for group in found.groups[:SAMPLE]
    )
    since = min((group.since for group in found.groups if group.since is not None), default=None)
    return Rows(found.events, since, first, found.groups[0].hint if found.groups else "")


def _expectations(pipeline: Pipeline, place: Place) -> list[dict[str, Any]]:
    """Return the declared expectations that failed when they were last checked."""
    declared = {each.id for each in pipeline.expectations}
    newest = (
        "select * from (select *, row_number() over (partition by expectation order by checked_at desc) as n,"
        " max(case when success then checked_at end) over (partition by expectation) as good from t)"
        " where n = 1 and not success order by expectation"
    )
    failed = [r for r in books.query(place.table(names.EXPECTATION_RESULTS), newest) if r["expectation"] in declared]
    return [row | {"since": _failed_since(place, row), "first": _sample(row["sample"])} for row in failed]


def _failed_since(place: Place, row: dict[str, Any]) -> datetime:
    after = f" and checked_at > to_timestamp_micros({_micros(row['good'])})" if row["good"] is not None else ""
    sql = f"select min(checked_at) as at from t where expectation = {local.quoted(row['expectation'])}{after}"
    since: datetime = _one(place, names.EXPECTATION_RESULTS, sql)["at"]
    return since


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _sample(text: str) -> list[str]:
    """Return failing rows in words; txloom's own columns are left out."""
    rows = json.loads(text or "[]")[:SAMPLE]
    shown = [{name: value for name, value in row.items() if not name.startswith(names.OWN_PREFIX)} for row in rows]
    return [plain(", ".join(f"{name}={value}" for name, value in row.items())) for row in shown]


def _unbalanced(place: Place) -> Undone | None:
    newest = _one(
        place, names.LEDGER, "select at, balanced, detail from t where step = 'balance' order by at desc limit 1"
    )
    return Undone(newest["detail"], newest["at"]) if newest and newest["balanced"] is False else None
