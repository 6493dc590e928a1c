"""The life of an incident: it opens, it closes, and each channel is told once of both; rules without any table.

An episode is one time that something was wrong. Of each kind and subject one is open at most. Messages go out at least
once: they are claimed, sent, and noted as sent; a sender that dies between sending and noting sends again, under the
same id.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from txloom.quality.incidents import Incident

CLAIM = timedelta(minutes=3)
"""After this a sender is taken for dead, and whoever comes next sends."""
KEPT = 500
"""Episodes that are over and still kept."""
OPENED, CLOSED = "opened", "closed"


@dataclass(frozen=True)
class IncidentLifecycle:
    """One time that something was wrong; opened_to, closed_to: the channels that know."""

    incident: Incident
    opened_at: datetime
    closed_at: datetime | None = None
    opened_to: frozenset[str] = frozenset()
    closed_to: frozenset[str] = frozenset()
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    is_over: bool = False
    """It is closed, and every channel was told."""

    @property
    def key(self) -> tuple[str, str, datetime]:
        """Return what tells it from all others."""
        return (*self.incident.key, self.opened_at)


@dataclass(frozen=True)
class Due:
    """A message that has to go out."""

    lifecycle: IncidentLifecycle
    event: str
    channel: str


def judged(
    known: Sequence[IncidentLifecycle], incidents: Sequence[Incident], *, kinds: Collection[str], now: datetime
) -> list[IncidentLifecycle]:
    """Open what is found and not open; close what is open, of these kinds, and not found; else keep the newest."""
    there = {each.key: each for each in incidents}
    after = []
    for lifecycle in known:
        if lifecycle.closed_at is not None or lifecycle.incident.kind not in kinds:
            after.append(lifecycle)
        elif (newest := there.pop(lifecycle.incident.key, None)) is not None:
            after.append(replace(lifecycle, incident=replace(newest, since=lifecycle.incident.since)))
        else:
            after.append(replace(lifecycle, closed_at=now))
    fresh = _latest(known, now)
    return [*after, *(IncidentLifecycle(each, fresh) for each in there.values())]


def _latest(known: Sequence[IncidentLifecycle], now: datetime) -> datetime:
    """Return a moment that no episode opened at, also where a clock was set back: it is part of a message's id."""
    last = max((each.opened_at for each in known), default=now)
    return now if now > last or not known else last + timedelta(microseconds=1)


def due(lifecycle: IncidentLifecycle, channels: Collection[str]) -> list[Due]:
    """Return the messages that are due, an opening before its closing; who heard of no opening hears of no closing."""
    if lifecycle.is_over:
        return []
    opening = [Due(lifecycle, OPENED, name) for name in channels if name not in lifecycle.opened_to]
    if lifecycle.closed_at is None:
        return opening
    return opening + [Due(lifecycle, CLOSED, name) for name in channels if name not in lifecycle.closed_to]


def claimed(
    lifecycles: Sequence[IncidentLifecycle], channels: Collection[str], *, by: str, now: datetime
) -> list[IncidentLifecycle]:
    """Claim every message that is due and that no living sender has claimed."""
    return [
        replace(each, claimed_by=by, claimed_at=now) if due(each, channels) and _is_free(each, by, now) else each
        for each in lifecycles
    ]


def _is_free(lifecycle: IncidentLifecycle, by: str, now: datetime) -> bool:
    if lifecycle.claimed_by in (None, by) or lifecycle.claimed_at is None:
        return True
    return abs(now - lifecycle.claimed_at) > CLAIM


def noted(
    lifecycles: Sequence[IncidentLifecycle], sent: Sequence[Due], channels: Collection[str], *, by: str
) -> list[IncidentLifecycle]:
    """Note what was sent, and give back what this sender had claimed."""
    gone: dict[tuple[str, str, datetime], list[Due]] = {}
    for each in sent:
        gone.setdefault(each.lifecycle.key, []).append(each)
    after = [_noted(each, gone.get(each.key, []), channels, by) for each in lifecycles]
    over = [each for each in after if each.is_over]
    forgotten = {each.key for each in sorted(over, key=lambda each: each.opened_at)[: max(0, len(over) - KEPT)]}
    return [each for each in after if each.key not in forgotten]


def _noted(lifecycle: IncidentLifecycle, sent: Sequence[Due], channels: Collection[str], by: str) -> IncidentLifecycle:
    notified = {event: {each.channel for each in sent if each.event == event} for event in (OPENED, CLOSED)}
    after = replace(
        lifecycle, opened_to=lifecycle.opened_to | notified[OPENED], closed_to=lifecycle.closed_to | notified[CLOSED]
    )
    if after.claimed_by == by:
        after = replace(after, claimed_by=None, claimed_at=None)
    return replace(after, is_over=after.closed_at is not None and not due(after, channels))
