"""The lifecycle of an incident: it opens and closes, and each channel gets one message for either; reads no table.

One lifecycle is one period in which something was wrong. For each kind and subject at most one is open. Messages go out
at least once: they are claimed, sent, and recorded as sent; a sender that dies between sending and recording sends
again, under the same message id.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from txloom.quality.incidents import Incident

CLAIM = timedelta(minutes=3)
"""After this time the sender of a claim is taken for dead, and the next sender takes the message."""
KEPT = 500
"""Lifecycles that are over and still kept; older ones are removed."""
OPENED, CLOSED = "opened", "closed"


@dataclass(frozen=True)
class IncidentLifecycle:
    """One period in which something was wrong.

    opened_to, closed_to: the channels that got the message about its opening and its closing. claimed_by: the sender
    that is sending its messages now, since claimed_at.
    """

    incident: Incident
    opened_at: datetime
    closed_at: datetime | None = None
    opened_to: frozenset[str] = frozenset()
    closed_to: frozenset[str] = frozenset()
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    is_over: bool = False
    """It is closed, and every channel got both messages."""

    @property
    def key(self) -> tuple[str, str, datetime]:
        """Return the key that identifies it among all lifecycles, open or over."""
        return (*self.incident.key, self.opened_at)


@dataclass(frozen=True)
class Due:
    """A message that has to be sent."""

    lifecycle: IncidentLifecycle
    event: str
    channel: str


def judged(
    known: Sequence[IncidentLifecycle], incidents: Sequence[Incident], *, kinds: Collection[str], now: datetime
) -> list[IncidentLifecycle]:
    """Return the lifecycles after a check: new incidents open, incidents that are gone close, the others are updated.

    Args:
        known: the lifecycles so far.
        incidents: what is wrong now; an open lifecycle takes over everything but `since`, which stays.
        kinds: only open lifecycles of these kinds can close: the check covered no others.
        now: when lifecycles close, and the earliest time at which they open.
    """
    unmatched = {each.key: each for each in incidents}
    after = []
    for lifecycle in known:
        if lifecycle.closed_at is not None or lifecycle.incident.kind not in kinds:
            after.append(lifecycle)
        elif (newest := unmatched.pop(lifecycle.incident.key, None)) is not None:
            after.append(replace(lifecycle, incident=replace(newest, since=lifecycle.incident.since)))
        else:
            after.append(replace(lifecycle, closed_at=now))
    fresh = _latest(known, now)
    return [*after, *(IncidentLifecycle(each, fresh) for each in unmatched.values())]


def _latest(known: Sequence[IncidentLifecycle], now: datetime) -> datetime:
    """Return a time later than any lifecycle opened, also where a clock was set back: it is part of a message's id."""
    last = max((each.opened_at for each in known), default=now)
    return now if now > last or not known else last + timedelta(microseconds=1)


def due(lifecycle: IncidentLifecycle, channels: Collection[str]) -> list[Due]:
    """Return the messages that are due; for each channel that lacks both, the one about the opening comes first."""
    if lifecycle.is_over:
        return []
    opening = [Due(lifecycle, OPENED, name) for name in channels if name not in lifecycle.opened_to]
    if lifecycle.closed_at is None:
        return opening
    return opening + [Due(lifecycle, CLOSED, name) for name in channels if name not in lifecycle.closed_to]


def claimed(
    lifecycles: Sequence[IncidentLifecycle], channels: Collection[str], *, by: str, now: datetime
) -> list[IncidentLifecycle]:
    """Return the lifecycles, with this sender's claim on each that has messages due and no claim of a living sender."""
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
    """Return the lifecycles with sent messages recorded and this sender's claims removed.

    Of those that are over, only the KEPT newest stay.
    """
    sent_by_key: dict[tuple[str, str, datetime], list[Due]] = {}
    for each in sent:
        sent_by_key.setdefault(each.lifecycle.key, []).append(each)
    after = [_noted(each, sent_by_key.get(each.key, []), channels, by) for each in lifecycles]
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
