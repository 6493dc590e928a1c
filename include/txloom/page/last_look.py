"""The moment of somebody's last look. Only the browser keeps it: a cookie with two times, in seconds since 1970.

A look lasts as long as pages are opened within PAUSE of each other: then what changed is shown since the end of the
look before. So a page that is loaded again shows the same, and whoever marks all as seen begins a new look.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

COOKIE = "txloom_look"
PAUSE = timedelta(minutes=10)
"""After this time without a page a new look begins."""
FIRST, LONGEST = timedelta(days=1), timedelta(days=30)
"""How far back a browser sees that never looked, and any browser at most."""
NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Look:
    """A look that goes on: since when changes are shown, and when its newest page was opened."""

    since: datetime
    seen: datetime
    is_first: bool = False
    """The browser never looked before."""

    def to_cookie(self) -> str:
        """Return the cookie's value; whole seconds, rounded down, so that nothing is passed over; 0: never looked.

        >>> Look(datetime.fromtimestamp(60.9, UTC), datetime.fromtimestamp(90, UTC)).to_cookie()
        '60-90'
        """
        since = 0 if self.is_first else int(self.since.timestamp())
        return f"{since}-{int(self.seen.timestamp())}"


def look(cookie: str | None, now: datetime) -> Look:
    """Return the look to which a page belongs that is opened now; cookie: what the browser sent, whatever it is."""
    known = _parsed(cookie)
    if known is None or not known[0] <= known[1] <= now:
        return Look(now - FIRST, now, is_first=True)
    since, seen = known
    if now - seen <= PAUSE and since == NEVER:
        return Look(now - FIRST, now, is_first=True)
    return Look(max(since if now - seen <= PAUSE else seen, now - LONGEST), now)


def marked(now: datetime) -> Look:
    """Return the look of somebody who has seen everything up to now."""
    return Look(now, now)


def _parsed(cookie: str | None) -> tuple[datetime, datetime] | None:
    if cookie is None or (times := re.fullmatch(r"([0-9]{1,11})-([0-9]{1,11})", cookie)) is None:
        return None
    since, seen = (datetime.fromtimestamp(int(each), UTC) for each in times.groups())
    return since, seen
