"""What changed in a pipeline since a moment: what somebody has to act on first, then what is over, then what moved.

What an overview needs is remembered with the states of its tables (`txloom.storage.health.remembered`), so that no
moment stands in those queries; the rest is read, but of no table whose newest commit is older than the moment.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake.exceptions import DeltaError, TableNotFoundError

from txloom.config import names
from txloom.config.models.durations import PATTERN, parse_duration
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import Unfit, counted
from txloom.errors import ConfigurationError
from txloom.quality import incidents as kinds
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened, unchanged_since
from txloom.storage.delta.sql import instant_literal
from txloom.storage.health.facts import dead_letters_of, lifecycles_of, newest_results, newest_waiting, open_findings
from txloom.storage.health.remembered import remembered
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.targets.shadow_tables import Rebuild, read_rebuilds
from txloom.storage.views.paging import Row, open_tables
from txloom.storage.views.pipeline.waiting import UNDECIDED

ACT, OVER, MOVED = "act", "over", "moved"
URGENCIES = (ACT, OVER, MOVED)
"""Something is to be done; something ended, or somebody did something; the pipeline went on."""
LETTERS, WAITING, REDRIVEN, DISMISSED = "dead letters", "waiting", "redriven", "dismissed"
COLUMNS, BACKFILL, EDIT, CUTS, RUN = "columns", "backfill", "edit", "cuts", "failed run"
OF_ITS_KIND = (kinds.DEAD, kinds.STUCK, kinds.EXPECTATION, kinds.FINDING)
"""Kinds of incidents of which the rows themselves are shown."""
SLACK = timedelta(minutes=10)
"""By which the clock of a store may differ from that of those who wrote the rows."""
MOST_CUTS = 1_000
"""Cuts that are remembered; whoever looks further back has the table read."""
_CLOSED = "count(*) filter (where status = 'open') > 0"


@dataclass(frozen=True)
class Change:
    """One thing that happened; kind and subject say what to show of it. at: when it, or the newest of it, happened."""

    urgency: str
    kind: str
    subject: str
    what: str
    at: datetime
    detail: str = ""
    count: int = 1


@dataclass(frozen=True)
class Changes:
    """What changed since a moment, in the order in which somebody acts."""

    since: datetime
    rows: tuple[Change, ...]

    @property
    def to_act_on(self) -> tuple[Change, ...]:
        """Return what somebody has to act on."""
        return tuple(row for row in self.rows if row.urgency == ACT)


@dataclass(frozen=True)
class Published:
    """When a cut was published, and what it shows."""

    at: datetime
    valid_through: int


@dataclass(frozen=True)
class Scope:
    """The pipeline, and the time between two moments."""

    pipeline: Pipeline
    paths: TablePaths
    since: datetime
    now: datetime

    @property
    def after(self) -> str:
        """Return the moment as SQL."""
        return instant_literal(self.since)

    def is_unchanged(self, table: str) -> bool:
        """Return whether no commit came to a table since the moment."""
        return unchanged_since(self.paths.table(table), self.since - SLACK)

    def newer(self, table: str, sql: str) -> list[Row]:
        """Return rows of a table by a query; none, without a query, where no commit came since the moment."""
        return [] if self.is_unchanged(table) else small_tables.query(self.paths.table(table), sql)

    def all_of(self, table: str, sql: str) -> list[Row]:
        """Return the rows of a query on a small table that are newer than the moment, by their column `at`."""
        path = self.paths.table(table)
        rows: list[Row] = remembered(f"{table} in brief", list[Row], lambda: small_tables.query(path, sql))
        return [row for row in rows if row["at"] > self.since]


Rule = Callable[[Scope], Iterator[Change]]


def ordered(since: datetime, rows: "list[Change]") -> Changes:
    """Return changes by urgency; those of one urgency stay in their order."""
    return Changes(since, tuple(sorted(rows, key=lambda row: URGENCIES.index(row.urgency))))


@open_tables
def changes(pipeline: Pipeline, warehouse: str, *, since: datetime, now: datetime | None = None) -> Changes:
    """Return everything that changed since a moment."""
    return _changes((*BRIEF, *MORE), Scope(pipeline, TablePaths(warehouse, pipeline.name), since, _at(now)))


@open_tables
def brief(pipeline: Pipeline, warehouse: str, *, since: datetime, now: datetime | None = None) -> Changes:
    """Return what an overview of many pipelines shows: all but what is costly to find out."""
    return _changes(BRIEF, Scope(pipeline, TablePaths(warehouse, pipeline.name), since, _at(now)))


def _at(now: datetime | None) -> datetime:
    return now or datetime.now(UTC)


def _changes(rules: tuple[Rule, ...], scope: Scope) -> Changes:
    return ordered(scope.since, [change for rule in rules for change in rule(scope)])


def _incidents(scope: Scope) -> Iterator[Change]:
    """Yield incidents that opened and are open, and those that were open and are over."""
    for each in lifecycles_of(scope.paths):
        incident = each.incident
        subject = f"{incident.kind} {incident.subject}".strip()
        if incident.kind in OF_ITS_KIND:
            continue
        if each.closed_at is None and each.opened_at > scope.since:
            yield Change(ACT, incident.kind, incident.subject, subject, each.opened_at, incident.what)
        elif each.closed_at is not None and each.closed_at > scope.since:
            yield Change(OVER, incident.kind, incident.subject, f"{subject} is over", each.closed_at, incident.what)


def _findings(scope: Scope) -> Iterator[Change]:
    """Yield findings that are open since, and those that were closed; what needed nothing from the start is neither."""
    path, after = scope.paths.table(names.FINDINGS), scope.after
    if not scope.newer(names.FINDINGS, f"select code from t where at > {after} limit 1"):
        return
    still = sorted(open_findings(scope.paths), key=lambda row: row["severity"] != "error")
    for row in still:
        if row["at"] > scope.since:
            urgency = OVER if row["severity"] == "info" else ACT
            yield Change(urgency, kinds.FINDING, row["code"], _finding(row), row["at"], row["evidence"])
    same = 'code, "table", "column", coalesce(xid, \'\') as xid'
    sql = f"select {same}, max(at) as at, max(evidence) filter (where status = 'closed' and at > {after}) as evidence"
    sql += f' from t group by code, "table", "column", coalesce(xid, \'\') having {_CLOSED} and max(at) > {after}'
    open_now = {(row["code"], row["table"], row["column"]) for row in still}
    for row in small_tables.query(path, sql):
        if row["evidence"] is not None and (row["code"], row["table"], row["column"]) not in open_now:
            what = f"{_finding(row)} is closed"
            yield Change(OVER, kinds.FINDING, row["code"], what, row["at"], row["evidence"])


def _finding(row: Mapping[str, Any]) -> str:
    where = ".".join(name for name in (row["table"], row["column"]) if name)
    return f"finding: {row['code']}" + (f", {where}" if where else "")


def _expectations(scope: Scope) -> Iterator[Change]:
    """Yield expectations that began to fail, and those that hold again."""
    now, paths = newest_results(scope.paths), scope.paths
    again = remembered("expectations that hold again", dict[str, datetime], lambda: _holds_again(paths))
    for each in scope.pipeline.expectations:
        row = now.get(each.id)
        if row is None:
            continue
        if row["success"] is False and row["since"] is not None and row["since"] > scope.since:
            urgency = OVER if each.severity == "info" else ACT
            what = f"{each.id} fails: {row['failed']} of {row['checked']} rows"
            yield Change(urgency, kinds.EXPECTATION, each.id, what, row["since"], each.sentence or "")
        elif row["success"] and each.id in again and again[each.id] > scope.since:
            yield Change(OVER, kinds.EXPECTATION, each.id, f"{each.id} holds again", again[each.id])


def _holds_again(paths: TablePaths) -> dict[str, datetime]:
    """Return since when each expectation holds that failed once and holds now."""
    failed = "select expectation, max(checked_at) as at from t where not success group by expectation"
    first = "select t.expectation, min(t.checked_at) as at from t join f on f.expectation = t.expectation"
    sql = f"with f as ({failed}) {first} where t.success and t.checked_at > f.at group by t.expectation"
    return {row["expectation"]: row["at"] for row in small_tables.query(paths.table(names.EXPECTATION_RESULTS), sql)}


def _letters(scope: Scope) -> Iterator[Change]:
    """Yield dead letters that came and are open, by cause."""
    if scope.is_unchanged(names.DEAD_LETTERS) or not dead_letters_of(scope.pipeline, scope.paths).total:
        return
    at, transactions = "coalesce(dead_at, landed_at)", "count(distinct transaction_id)"
    sums = f"cause, count(*) as n, {transactions} as transactions, max({at}) as at"
    more = f"where {at} > {scope.after} group by cause order by n desc, cause"
    for row in open_letters.open_dead_letters(scope.paths, sums, more).to_pylist():
        of = f" of {counted(row['transactions'], 'transaction')}" if row["transactions"] else ""
        what = f"{counted(row['n'], 'dead letter')}{of}: {row['cause']}"
        yield Change(ACT, LETTERS, row["cause"] or "", what, row["at"], count=row["n"])


def _dismissed(scope: Scope) -> Iterator[Change]:
    groups: dict[tuple[str, str], list[Row]] = {}
    sql = "select person, reason, at, count(*) as n from t group by person, reason, at order by at desc"
    for row in scope.all_of(names.DISMISSALS, sql):
        groups.setdefault((row["person"], row["reason"] or ""), []).append(row)
    for (person, reason), rows in groups.items():
        count = sum(row["n"] for row in rows)
        yield Change(
            OVER, DISMISSED, "", f"{counted(count, 'dead letter')} dismissed by {person}", rows[0]["at"], reason
        )


def _waiting(scope: Scope) -> Iterator[Change]:
    """Yield the transactions that began to wait and still do, by cause; the young ones are nobody's task yet."""
    limit = scope.pipeline.alerts.stuck_after if scope.pipeline.alerts is not None else None
    sums = "cause, count(*) as n, min(first_landed_at) as first, max(first_landed_at) as at"
    sql = f"select {sums} from t where first_landed_at > {scope.after} group by cause order by n desc, cause"
    if (newest := newest_waiting(scope.paths)) is None or newest <= scope.since:
        return
    for row in scope.newer(names.PENDING_TRANSACTIONS, sql):
        cause = row["cause"] or UNDECIDED
        what = f"{counted(row['n'], 'transaction')} began to wait: {cause}"
        is_stuck = limit is not None and row["first"] < scope.now - limit
        yield Change(ACT if is_stuck else MOVED, WAITING, cause, what, row["at"], count=row["n"])


def _adopted(scope: Scope) -> Iterator[Change]:
    for row in scope.all_of(names.EVOLVED_COLUMNS, 'select "table", "column", added_at as at from t order by at'):
        what = f"{row['table']} took up the column {row['column']}"
        yield Change(OVER, COLUMNS, row["table"], what, row["at"], "The source has it; the declaration has not.")


def _backfills(scope: Scope) -> Iterator[Change]:
    """Yield the newest state of each backfill, and what merges rebuilt after edits of the declaration."""
    paths = scope.paths
    rebuilds = remembered("backfills in brief", list[Rebuild], lambda: read_rebuilds(paths))
    for each in (each for each in rebuilds if each.at > scope.since):
        if each.is_edit:
            yield Change(OVER, EDIT, each.run_id, str(each), each.at)
        else:
            yield Change(OVER, BACKFILL, each.run_id, f"backfill {each.run_id}: {each.status}", each.at)


def _cuts(scope: Scope) -> Iterator[Change]:
    """Yield how many cuts were published, and how valid-through moved."""
    paths = scope.paths
    cuts = remembered("cuts", list[Published], lambda: _published(paths, f"limit {MOST_CUTS}"))
    if len(cuts) == MOST_CUTS and cuts[-1].at > scope.since:
        cuts = _published(paths, "")
    new = [each for each in cuts if each.at > scope.since]
    if not new:
        return
    was, until = cuts[len(new)].valid_through if len(cuts) > len(new) else None, new[0].valid_through
    went = f"moved from {was} to {until}"
    if was is None:
        went = f"is {until}; there was none before"
    elif was == until:
        went = f"stays at {until}"
    what = f"{counted(len(new), 'cut')} published: valid-through {went}"
    yield Change(MOVED, CUTS, "", what, new[0].at, count=len(new))


def _published(paths: TablePaths, limit: str) -> list[Published]:
    sql = f"select published_at as at, valid_through from t order by cut_id desc {limit}"
    return [Published(**row) for row in small_tables.query(paths.table(names.CUTS), sql)]


def _redriven(scope: Scope) -> Iterator[Change]:
    """Yield how many dead transactions were released."""
    path = scope.paths.table(names.TRANSACTIONS)
    if not exists(scope.paths.dead_letters) or scope.is_unchanged(names.TRANSACTIONS):
        return
    tables = {"t": opened(path), "d": opened(scope.paths.dead_letters)}
    dead = "exists (select 1 from d where d.transaction_id = t.transaction_id and d.csn is not distinct from t.csn)"
    where = f"status = 'released' and finished_at > {scope.after} and {dead}"
    sql = f"select count(*) as n, max(finished_at) as at from t where {where}"
    for row in arrow_tables.ask(tables, sql).to_pylist():
        if row["n"]:
            what = f"{counted(row['n'], 'dead transaction')} redriven and released"
            yield Change(OVER, REDRIVEN, "", what, row["at"], count=row["n"])


def _columns(scope: Scope) -> Iterator[Change]:
    """Yield columns that the newest cut shows and the one before the moment did not; none where that is vacuumed."""
    if scope.is_unchanged(names.CUTS):
        return
    before = newest_cut(scope.paths, "versions", f"published_at <= {scope.after}")
    after = newest_cut(scope.paths, "versions, published_at")
    if before is None or after is None:
        return
    for table in scope.pipeline.current_tables:
        then, now = (dict(row["versions"] or ()).get(table) for row in (before, after))
        if then is not None and now is not None and then != now:
            added = _added(scope.paths.table(table), then)
            if added:
                what = f"{table} has {counted(len(added), 'new column')}: {', '.join(added)}"
                yield Change(OVER, COLUMNS, table, what, after["published_at"])


def _added(path: str, then: int) -> list[str]:
    """Return the columns that a table has now and had not at a version; none where it cannot be opened there."""
    try:
        earlier = arrow_tables.schema_of(opened(path, then)).names
        now = arrow_tables.schema_of(opened(path)).names
    except (DeltaError, TableNotFoundError):
        return []
    return [name for name in now if name not in earlier and not name.startswith(names.SYSTEM_PREFIX)]


BRIEF: tuple[Rule, ...] = (
    *(_incidents, _expectations, _findings, _letters, _waiting),
    *(_dismissed, _adopted, _backfills, _cuts),
)
MORE: tuple[Rule, ...] = (_redriven, _columns)


def moment_of(text: str, now: datetime) -> datetime:
    """Return the moment that a text names: a duration such as 2h before now, or a time in ISO 8601, of UTC by default.

    Raises ConfigurationError for anything else, and for a moment that is still to come.

    >>> noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    >>> moment_of("2h", noon) == moment_of("2026-01-02T10:00:00Z", noon) == moment_of("2026-01-02 10:00", noon)
    True
    """
    try:
        at = _moment(text, now)
    except (Unfit, ValueError, OverflowError):
        raise ConfigurationError(f"since: found {text!r}, expected a duration such as 2h or an ISO 8601 time") from None
    if at > now:
        raise ConfigurationError(f"since: {text!r} is still to come")
    return at


def _moment(text: str, now: datetime) -> datetime:
    if re.fullmatch(PATTERN, text):
        return now - parse_duration(text)
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
