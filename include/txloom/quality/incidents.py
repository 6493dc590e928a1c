"""What is wrong with a pipeline now: facts out of its tables in, incidents out; nothing is read or sent here.

An old valid-through has one cause at a time: the pipeline is broken; else tables are not complete and cuts are held;
else transactions wait; else the source is quiet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.config.models.alerts import Alerts
from txloom.config.models.durations import show_duration

BROKEN = "pipeline broken"
OLD = "valid-through old"
QUIET = "source quiet"
STUCK = "stuck transactions"
DEAD = "dead letters"
EXPECTATION = "failed expectation"
FINDING = "finding"
UNBALANCED = "ledger unbalanced"
GONE = "table gone"
TASK = "failed task"
JUDGED = (BROKEN, OLD, QUIET, STUCK, DEAD, EXPECTATION, FINDING, UNBALANCED, GONE)
"""Kinds that are worked out from tables; a failed task is reported by the task's callback instead."""
SAMPLE = 5
"""Rows that a message shows; totals count all of them."""

ADVICE = {
    BROKEN: "Open the DAG: is it paused, does a run hang, which task is red? A red task's last line says what to do; "
    "readers keep the last cut meanwhile.",
    OLD: "The rows say what each transaction waits for: look whether the producer of the missing table, and of the "
    "transaction metadata, still delivers. After patience they become dead letters and valid-through moves on.",
    QUIET: "The pipeline works and has nothing to do: ask whether the source is idle, or whether its capture (extract, "
    "connector, export) has stopped.",
    STUCK: "pending_transactions says what each one waits for: look whether the topic of the missing table, and the "
    "transaction metadata, still deliver.",
    UNBALANCED: "Events are unaccounted for: clear nothing, keep the ledger's row (step balance), open an issue with "
    "it.",
    GONE: "Readers of the newest cut fail on it, and nothing is published until the next cycle has written it anew out "
    "of its history. Ask who moved it.",
    TASK: "Do what the sentence says, then clear the task: every task can be run again.",
}

HOLD_ADVICE = (
    "The finding of each source table says which rows are missing and which snapshot to load. To publish the other "
    "tables meanwhile, declare targets.incomplete: publish_without."
)


@dataclass(frozen=True)
class Rows:
    """Rows that are concerned: how many, since when, the first of them in words, and what to do about them."""

    total: int = 0
    since: datetime | None = None
    first: tuple[str, ...] = ()
    todo: str = ""


@dataclass(frozen=True)
class PendingStep:
    """Work that a step has not done yet: which, and since when it waits."""

    what: str
    since: datetime | None


@dataclass(frozen=True)
class Facts:
    """The state of a pipeline's tables; times are None where there is nothing yet."""

    now: datetime
    valid_through: int | None = None
    valid_at: datetime | None = None
    """When the source committed the transaction at valid-through: the state of the source that readers see."""
    published_at: datetime | None = None
    """When the newest cut was published."""
    landed_at: datetime | None = None
    """When a landing last brought something new."""
    judged_at: datetime | None = None
    """When a check of the source, or a landing, last succeeded, whether or not there was something new."""
    pending_steps: PendingStep | None = None
    lease: PendingStep | None = None
    waiting: Rows = Rows()
    stuck: Rows = Rows()
    dead_letters: Rows = Rows()
    expectations: Sequence[dict[str, Any]] = ()
    """Each expectation that failed when it was last checked: expectation, severity, sentence, hint, failed, checked,
    first (rows), since.
    """
    findings: Sequence[dict[str, Any]] = ()
    unbalanced: PendingStep | None = None
    gone: Sequence[str] = ()
    """Tables of the newest cut that do not exist any more."""
    held: Sequence[str] = ()
    """Current tables that are not complete, because of which no cut is published (`targets.incomplete: hold`)."""
    stepped_at: datetime | None = None
    """When a step of the pipeline last ended, whichever it was."""


@dataclass(frozen=True)
class Incident:
    """One thing that is wrong; kind and subject identify it."""

    kind: str
    subject: str
    since: datetime | None
    severity: str
    what: str
    todo: str
    total: int = 0
    rows: tuple[str, ...] = field(default=())
    page: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return kind and subject, which identify it among open incidents."""
        return self.kind, self.subject


def incidents(facts: Facts, alerts: Alerts, pipeline: str) -> list[Incident]:
    """Return what is wrong now, by the limits that the pipeline's alerts declare."""
    rules = (_progress, _stuck, _letters, _expectations, _findings, _unbalanced, _gone)
    return [incident for rule in rules for incident in rule(facts, alerts, pipeline)]


Rule = Callable[[Facts, Alerts, str], Iterator[Incident]]


def _progress(facts: Facts, alerts: Alerts, pipeline: str) -> Iterator[Incident]:
    """Yield at most one incident: the reason why readers see an old state."""
    cdc = f"dags/{names.cdc_dag_id(pipeline)}"
    limit = alerts.valid_through_age or alerts.source_quiet
    if limit is None:
        return
    reasons = _broken(facts, limit)
    if reasons:
        since = min((each.since for each in reasons if each.since is not None), default=None)
        what = "; ".join(each.what for each in reasons)
        yield Incident(BROKEN, "", since, "error", f"{what}. {_shown(facts)}", ADVICE[BROKEN], page=cdc)
    elif facts.held:
        if _older(facts.now, facts.valid_at, limit):
            what = f"No cut is published while {', '.join(facts.held)} {_are(facts.held)} not complete. {_shown(facts)}"
            yield Incident(OLD, "", facts.published_at, "error", what, HOLD_ADVICE, page=cdc)
    elif facts.waiting.total:
        old = alerts.valid_through_age
        if old is not None and _older(facts.now, facts.valid_at, old) and facts.valid_at is not None:
            rows = facts.waiting
            what = f"{_shown(facts)} {_many(facts.waiting.total, 'transaction waits', 'transactions wait')} above it."
            yield Incident(OLD, "", rows.since, "error", what, ADVICE[OLD], rows.total, rows.first, cdc)
    elif alerts.source_quiet is not None and _older(facts.now, facts.landed_at, alerts.source_quiet):
        what = f"Nothing new came for {_age(facts.now, facts.landed_at)}, though landing works. {_shown(facts)}"
        yield Incident(QUIET, "", facts.landed_at, "warn", what, ADVICE[QUIET], page=cdc)


def _broken(facts: Facts, limit: timedelta) -> list[PendingStep]:
    """Return the work that a working pipeline would have done within the limit."""
    if facts.judged_at is None:
        return [PendingStep("Nothing was ever landed", None)]
    troubles = []
    if _older(facts.now, facts.judged_at, limit):
        troubles.append(PendingStep(f"No landing succeeded for {_age(facts.now, facts.judged_at)}", facts.judged_at))
    late = [
        each for each in (facts.pending_steps, facts.lease) if each is not None and _older(facts.now, each.since, limit)
    ]
    return troubles + [PendingStep(f"{each.what} for {_age(facts.now, each.since)}", each.since) for each in late]


def _gone(facts: Facts, _: Alerts, pipeline: str) -> Iterator[Incident]:
    """Yield one incident for all tables of the newest cut that do not exist any more."""
    if facts.gone:
        what = f"{_many(len(facts.gone), 'table of the newest cut is', 'tables of the newest cut are')} gone."
        page = f"dags/{names.cdc_dag_id(pipeline)}"
        yield Incident(GONE, "", None, "error", what, ADVICE[GONE], len(facts.gone), tuple(facts.gone[:SAMPLE]), page)


def _stuck(facts: Facts, alerts: Alerts, pipeline: str) -> Iterator[Incident]:
    if alerts.stuck_after is not None and (rows := facts.stuck).total:
        limit = show_duration(alerts.stuck_after)
        many = _many(rows.total, "transaction has", "transactions have")
        what = f"{many} waited for missing parts for more than {limit}."
        page = f"dags/{names.cdc_dag_id(pipeline)}"
        yield Incident(STUCK, "", rows.since, "warn", what, ADVICE[STUCK], rows.total, rows.first, page)


def _letters(facts: Facts, alerts: Alerts, pipeline: str) -> Iterator[Incident]:
    if alerts.dead_letters is not None and (rows := facts.dead_letters).total > alerts.dead_letters:
        what = f"{_many(rows.total, 'dead letter is', 'dead letters are')} open; {alerts.dead_letters} may be."
        page = f"dags/{names.dead_letters_dag_id(pipeline)}"
        todo = f"{rows.todo} Then run the DAG {names.dead_letters_dag_id(pipeline)}."
        yield Incident(DEAD, "", rows.since, "error", what, todo, rows.total, rows.first, page)


def _expectations(facts: Facts, _: Alerts, pipeline: str) -> Iterator[Incident]:
    for each in facts.expectations:
        if each["severity"] != "info":
            severity = "error" if each["severity"] == "block" else "warn"
            held = " Nothing is published until it passes." if each["severity"] == "block" else ""
            what = f"{each['sentence']} {each['failed']} of {each['checked']} rows fail.{held}"
            page, first = f"dags/{names.cdc_dag_id(pipeline)}", tuple(each["first"])
            name, total = each["expectation"], each["failed"]
            yield Incident(EXPECTATION, name, each["since"], severity, what, each["hint"], total, first, page)


def _findings(facts: Facts, _: Alerts, pipeline: str) -> Iterator[Incident]:
    """Yield an incident for each finding of severity error; findings on several transactions of a table share one."""
    subjects: dict[str, list[dict[str, Any]]] = {}
    for each in facts.findings:
        if each["severity"] == "error":
            subjects.setdefault(subject_of(each), []).append(each)
    page = f"dags/{names.cdc_dag_id(pipeline)}"
    for subject, rows in subjects.items():
        since, hint = min(each["at"] for each in rows), rows[0]["hint"]
        lines = [each["evidence"] for each in rows]
        more = f" And {_many(len(rows) - 1, 'more transaction', 'more transactions')}." if len(rows) > 1 else ""
        total, first = (len(rows), tuple(lines[:SAMPLE])) if more else (0, ())
        yield Incident(FINDING, subject, since, "error", f"{lines[0]}.{more}", hint, total, first, page)


def subject_of(finding: Mapping[str, Any]) -> str:
    """Return the subject of a finding's incident: its code, and the table and column where it has them.

    >>> subject_of({"code": "column dropped", "table": "items", "column": "note"})
    'column dropped: items.note'
    """
    where = ".".join(name for name in (finding["table"], finding["column"]) if name)
    return f"{finding['code']}: {where}" if where else str(finding["code"])


def _unbalanced(facts: Facts, _: Alerts, pipeline: str) -> Iterator[Incident]:
    if (unbalanced := facts.unbalanced) is not None:
        page = f"dags/{names.cdc_dag_id(pipeline)}"
        yield Incident(UNBALANCED, "", unbalanced.since, "error", f"{unbalanced.what}.", ADVICE[UNBALANCED], page=page)


def _older(now: datetime, moment: datetime | None, limit: timedelta) -> bool:
    return moment is None or now - moment > limit


def _shown(facts: Facts) -> str:
    """Return a sentence on what readers see: valid-through, and when the source committed it."""
    if facts.valid_through is None:
        return "Nothing is published yet."
    at = "" if facts.valid_at is None else f", the source as of {moment(facts.valid_at)}"
    return f"Readers see valid-through {facts.valid_through}{at}."


def moment(at: datetime) -> str:
    """Return a time as messages show it, in UTC to the second.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    '2026-01-02 03:04:05 UTC'
    """
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _age(now: datetime, since: datetime | None) -> str:
    """Return an age in whole minutes, hours or days, rounded down."""
    if since is None:
        return "ever"
    minutes = int((now - since).total_seconds() // 60)
    size, unit = (1440, "days") if minutes >= 2880 else (60, "hours") if minutes >= 120 else (1, "minutes")
    return f"{minutes // size} {unit}"


def _are(names_of: Sequence[str]) -> str:
    return "is" if len(names_of) == 1 else "are"


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
