"""alert: find the incidents of a pipeline, record them in `incidents`, and send a message when one begins and ends.

It needs no lease and does not wait for other tasks: a merge may run for an hour, and be what is wrong. Messages are
sent at least once: if the process dies between sending one and recording that, the next run sends it again.
"""

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from txloom.config.models.alerts import Alerts
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, ExpectationFailed, MessageUnsent
from txloom.quality import incidents as rules
from txloom.quality.incident_lifecycle import Due, IncidentLifecycle, claimed, due, judged, noted
from txloom.quality.incidents import ADVICE, TASK, Incident
from txloom.quality.messages import message
from txloom.steps.alerts.notifiers import Notifier, notifiers
from txloom.steps.step import Counts, Step
from txloom.storage.health import incidents
from txloom.storage.health.facts import facts
from txloom.storage.health.metrics import Metric, metrics
from txloom.storage.health.remembered import Memory, remembering
from txloom.storage.paths import TablePaths
from txloom.storage.views.pipeline.overview import remember

BASE_URL = "AIRFLOW__API__BASE_URL"
"""The variable with the URL of Airflow; links in messages begin with it."""
LONGEST = 1_000
"""Characters of a task's error message that are kept."""


def alert(
    step: Step,
    environment: Mapping[str, str] | None = None,
    *,
    source_was_checked: bool = False,
    report: Callable[[Sequence[Metric]], None] = lambda _: None,
) -> Counts:
    """Judge the tables as they are now, record incidents and send the messages that are due.

    Args:
        step: the pipeline, its tables and the run.
        environment: has the connections of channels, and BASE_URL; None: os.environ.
        source_was_checked: this run has checked that the source can be read.
        report: takes the state of the pipeline as numbers, before any message is sent.

    Returns:
        open: open incidents. sent: messages sent. waiting: waiting transactions. dead_letters: open dead letters.
        valid_through_age: seconds since the newest commit that readers see.

    Raises:
        MessageUnsent: if a channel did not take a message. The other channels did, and the next call tries it again.
    """
    pipeline, paths, now = step.pipeline, step.paths, datetime.now(UTC)
    if pipeline.alerts is None:
        return {"open": 0, "sent": 0}
    # Whoever gets a message can rely on it: only the overview trusts what was remembered.
    with remembering(paths, Memory.nothing(paths)) as memory:
        known = facts(pipeline, paths, now)
    report(metrics(known))
    incidents = rules.incidents(known, pipeline.alerts, pipeline.name)
    counts = _update_incidents(
        paths, pipeline.alerts, lambda _: incidents, rules.JUDGED, environment, now if source_was_checked else None
    )
    remember(pipeline, paths.warehouse, memory)
    age = {} if known.valid_at is None else {"valid_through_age": int((now - known.valid_at).total_seconds())}
    return {**counts, "waiting": known.waiting.total, "dead_letters": known.dead_letters.total, **age}


@dataclass(frozen=True)
class FailedTask:
    """A task that failed for good.

    Args:
        name: `DAG.TASK`.
        sentence: the message of its error.
        page: where Airflow shows it, below its base URL.
        exit_code: that of its job; None where the job left none.
    """

    name: str
    sentence: str
    page: str = ""
    exit_code: int | None = None


def task_failed(
    pipeline: Pipeline, failed: FailedTask, *, warehouse: str, environment: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Open the incident of a failed task and send its message; it stays open until the task succeeds.

    A task that failed because of expectations opens none: each of them is an incident already. A repeated call opens
    no second incident.

    Args:
        pipeline: the declaration.
        failed: the task.
        warehouse: where the pipeline's tables are.
        environment: as in `alert`.

    Returns:
        open and sent, as `alert` does.

    Raises:
        MessageUnsent: as `alert` does.
    """
    if pipeline.alerts is None:
        return {"open": 0, "sent": 0}
    paths, task, text = TablePaths(warehouse, pipeline.name), failed.name, failed.sentence
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    incident = Incident(TASK, task, datetime.now(UTC), "error", " ".join(short.split()), ADVICE[TASK], page=failed.page)
    news = [] if failed.exit_code == ExpectationFailed.exit_code else [incident]
    return _update_incidents(paths, pipeline.alerts, lambda known: [*_others(known, task), *news], (TASK,), environment)


def task_succeeded(
    pipeline: Pipeline, *, warehouse: str, task: str, environment: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Close the incident of a task, where one is open, and send its message; return open and sent, as `alert` does.

    Args:
        pipeline: the declaration.
        warehouse: where the pipeline's tables are.
        task: `DAG.TASK`.
        environment: as in `alert`.

    Raises:
        MessageUnsent: as `alert` does.
    """
    if pipeline.alerts is None or not is_failed(pipeline.name, warehouse=warehouse, task=task):
        return {"open": 0, "sent": 0}
    paths = TablePaths(warehouse, pipeline.name)
    return _update_incidents(paths, pipeline.alerts, lambda known: _others(known, task), (TASK,), environment)


def is_failed(pipeline: str, *, warehouse: str, task: str) -> bool:
    """Say whether the incident of a failed task, `DAG.TASK`, is open."""
    known = incidents.lifecycles(TablePaths(warehouse, pipeline))
    return any(_is_open(each) and each.incident.key == (TASK, task) for each in known)


def _others(known: Sequence[IncidentLifecycle], task: str) -> list[Incident]:
    """Return the open incidents of other tasks, which stay open."""
    open_incidents = [each.incident for each in known if _is_open(each) and each.incident.kind == TASK]
    return [each for each in open_incidents if each.subject != task]


def _is_open(lifecycle: IncidentLifecycle) -> bool:
    return lifecycle.closed_at is None


def _update_incidents(
    paths: TablePaths,
    alerts: Alerts,
    find: Callable[[Sequence[IncidentLifecycle]], Sequence[Incident]],
    kinds: Sequence[str],
    environment: Mapping[str, str] | None,
    judged_at: datetime | None = None,
) -> dict[str, int]:
    """Record incidents, claim the messages that are due, send them, and record which were sent.

    find: returns the incidents that there are now, from those that are recorded. kinds: the kinds that it judges;
    others stay as they are. judged_at: also record that the source was checked at this time.
    """
    channels = notifiers(alerts, os.environ if environment is None else environment)
    there, me = [each.name for each in channels], uuid.uuid4().hex
    now = datetime.now(UTC)

    def decide(known: list[IncidentLifecycle]) -> list[IncidentLifecycle]:
        return claimed(judged(known, find(known), kinds=kinds, now=now), there, by=me, now=now)

    known = incidents.change(paths, decide, checked_at=judged_at)
    mine = [message_ for each in known if each.claimed_by == me for message_ in due(each, there)]
    sent, failures = _send(paths.pipeline, mine, channels, base_url(environment))
    after = known
    if mine:
        after = incidents.change(paths, lambda known: noted(known, sent, there, by=me))
    if failures:
        raise MessageUnsent("; ".join(dict.fromkeys(failures)))
    return {"open": sum(map(_is_open, after)), "sent": len(sent)}


def base_url(environment: Mapping[str, str] | None) -> str:
    """Return the URL of Airflow from the environment (None: os.environ); empty where it is not set."""
    return (os.environ if environment is None else environment).get(BASE_URL, "")


def _send(pipeline: str, mine: Sequence[Due], channels: Sequence[Notifier], url: str) -> tuple[list[Due], list[str]]:
    """Send messages in order; return those that were sent, and the errors of channels.

    A channel that failed gets no further message, so that no end of an incident arrives before its beginning.
    """
    sent: list[Due] = []
    failures: dict[str, str] = {}
    by_name = {each.name: each for each in channels}
    for each in mine:
        if each.channel in failures:
            continue
        try:
            by_name[each.channel].send(message(pipeline, each, url))
        except (MessageUnsent, ConfigurationError) as error:
            failures[each.channel] = str(error)
        else:
            sent.append(each)
    return sent, list(failures.values())
