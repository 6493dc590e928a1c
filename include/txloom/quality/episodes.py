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
class Episode:
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

    episode: Episode
    event: str
    channel: str


def judged(
    known: Sequence[Episode], found: Sequence[Incident], *, kinds: Collection[str], now: datetime
) -> list[Episode]:
    """Open what is found and not open; close what is open, of these kinds, and not found; else keep the newest."""
    there = {each.key: each for each in found}
    after = []
    for episode in known:
        if episode.closed_at is not None or episode.incident.kind not in kinds:
            after.append(episode)
        elif (newest := there.pop(episode.incident.key, None)) is not None:
            after.append(replace(episode, incident=replace(newest, since=episode.incident.since)))
        else:
            after.append(replace(episode, closed_at=now))
    fresh = _latest(known, now)
    return [*after, *(Episode(each, fresh) for each in there.values())]


def _latest(known: Sequence[Episode], now: datetime) -> datetime:
    """Return a moment that no episode opened at, also where a clock was set back: it is part of a message's id."""
    last = max((each.opened_at for each in known), default=now)
    return now if now > last or not known else last + timedelta(microseconds=1)


def due(episode: Episode, channels: Collection[str]) -> list[Due]:
    """Return the messages that are due, an opening before its closing; who heard of no opening hears of no closing."""
    if episode.is_over:
        return []
    opening = [Due(episode, OPENED, name) for name in channels if name not in episode.opened_to]
    if episode.closed_at is None:
        return opening
    return opening + [Due(episode, CLOSED, name) for name in channels if name not in episode.closed_to]


def claimed(episodes: Sequence[Episode], channels: Collection[str], *, by: str, now: datetime) -> list[Episode]:
    """Claim every message that is due and that no living sender has claimed."""
    return [
        replace(each, claimed_by=by, claimed_at=now) if due(each, channels) and _is_free(each, by, now) else each
        for each in episodes
    ]


def _is_free(episode: Episode, by: str, now: datetime) -> bool:
    if episode.claimed_by in (None, by) or episode.claimed_at is None:
        return True
    return abs(now - episode.claimed_at) > CLAIM


def noted(episodes: Sequence[Episode], sent: Sequence[Due], channels: Collection[str], *, by: str) -> list[Episode]:
    """Note what was sent, and give back what this sender had claimed."""
    gone: dict[tuple[str, str, datetime], list[Due]] = {}
    for each in sent:
        gone.setdefault(each.episode.key, []).append(each)
    after = [_noted(each, gone.get(each.key, []), channels, by) for each in episodes]
    over = [each for each in after if each.is_over]
    forgotten = {each.key for each in sorted(over, key=lambda each: each.opened_at)[: max(0, len(over) - KEPT)]}
    return [each for each in after if each.key not in forgotten]


def _noted(episode: Episode, sent: Sequence[Due], channels: Collection[str], by: str) -> Episode:
    told = {event: {each.channel for each in sent if each.event == event} for event in (OPENED, CLOSED)}
    after = replace(episode, opened_to=episode.opened_to | told[OPENED], closed_to=episode.closed_to | told[CLOSED])
    if after.claimed_by == by:
        after = replace(after, claimed_by=None, claimed_at=None)
    return replace(after, is_over=after.closed_at is not None and not due(after, channels))
