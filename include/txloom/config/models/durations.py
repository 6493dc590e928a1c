"""Durations as people write them: 30s, 15m, 2h, 7d."""

import re
from datetime import timedelta
from typing import Any

from txloom.config.problems import Unfit

EXPECTED = "a duration such as 30s, 15m, 2h or 7d"
PATTERN = r"^[0-9]{1,6}[smhd]$"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_WORDS = re.compile(r"([0-9]{1,6})\s*(s|m|h|d)[a-z]*", re.IGNORECASE)


def parse_duration(value: Any) -> timedelta:
    """Return the duration that a text declares; raises Unfit for anything else.

    >>> parse_duration("15m")
    datetime.timedelta(seconds=900)
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        bare = isinstance(value, int) and not isinstance(value, bool)
        raise Unfit(EXPECTED, "A number alone does not say its unit." if bare else "")
    if re.fullmatch(PATTERN, value):
        return timedelta(**{_UNITS[value[-1]]: int(value[:-1])})
    near = _WORDS.fullmatch(value.strip())
    raise Unfit(EXPECTED, f"Did you mean '{near[1]}{near[2].lower()}'?" if near else "")


def show_duration(value: timedelta) -> str:
    """Return a duration as a declaration writes it.

    >>> show_duration(timedelta(hours=36))
    '36h'
    """
    seconds = int(value.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
